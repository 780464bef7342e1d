// Writes a report to a pipe or device without blocking while the program runs.

import Glibc
import ZombieGuard

/// A report that is read while it is written. Text that does not fit into the pipe is buffered.
struct PipeWriter {
    let path: String
    private var file: Descriptor?
    private var waiting: [UInt8] = []
    /// For each finding, the offset in the appended text at which the finding ends.
    private var ends: [Int] = []
    private var written = 0

    /// Maximum number of buffered bytes.
    private static let mostBytes = 64 << 20
    // After the program has ended, zguard waits 2 seconds for a reader to open the FIFO.
    private static let openTries = 200
    private static let openMicroseconds: UInt32 = 10_000
    /// After the program has ended, zguard gives up if the reader reads nothing for this time.
    private static let longestMilliseconds: Int32 = 10_000

    /// `file` is nil if the FIFO has no reader yet.
    init(_ file: Descriptor?, path: String) {
        self.file = file
        self.path = path
    }

    var descriptor: Int32 { file?.number ?? -1 }

    /// Text of an error of this pipe.
    func describe(_ error: any Error) -> String {
        switch (error as? SystemError)?.number {
        case ENXIO, EAGAIN, ETIMEDOUT: "it has no reader"
        default: "\(error)"
        }
    }

    /// Number of findings written completely.
    var findings: Int { ends.count { $0 <= written } }

    /// Appends a text in which `findings` findings end, and writes as much as fits without blocking.
    mutating func append(_ text: String, findings: Int = 1) throws(SystemError) {
        if waiting.count > Self.mostBytes { throw SystemError(number: EAGAIN) }
        waiting += Array(text.utf8)
        let end = written + waiting.count
        ends += Array(repeating: end, count: findings)
        try write(waitingFor: 0)
    }

    /// Writes as much as fits without blocking.
    mutating func write() throws(SystemError) { try write(waitingFor: 0) }

    /// Writes all buffered text. Throws if the reader is missing (ENXIO) or stops reading (ETIMEDOUT).
    mutating func finish() throws(SystemError) {
        if waiting.isEmpty { return }
        var tries = 0
        while file == nil, tries < Self.openTries {
            try open()
            if file == nil { usleep(Self.openMicroseconds) }
            tries += 1
        }
        if file == nil { throw SystemError(number: ENXIO) }
        try write(waitingFor: Self.longestMilliseconds)
        if !waiting.isEmpty { throw SystemError(number: ETIMEDOUT) }
    }

    private mutating func open() throws(SystemError) {
        do {
            file = try ReportFileAccess(opening: path).file
        } catch let error as SystemError {
            if error.number != ENXIO { throw error }
        } catch {
            throw SystemError(number: EPERM)
        }
    }

    private mutating func write(waitingFor milliseconds: Int32) throws(SystemError) {
        if file == nil { try open() }
        guard let file else { return }
        while !waiting.isEmpty {
            let count = waiting.withUnsafeBytes { Glibc.write(file.number, $0.baseAddress, $0.count) }
            if count >= 0 {
                written += count
                waiting.removeFirst(count)
            } else if errno == EAGAIN {
                var ready = pollfd(fd: file.number, events: Int16(POLLOUT), revents: 0)
                if milliseconds == 0 || poll(&ready, 1, milliseconds) == 0 { return }
            } else if errno != EINTR {
                throw .last
            }
        }
    }
}
