// Creates the file of a run's raw findings beside its report. Each finding is on disk as soon as the program continues,
// even if zguard or the program is killed later.

import Glibc

/// A file `REPORT.unfinished-XXXXXXXX` to which the guarded processes of a run append. It stays locked while the zguard
/// of the run lives, and is removed when the report is complete. If zguard is killed, the file remains: see
/// ``UnfinishedFindings``.
package final class RunFindings {
    /// Absolute path of the file.
    package let path: String
    /// Descriptor open for reading; its position belongs to the reader.
    package let file: Descriptor
    /// Whether some findings of the run are missing in the file: zguard's own findings, findings of processes without
    /// access to the file, or findings that a process truncated.
    package var isIncomplete = false
    private let directory: StoreDirectory
    private let name: String
    private var line: UnfinishedLine

    /// Creates the file. Throws if the directory of the report is not writable.
    ///
    /// - Parameters:
    ///   - report: path of the report, in an existing directory.
    ///   - run: the run's directory, where processes without access to the file create their own.
    package init(beside report: String, run: String) throws(SystemError) {
        let (folder, base) = Self.split(report)
        guard let real = realpath(folder, nil) else { throw .last }
        defer { free(real) }
        directory = try StoreDirectory(at: String(cString: real))
        name = UnfinishedFindings.name(for: base)
        path = "\(directory.path)/\(name)"
        file = try directory.create(name)
        line = UnfinishedLine(hasBegun: false, directory: run)
        try write()
    }

    /// Records in the file that the report now holds findings of this run only.
    package func begin() {
        line.hasBegun = true
        try? write()
    }

    /// The name of a temporary file, beside the report, for a new version of the report.
    package var replacement: String { UnfinishedFindings.replacement(for: name) }

    /// Whether the file has all findings of the run and is still in its directory.
    package var hasAll: Bool { !isIncomplete && (file.status?.st_nlink ?? 0) > 0 }

    /// Removes the file. Call when the report has all findings of the file.
    package func remove() { directory.remove(name) }

    // Writes the first line, whose length never changes. `file` is open with O_APPEND and cannot overwrite it.
    private func write() throws(SystemError) {
        let bytes = Array(line.text.utf8)
        let other = try directory.open(name, flags: O_WRONLY)
        let count = pwrite(other.number, bytes, bytes.count, 0)
        if count != bytes.count { throw count < 0 ? .last : SystemError(number: ENOSPC) }
    }

    /// Splits a path into directory and name.
    static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = path[..<slash]
        return (directory.isEmpty ? "/" : String(directory), String(path[path.index(after: slash)...]))
    }
}
