// Writes the report of one run.

import Glibc

/// Writes the report of one run. Appended lines survive the death of this process; at most the line being written is
/// torn. The writer keeps the file locked while it exists, so that no other process removes it.
public final class ReportWriter {
    private let directory: StoreDirectory
    private let name: ReportName
    /// nil once the report is closed.
    private var file: Descriptor?
    /// Bytes of complete lines.
    private var length: off_t = 0
    /// Number of complete lines.
    package private(set) var lines = 0
    /// Whether the file ends in a torn line that could not be truncated.
    private var isTorn = false

    /// Path of the report until it is closed.
    public var path: String { "\(directory.path)/\(name.plain)" }

    init(directory: StoreDirectory, name: ReportName) throws(StoreError) {
        self.directory = directory
        self.name = name
        do throws(SystemError) {
            // Lock the file under a temporary name, then rename it, so that no prune ever sees the report unlocked.
            file = try directory.create(name.temporary)
            try directory.rename(name.temporary, to: name.plain)
        } catch {
            directory.remove(name.temporary)
            throw StoreError("create report", "\(directory.path)/\(name.plain)", error)
        }
    }

    /// Appends a line in one write. Removes a partly written line again.
    ///
    /// - Parameter line: text without line feed.
    /// - Throws: ``StoreError`` if it cannot be written.
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

    /// Replaces the content of the report atomically. On failure the old content stays.
    ///
    /// - Parameter lines: texts without line feeds.
    /// - Throws: ``StoreError`` if they cannot be written.
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

    /// Closes and unlocks the report. Removes a report without lines. If compressing fails, the plain report stays.
    ///
    /// - Parameter compressed: whether to compress the report with gzip.
    /// - Returns: the path of the report; nil if it had no lines.
    /// - Throws: ``StoreError`` if it cannot be closed or compressed.
    @discardableResult
    public func close(compressed: Bool = false) throws(StoreError) -> String? {
        let file = try open()
        // `file` holds the lock until this function returns.
        self.file = nil
        defer { withExtendedLifetime(file) {} }
        if length == 0, !isTorn {
            directory.remove(name.plain)
            return nil
        }
        try checkPresence(file)
        if fsync(file.number) != 0 { throw failure(.last) }
        // Readers stop after GzipSource.mostBytes decompressed bytes: leave a longer report plain.
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
        // Keep the time of the last line: retention and listings use it.
        if let status = file.status { futimens(target.number, [status.st_atim, status.st_mtim]) }
        if fsync(target.number) != 0 { throw .last }
        try directory.rename(name.compressedTemporary, to: name.compressed)
        directory.remove(name.plain)
    }

    private func open() throws(StoreError) -> Descriptor {
        guard let file else { throw failure(SystemError(number: EBADF)) }
        return file
    }

    /// Throws ENOENT if the file was unlinked: without an error, findings would be lost silently.
    private func checkPresence(_ file: Descriptor) throws(StoreError) {
        if let status = file.status, status.st_nlink == 0 { throw failure(SystemError(number: ENOENT)) }
    }

    private func failure(_ error: SystemError) -> StoreError { StoreError("write report", path, error) }

    /// The line with a terminating line feed; inner line feeds become spaces.
    private static func bytes(of line: String) -> [UInt8] {
        let lineFeed = UInt8(ascii: "\n")
        return line.utf8.map { $0 == lineFeed ? UInt8(ascii: " ") : $0 } + [lineFeed]
    }
}
