// Creates and removes the directory through which the processes of a run and zguard communicate (zg_run_directory.h).

import CZombie
import Glibc

/// `PARENT/zguard.XXXXXX/SECRET`. Only the owner can list the outer directory; only processes with the run's
/// environment know the secret.
package struct RunDirectory {
    package let path: String
    private let outer: String

    /// Programs started by root may switch to another user (su, setpriv, servers). Processes that know the directory's
    /// name can then enter it and create files, but can neither list it nor touch files of others (sticky bit).
    private static var servesOtherUsers: Bool { geteuid() == 0 }
    private static var mode: mode_t { servesOtherUsers ? 0o1733 : 0o700 }
    /// Mode of the socket and of the counter files.
    package static var fileMode: mode_t { servesOtherUsers ? 0o622 : 0o600 }

    /// Mode of the file of focused stacks, which processes only read.
    package static var focusMode: mode_t { servesOtherUsers ? 0o644 : 0o600 }
    /// Maximum number of stacks in the file of focused stacks.
    package static let focusedStacksMost = Int(ZG_RUN_FOCUS_MOST)

    private static let prefix = "/zguard."
    private static let secretLength = 24
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
    /// Longest parent path for which the path of the socket, the longest of the paths, fits into sockaddr_un.
    package static let longestParent: Int = {
        let below = "\(prefix)XXXXXX/".utf8.count + secretLength + "/\(ZG_RUN_SOCKET)".utf8.count
        return Int(ZG_RUN_PATH_BYTES) - 1 - below
    }()
    package var findings: String { "\(path)/\(ZG_RUN_FINDINGS)" }
    package var page: String { "\(path)/\(ZG_RUN_COVERAGE)" }
    package var socket: String { "\(path)/\(ZG_RUN_SOCKET)" }
    package var unwritten: String { "\(path)/\(ZG_RUN_UNWRITTEN)" }
    package var watched: String { "\(path)/\(ZG_RUN_WATCHED)" }
    package var untold: String { "\(path)/\(ZG_RUN_UNMAPPED)" }
    package var focus: String { "\(path)/\(ZG_RUN_FOCUS)" }

    /// Creates the outer and the inner directory.
    package init(creatingIn parent: String) throws(SystemError) {
        var template = Array("\(parent)\(Self.prefix)XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw .last }
        outer = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        var generator = SystemRandomNumberGenerator() // getrandom(2)
        let secret = (0..<Self.secretLength).map { _ in Self.alphabet.randomElement(using: &generator)! }
        path = "\(outer)/\(String(decoding: secret, as: UTF8.self))"
        // Use chmod: the umask applies to mkdir.
        guard mkdir(path, 0o700) == 0, chmod(path, Self.mode) == 0, !Self.servesOtherUsers || chmod(outer, 0o711) == 0
        else {
            let error = SystemError.last
            remove()
            throw error
        }
    }

    /// Opens the directory of a run whose zguard was killed; nil if this user does not own it: since then, any user may
    /// have created a directory of that name.
    package init?(remaining path: String) {
        guard let slash = path.lastIndex(of: "/") else { return nil }
        outer = String(path[..<slash])
        self.path = path
        let isNamed = outer.contains(Self.prefix) && path[slash...].count == 1 + Self.secretLength
        let areOwn = [outer, path].allSatisfy { name in
            var status = stat()
            return lstat(name, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
        }
        guard isNamed, areOwn else { return nil }
    }

    /// Findings files of processes that may not open ``findings``. Accepts only regular files with one link, because
    /// other users can create anything in the directory.
    ///
    /// - Parameters:
    ///   - most: largest number of files to return; each is an open descriptor.
    ///   - known: file names to skip.
    package func ownFindings(atMost most: Int, except known: Set<String>) -> [(name: String, file: Descriptor)] {
        if !Self.servesOtherUsers { return [] }
        var found: [(name: String, file: Descriptor)] = []
        for name in directoryEntries(path) where name.hasPrefix(ZG_RUN_OWN_FINDINGS) && !known.contains(name) {
            guard found.count < most, let file = open(name) else { continue }
            found.append((name, file))
        }
        return found
    }

    // Opens a file that a process of the run has created.
    private func open(_ name: String) -> Descriptor? {
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
        guard let file = try? Descriptor(opening: "\(path)/\(name)", flags: flags), let status = file.status,
            status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1
        else { return nil }
        return file
    }

    /// Longest pair log that is read: other users' processes may write anything.
    private static let longestPairLog = 64 << 20

    /// The pairs of all processes of the run, from their pair logs. The files are read one after the other.
    package func readPairs() -> PairCoverage {
        var all = PairCoverage()
        for name in directoryEntries(path) where name.hasPrefix(ZG_RUN_PAIR_LOG) {
            guard let file = open(name), file.status.map({ $0.st_size <= Self.longestPairLog }) ?? false,
                let bytes = try? file.readWhole(),
                let pairs = PairCoverage(lines: bytes)
            else { continue }
            all.add(pairs)
        }
        return all
    }

    /// Removes the directory and its contents, including directories that other users' processes created.
    package func remove() {
        if let directory = try? Descriptor(opening: path, flags: Self.directoryFlags) {
            Self.empty(directory, depth: 0)
        }
        rmdir(path)
        rmdir(outer)
    }

    private static let directoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW
    private static let deepest = 16

    private static func empty(_ directory: Descriptor, depth: Int) {
        for name in directoryEntries(of: directory) where name != "." && name != ".." {
            if unlinkat(directory.number, name, 0) == 0 { continue }
            if depth < deepest, let inner = try? Descriptor(opening: name, in: directory, flags: directoryFlags) {
                empty(inner, depth: depth + 1)
            }
            unlinkat(directory.number, name, AT_REMOVEDIR)
        }
    }
}
