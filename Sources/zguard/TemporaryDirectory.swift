// A private directory that is gone when the command ends.

import Glibc
import ZombieGuard

struct TemporaryDirectory {
    let path: String

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
    }

    /// Removes the directory and the one file in it.
    func remove() {
        unlink("\(path)/findings")
        rmdir(path)
    }
}
