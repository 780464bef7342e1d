// A private directory that is gone when the command ends.

import Glibc
import ZombieGuard

struct TemporaryDirectory {
    let path: String

    /// What root runs may go on as another user (su, setpriv, servers) and has findings to write all the same. Others may
    /// pass through the directory, then, and add to the files in it. They cannot list it, nor guess its name.
    private static var servesOtherUsers: Bool { geteuid() == 0 }
    static var fileMode: mode_t { servesOtherUsers ? 0o622 : 0o600 }

    /// The directory to put it in: TMPDIR where that can be written to and ZGUARD_OPTIONS can name it, else /tmp.
    private static func parent() throws(Failure) -> String {
        let candidates = [Preload.environment("TMPDIR"), "/tmp", "/var/tmp"].compactMap { $0 }
        for candidate in candidates where candidate.hasPrefix("/") && !candidate.contains(":") && candidate.count < 400
        {
            if access(candidate, W_OK | X_OK) == 0 { return candidate }
        }
        throw Failure(
            "cannot find a directory for temporary files", hint: "set TMPDIR", status: ExitStatus.cannotGuard)
    }

    init() throws(Failure) {
        let directory = try Self.parent()
        var template = Array("\(directory)/zguard.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure(
                "cannot create a directory in '\(visible(directory))': \(SystemError.last)",
                status: ExitStatus.cannotGuard)
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        if Self.servesOtherUsers { chmod(path, 0o711) }
    }

    /// Removes the directory and the files in it.
    func remove() {
        let suffixes = [
            "", CountingFile.unwrittenSuffix, RunCoverage.suffix, RunCoverage.untoldSuffix, CrashRequests.suffix,
        ]
        for suffix in suffixes { unlink("\(path)/findings\(suffix)") }
        rmdir(path)
    }
}
