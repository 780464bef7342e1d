// The file that a report goes to: complete lines, and how many findings are in it.

import Glibc
import ZombieGuard

/// A regular file. What is in it is always whole: of a finding that could not be written in full nothing is left.
struct ReportFileWriter {
    let path: String
    private let access: ReportFileAccess
    private var file: Descriptor
    /// In bytes, of what is complete.
    private var length: off_t = 0
    /// Findings that are in it.
    private(set) var findings = 0
    /// A name in the same directory, for a new file that takes this one's place; nil where none can be created there.
    var replacement: String?

    /// Writes whole findings: a text, and how many findings are complete with it.
    typealias Put = (String, Int) throws(SystemError) -> Void

    init(_ access: ReportFileAccess, path: String) {
        self.access = access
        self.path = path
        file = access.file
    }

    var descriptor: Int32 { file.number }
    /// The path without links.
    var resolvedPath: String? { access.resolvedPath }

    /// What was in the file goes.
    mutating func begin() { ftruncate(file.number, 0) }

    /// Adds a text, with which so many findings are complete.
    mutating func append(_ text: String, findings count: Int = 1) throws(SystemError) {
        let bytes = Array(text.utf8)
        try write(bytes, at: length)
        length += off_t(bytes.count)
        findings += count
    }

    /// Writes the file anew, as a new one that takes its place: where that fails, it is as it was. Where it cannot be
    /// replaced (a file that is mounted, a directory that cannot be written to), it is written over.
    mutating func rewrite(_ pieces: (Put) throws(SystemError) -> Void) throws(SystemError) {
        guard let replacement, let status = file.status, status.st_uid == geteuid() else {
            return try writeOver(pieces)
        }
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
        let new = try Descriptor(opening: replacement, in: access.directory, flags: flags, mode: 0o600)
        var replacing = Self(access, path: path)
        replacing.file = new
        do throws(SystemError) {
            try pieces { text, count throws(SystemError) in
                try replacing.append(text, findings: count)
            }
            if fchmod(new.number, status.st_mode & 0o7777) != 0 { throw .last }
        } catch {
            unlinkat(access.directory.number, replacement, 0)
            throw error
        }
        if renameat(access.directory.number, replacement, access.directory.number, access.name) != 0 {
            unlinkat(access.directory.number, replacement, 0)
            return try writeOver(pieces)
        }
        self = replacing
    }

    private mutating func writeOver(_ pieces: (Put) throws(SystemError) -> Void) throws(SystemError) {
        begin()
        (length, findings) = (0, 0)
        try pieces { text, count throws(SystemError) in
            try append(text, findings: count)
        }
    }

    /// Who removes the report while the program runs shall not read that it was written.
    func checkPresence() throws(SystemError) {
        guard let status = file.status else { throw .last }
        if status.st_nlink == 0 { throw SystemError(number: ENOENT) }
        var named = stat()
        guard stat(path, &named) == 0 else { throw .last }
        if status.st_ino != named.st_ino || status.st_dev != named.st_dev { throw SystemError(number: ENOENT) }
    }

    private func write(_ bytes: [UInt8], at offset: off_t) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(file.number, $0.baseAddress! + written, $0.count - written, offset + off_t(written))
            }
            if count >= 0 {
                written += count
            } else if errno != EINTR {
                let failure = SystemError.last
                ftruncate(file.number, offset)
                throw failure
            }
        }
    }
}
