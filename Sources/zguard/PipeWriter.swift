// Writes a report to a pipe or a device: never waits for its reader while the program runs.

import Glibc
import ZombieGuard

/// A report that somebody else reads while it is written. What cannot be written yet is kept.
struct PipeWriter {
    let path: String
    private var file: Descriptor?
    private var waiting: [UInt8] = []
    /// Where findings end in what was ever appended, in bytes from its beginning.
    private var ends: [Int] = []
    private var written = 0

    /// What is kept at most for a reader that does not read.
    private static let mostBytes = 64 << 20
    // So long a reader is waited for when the program has ended.
    private static let openTries = 200
    private static let openMicroseconds: UInt32 = 10_000
    /// A reader that is there and reads nothing for so long is not waited for any more when the program has ended.
    private static let longestMilliseconds: Int32 = 10_000

    /// `file` is nil where nobody has opened the other end yet.
    init(_ file: Descriptor?, path: String) {
        self.file = file
        self.path = path
    }

    var descriptor: Int32 { file?.number ?? -1 }

    /// What an error of this pipe says.
    func describe(_ error: any Error) -> String {
        switch (error as? SystemError)?.number {
        case ENXIO, EAGAIN, ETIMEDOUT: "nobody reads it"
        default: "\(error)"
        }
    }

    /// Findings that the pipe has taken.
    var findings: Int { ends.count { $0 <= written } }

    /// Adds a text, with which so many findings are complete, and writes what can be written at once.
    mutating func append(_ text: String, findings: Int = 1) throws(SystemError) {
        if waiting.count > Self.mostBytes { throw SystemError(number: EAGAIN) }
        waiting += Array(text.utf8)
        let end = written + waiting.count
        ends += Array(repeating: end, count: findings)
        try write(waitingFor: 0)
    }

    /// Writes what can be written at once.
    mutating func write() throws(SystemError) { try write(waitingFor: 0) }

    /// Writes all that is left, as long as somebody reads.
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
