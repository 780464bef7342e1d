// The file of one run, while it is written.

import Glibc

/// Writes the report of one run. Lines that were appended stay whatever happens to this process; at most the last one, which
/// was being written when it died, is torn. The file is locked as long as the writer lives, so that nobody removes it.
public final class ReportWriter {
    private let directory: StoreDirectory
    private let name: ReportName
    /// nil when the report is closed.
    private var file: Descriptor?
    /// Of complete lines.
    private var length: off_t = 0
    /// Complete lines.
    package private(set) var lines = 0
    /// Half a line stands at the end and could not be taken away.
    private var isTorn = false

    /// Where the report lies until it is closed.
    public var path: String { "\(directory.path)/\(name.plain)" }

    init(directory: StoreDirectory, name: ReportName) throws(StoreError) {
        self.directory = directory
        self.name = name
        do throws(SystemError) {
            // It gets its name when it is locked: no prune ever sees it without a lock.
            file = try directory.create(name.temporary)
            try directory.rename(name.temporary, to: name.plain)
        } catch {
            directory.remove(name.temporary)
            throw StoreError("create report", "\(directory.path)/\(name.plain)", error)
        }
    }

    /// Adds a line, in one write. A line that cannot be written whole leaves nothing behind.
    ///
    /// - Parameter line: without its line feed.
    /// - Throws: ``StoreError`` where it cannot be written.
    public func append(_ line: String) throws(StoreError) {
        let file = try open()
        let bytes = (isTorn ? [UInt8(ascii: "\n")] : []) + Self.bytes(of: line)
        do throws(SystemError) {
            try file.write(bytes: bytes)
        } catch {
            isTorn = ftruncate(file.number, length) != 0
            throw failure(error)
        }
        isTorn = false
        length += off_t(bytes.count)
        lines += 1
        try checkPresence(file)
    }

    /// Writes the report anew, as these lines: all of it or nothing, and until then the old one stays.
    ///
    /// - Parameter lines: without their line feeds.
    /// - Throws: ``StoreError`` where they cannot be written.
    public func replace(_ lines: [String]) throws(StoreError) {
        try checkPresence(try open())
        do throws(SystemError) {
            let new = try directory.create(name.temporary)
            var written: off_t = 0
            for line in lines {
                let bytes = Self.bytes(of: line)
                try new.write(bytes: bytes)
                written += off_t(bytes.count)
            }
            if fsync(new.number) != 0 { throw .last }
            try directory.rename(name.temporary, to: name.plain)
            file = new
            length = written
            self.lines = lines.count
            isTorn = false
        } catch {
            directory.remove(name.temporary)
            throw failure(error)
        }
    }

    /// Ends the report and lets go of it. Returns its path; nil where it holds no line, and is removed. Where compressing fails,
    /// the report stays as it is.
    ///
    /// - Parameter compressed: whether to pack the report.
    /// - Returns: the report's path; nil where it held no line.
    /// - Throws: ``StoreError`` where it cannot be closed or packed.
    @discardableResult
    public func close(compressed: Bool = false) throws(StoreError) -> String? {
        let file = try open()
        self.file = nil // the lock goes with the last use of the descriptor, at the end of all this
        defer { withExtendedLifetime(file) {} }
        if length == 0, !isTorn {
            directory.remove(name.plain)
            return nil
        }
        try checkPresence(file)
        if fsync(file.number) != 0 { throw failure(.last) }
        // Readers stop behind so many bytes of a compressed file.
        if !compressed || UInt64(length) > GzipSource.mostBytes { return path }
        do throws(SystemError) {
            try compress(file)
        } catch {
            directory.remove(name.compressedTemporary)
            throw StoreError("compress report", path, error)
        }
        return "\(directory.path)/\(name.compressed)"
    }

    private func compress(_ file: Descriptor) throws(SystemError) {
        let target = try directory.create(name.compressedTemporary)
        try GzipWriter.compress(file, to: target)
        // It is as old as its last line.
        if let status = file.status { futimens(target.number, [status.st_atim, status.st_mtim]) }
        if fsync(target.number) != 0 { throw .last }
        try directory.rename(name.compressedTemporary, to: name.compressed)
        directory.remove(name.plain)
    }

    private func open() throws(StoreError) -> Descriptor {
        guard let file else { throw failure(SystemError(number: EBADF)) }
        return file
    }

    /// Whoever removes the directory under a run shall not hear that its findings were written.
    private func checkPresence(_ file: Descriptor) throws(StoreError) {
        if let status = file.status, status.st_nlink == 0 { throw failure(SystemError(number: ENOENT)) }
    }

    private func failure(_ error: SystemError) -> StoreError { StoreError("write report", path, error) }

    /// With its line feed, and no other.
    private static func bytes(of line: String) -> [UInt8] {
        let lineFeed = UInt8(ascii: "\n")
        return line.utf8.map { $0 == lineFeed ? UInt8(ascii: " ") : $0 } + [lineFeed]
    }
}
