// Accesses a process through its open folder in /proc, which never refers to a later process with the same ID.

import CSystem
import Glibc

/// An open /proc/PID folder. After the process ends, opening files in it fails, even if the kernel reuses the ID. If
/// the main thread has ended before the others (`pthread_exit` in `main`), its folder shows neither memory nor
/// mappings; the folders of the other threads do.
package final class ProcessFolder: Sendable {
    let number: Int
    private let folder: Descriptor

    /// User and group IDs of a process: real, effective, saved, file system.
    struct Owner {
        var users: [uid_t]
        var groups: [gid_t]
    }

    package init(of number: Int) throws(SystemError) {
        self.number = number
        folder = try Descriptor(opening: "/proc/\(number)", flags: zg_system_open_path | O_DIRECTORY)
    }

    /// Opens a file that is the same for all threads of the process.
    ///
    /// - Parameters:
    ///   - name: path below the folder, such as "maps", "mem" or "fd/3".
    ///   - flags: as for open(2).
    func open(_ name: String, flags: Int32 = O_RDONLY) throws(SystemError) -> Descriptor {
        try Descriptor(opening: part + name, in: folder, flags: flags)
    }

    /// Contents of a small file that is the same for all threads of the process.
    func contents(of name: String) throws(SystemError) -> [UInt8] { try open(name).readWhole() }

    /// Names in a folder, including "." and ".."; empty if unreadable.
    func entries(of name: String) -> [String] {
        guard let directory = try? open(name, flags: O_RDONLY | O_DIRECTORY) else { return [] }
        return directoryEntries(of: directory)
    }

    /// Target of a symbolic link; nil if unreadable.
    func link(_ name: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let path = part + name
        let count = buffer.withUnsafeMutableBytes { readlinkat(folder.number, path, $0.baseAddress!, $0.count) }
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// Fields of /proc/PID/status; empty if the process has ended.
    var status: [String: String] {
        var status: [String: String] = [:]
        let bytes = (try? Descriptor(opening: "status", in: folder).readWhole()) ?? []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { status[String(parts[0])] = String(parts[1].drop { $0 == "\t" || $0 == " " }) }
        }
        return status
    }

    /// The process's ID in its own PID namespace, and its effective user; nil if the process has ended.
    package var namespaced: (process: Int, user: uid_t)? {
        let status = status
        func last(_ label: String, at place: Int?) -> Int? {
            let words = status[label]?.split { $0 == "\t" || $0 == " " } ?? []
            let place = place ?? words.count - 1
            return words.indices.contains(place) ? Int(digits: words[place]) : nil
        }
        guard let process = last("NSpid", at: nil), let user = last("Uid", at: 1) else { return nil }
        return (process, uid_t(user))
    }

    /// Contents of /proc/PID/stat; nil if the process has ended.
    var stat: [UInt8]? { try? Descriptor(opening: "stat", in: folder).readWhole() }

    /// Users and groups of the process; nil if the process has ended.
    var owner: Owner? {
        let status = status
        func numbers(_ label: String) -> [UInt32] {
            status[label]?.split { $0 == "\t" || $0 == " " }.compactMap { UInt32(digits: $0) } ?? []
        }
        let owner = Owner(users: numbers("Uid"), groups: numbers("Gid"))
        return owner.users.count == 4 && owner.groups.count == 4 ? owner : nil
    }

    /// Resident and swapped memory of the process, in bytes.
    var memoryBytes: UInt64 {
        let status = status
        return ["VmRSS", "VmSwap"].reduce(0) { sum, label in
            sum + (status[label]?.split(separator: " ").first.flatMap { UInt64(digits: $0) } ?? 0) * 1024
        }
    }

    /// Process ID in the innermost PID namespace, as the process itself sees it; differs in containers.
    var innermostID: UInt32? {
        let ids = status["NSpid"]?.split { $0 == "\t" || $0 == " " } ?? []
        return ids.last.flatMap { UInt32(digits: $0) } ?? UInt32(exactly: number)
    }

    // MARK: Thread folders

    /// Empty, or if the main thread has ended, the folder of the first live thread.
    private var part: String {
        if isThere("") { return "" }
        guard let tasks = try? Descriptor(opening: "task", in: folder, flags: O_RDONLY | O_DIRECTORY) else { return "" }
        let threads = directoryEntries(of: tasks).compactMap { Int32(digits: $0) }.sorted()
        return threads.lazy.map { "task/\($0)/" }.first { isThere($0) } ?? ""
    }

    private func isThere(_ part: String) -> Bool {
        guard let status = try? Descriptor(opening: part + "stat", in: folder).readWhole(),
            let end = status.lastIndex(of: UInt8(ascii: ")")), end + 2 < status.count
        else { return false }
        return ![UInt8(ascii: "Z"), UInt8(ascii: "X")].contains(status[end + 2])
    }
}

extension Author {
    /// The author of the data that a process provides: the process's effective user.
    ///
    /// - Parameter process: nil if the process has ended; then the author is ``unknown``.
    package init(of process: ProcessFolder?) { self = process?.owner.map { Author(user: $0.users[1]) } ?? .unknown }
}
