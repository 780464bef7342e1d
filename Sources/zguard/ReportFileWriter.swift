// Writes a report to a regular file, and counts the findings in it.

import Glibc
import ZombieGuard

/// A report in a regular file. The file contains only complete findings: an incomplete write is truncated.
struct ReportFileWriter {
    let path: String
    private let access: ReportFileAccess
    private var file: Descriptor
    /// Bytes of complete findings.
    private var length: off_t = 0
    /// Number of findings in the file.
    private(set) var findings = 0
    /// Name of a temporary file in the same directory that can replace this file; nil if none can be created there.
    var replacement: String?

    /// Appends a text and adds the given number of findings that end in it.
    typealias Put = (String, Int) throws(SystemError) -> Void

    init(_ access: ReportFileAccess, path: String) {
        self.access = access
        self.path = path
        file = access.file
    }

    var descriptor: Int32 { file.number }
    /// The path with all symbolic links resolved; nil if unknown.
    var resolvedPath: String? { access.resolvedPath }

    /// Truncates the file.
    mutating func begin() { ftruncate(file.number, 0) }

    /// Appends a text in which `count` findings end.
    mutating func append(_ text: String, findings count: Int = 1) throws(SystemError) {
        let bytes = Array(text.utf8)
        try write(bytes, at: length)
        length += off_t(bytes.count)
        findings += count
    }

    /// Replaces the file atomically by a new one, with rename(2). If the new one cannot be written, the old file is
    /// unchanged. A file that cannot be replaced (another user's, a mount point, or in a directory without write
    /// permission) is overwritten.
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

    /// Throws ENOENT if the report was removed or replaced while the program ran, so that zguard does not claim to have
    /// written it.
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
