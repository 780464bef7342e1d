// The raw findings of a run beside the report that they become: what the program went on after is on the disk, whoever
// is killed.

import Glibc

/// A file `REPORT.unfinished-XXXXXXXX` that the guarded processes of a run append to. It is locked as long as the
/// zguard of the run lives, and removed once the report is complete. Where zguard is killed it stays: see
/// ``RunRemains``.
package final class RunFindings {
    /// The absolute path.
    package let path: String
    /// Open for reading; its position is the reader's.
    package let file: Descriptor
    /// The run has findings that are not in the file: zguard's own, those of processes that may not open it, or some that a
    /// process has cut away.
    package var lacksSome = false
    private let directory: StoreDirectory
    private let name: String
    private var line: UnfinishedLine

    /// Creates the file. Throws where the directory of the report cannot be written to.
    ///
    /// - Parameters:
    ///   - report: path of the report; its directory exists.
    ///   - run: the run's directory, where processes that may not open the file create files of their own.
    package init(beside report: String, run: String) throws(SystemError) {
        let (folder, base) = Self.split(report)
        guard let real = realpath(folder, nil) else { throw .last }
        defer { free(real) }
        directory = try StoreDirectory(at: String(cString: real))
        name = RunRemains.name(for: base)
        path = "\(directory.path)/\(name)"
        file = try directory.create(name)
        line = UnfinishedLine(hasBegun: false, directory: run)
        try write()
    }

    /// The report holds findings of this run alone from now on.
    package func begin() {
        line.hasBegun = true
        try? write()
    }

    /// A name in the directory of the report, for a new one.
    package var replacement: String { RunRemains.replacement(for: name) }

    /// Whether all findings of the run are in the file, and the file is still in its directory.
    package var hasAll: Bool { !lacksSome && (file.status?.st_nlink ?? 0) > 0 }

    /// The report has all that is in the file.
    package func remove() { directory.remove(name) }

    // The first line, which always has the same length. The file itself is open for appending alone.
    private func write() throws(SystemError) {
        let bytes = Array(line.text.utf8)
        let other = try directory.open(name, flags: O_WRONLY)
        let count = pwrite(other.number, bytes, bytes.count, 0)
        if count != bytes.count { throw count < 0 ? .last : SystemError(number: ENOSPC) }
    }

    /// The directory and the name of a path.
    static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = path[..<slash]
        return (directory.isEmpty ? "/" : String(directory), String(path[path.index(after: slash)...]))
    }
}
