// Opens the file named by --report for writing, such that no other user can redirect the path to a file of their
// choice.

import CSystem
import Glibc
import ZombieGuard

/// A file or link that another user may have created; the description says why zguard does not write to it.
struct UntrustedFile: Error, CustomStringConvertible {
    var description: String
}

/// An opened file and its directory.
struct ReportFileAccess {
    let file: Descriptor
    let directory: Descriptor
    let name: String
    private let folder: String // path of the directory as given

    private static let mostLinks = 40 // the kernel's limit (path_resolution(7))

    /// The path with all symbolic links resolved; nil if unknown.
    var resolvedPath: String? {
        (Self.path(of: directory) ?? resolvedFolder).map { $0 == "/" ? "/\(name)" : "\($0)/\(name)" }
    }

    /// Opens or creates a file without blocking. Throws ENXIO for a FIFO without a reader.
    ///
    /// Directory components may be symbolic links of this user or of root. The last component may be a symbolic link
    /// only in a directory of the system, such as /dev. An existing file must belong to this user or to root and must
    /// have no other hard link.
    init(opening path: String) throws {
        let parts = path.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        guard let name = parts.last, !path.hasSuffix("/") else { throw SystemError(number: EISDIR) }
        var links = 0
        let start = try Descriptor(opening: path.hasPrefix("/") ? "/" : ".", flags: zg_system_open_path | O_DIRECTORY)
        directory = try Self.walk(Array(parts.dropLast()), from: start, &links)
        self.name = name
        folder = (path.hasPrefix("/") ? "/" : "./") + parts.dropLast().joined(separator: "/")
        // O_EXCL proves that this call created the file, so its owner is not checked: some file systems report another
        // owner.
        let flags = O_WRONLY | O_NOCTTY | O_NONBLOCK
        do throws(SystemError) {
            file = try Descriptor(
                opening: name, in: directory, flags: flags | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o666)
        } catch {
            guard error.number == EEXIST else { throw error }
            file = try Self.openExisting(name, in: directory, flags)
        }
    }

    // The directory as realpath resolves it, if /proc is missing; nil if the path no longer leads to the opened
    // directory.
    private var resolvedFolder: String? {
        guard let resolved = realpath(folder, nil), let opened = directory.status else { return nil }
        defer { free(resolved) }
        var found = stat()
        guard stat(resolved, &found) == 0, found.st_dev == opened.st_dev, found.st_ino == opened.st_ino else {
            return nil
        }
        return String(validatingCString: resolved)
    }

    private static func openExisting(_ name: String, in directory: Descriptor, _ flags: Int32) throws -> Descriptor {
        let file = try openWithoutLink(name, in: directory, flags)
        guard let status = file.status else { throw SystemError.last }
        if status.st_uid != 0, status.st_uid != geteuid() {
            throw UntrustedFile(description: "it belongs to another user")
        }
        if status.st_mode & S_IFMT == S_IFREG, status.st_nlink > 1 {
            throw UntrustedFile(description: "it has more than one hard link")
        }
        return file
    }

    private static func openWithoutLink(_ name: String, in directory: Descriptor, _ flags: Int32) throws -> Descriptor {
        do throws(SystemError) {
            return try Descriptor(opening: name, in: directory, flags: flags | O_NOFOLLOW)
        } catch {
            guard error.number == ELOOP else { throw error }
        }
        guard isOfTheSystem(directory) else {
            throw UntrustedFile(description: "it is a symbolic link: name the file that it leads to")
        }
        return try Descriptor(opening: name, in: directory, flags: flags)
    }

    /// Whether only root (/dev) or only the kernel (/proc/self/fd) can create links in the directory.
    private static func isOfTheSystem(_ directory: Descriptor) -> Bool {
        if path(of: directory)?.hasPrefix("/proc/\(getpid())/") ?? false { return true }
        return directory.status.map { $0.st_uid == 0 && $0.st_mode & (S_IWGRP | S_IWOTH) == 0 } ?? false
    }

    private static func path(of directory: Descriptor) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes {
            readlink("/proc/self/fd/\(directory.number)", $0.baseAddress!, $0.count)
        }
        return count < 0 ? nil : String(validating: buffer[..<count], as: UTF8.self)
    }

    private static func walk(_ parts: [String], from start: Descriptor, _ links: inout Int) throws -> Descriptor {
        var directory = start
        for part in parts where part != "." {
            var status = stat()
            guard fstatat(directory.number, part, &status, AT_SYMLINK_NOFOLLOW) == 0 else { throw SystemError.last }
            if status.st_mode & S_IFMT == S_IFLNK {
                if status.st_uid != 0, status.st_uid != geteuid() {
                    throw UntrustedFile(
                        description: "'\(visible(part))' in its path is a symbolic link owned by another user")
                }
                links += 1
                if links > mostLinks { throw SystemError(number: ELOOP) }
                guard let target = readLink(part, in: directory) else { throw SystemError.last }
                let root =
                    target.hasPrefix("/")
                    ? try Descriptor(opening: "/", flags: zg_system_open_path | O_DIRECTORY) : directory
                directory = try walk(target.split(separator: "/").map(String.init), from: root, &links)
            } else {
                directory = try Descriptor(
                    opening: part, in: directory, flags: zg_system_open_path | O_DIRECTORY | O_NOFOLLOW)
            }
        }
        return directory
    }

    private static func readLink(_ name: String, in directory: Descriptor) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { readlinkat(directory.number, name, $0.baseAddress!, $0.count) }
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }
}
