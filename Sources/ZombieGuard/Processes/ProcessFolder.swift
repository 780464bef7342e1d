// The folder of a process in /proc, held open: what is opened through it is that process's.

import CSystem
import Glibc

/// A process by its open folder in /proc. Once the process is gone nothing can be opened there any more, not even where its number has
/// become another one's. A first thread that has ended before the others (`pthread_exit` in `main`) shows neither memory nor mappings any
/// more; the others do.
final class ProcessFolder: Sendable {
    let number: Int
    private let folder: Descriptor

    /// Who a process is for the kernel: its users and groups, real, effective, saved and of files.
    struct Owner {
        var users: [uid_t]
        var groups: [gid_t]
    }

    init(of number: Int) throws(SystemError) {
        self.number = number
        folder = try Descriptor(opening: "/proc/\(number)", flags: zg_system_open_path | O_DIRECTORY)
    }

    /// Opens a file that is the same for all threads of the process.
    ///
    /// - Parameters:
    ///   - name: below the folder, such as "maps", "mem" or "fd/3".
    ///   - flags: as for open(2).
    func open(_ name: String, flags: Int32 = O_RDONLY) throws(SystemError) -> Descriptor {
        try Descriptor(opening: part + name, in: folder, flags: flags)
    }

    /// The whole of a small file that all threads of the process share.
    func contents(of name: String) throws(SystemError) -> [UInt8] { try open(name).readWhole() }

    /// The names in a folder, "." and ".." among them; none where it cannot be read.
    func entries(of name: String) -> [String] {
        guard let directory = try? open(name, flags: O_RDONLY | O_DIRECTORY) else { return [] }
        return directoryEntries(of: directory)
    }

    /// The target of a link; nil where there is none.
    func link(_ name: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let path = part + name
        let count = buffer.withUnsafeMutableBytes { readlinkat(folder.number, path, $0.baseAddress!, $0.count) }
        return count < 0 ? nil : String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// The lines of /proc/PID/status; empty where the process is gone.
    var status: [String: String] {
        var status: [String: String] = [:]
        let bytes = (try? Descriptor(opening: "status", in: folder).readWhole()) ?? []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { status[String(parts[0])] = String(parts[1].drop { $0 == "\t" || $0 == " " }) }
        }
        return status
    }

    /// /proc/PID/stat; nil where the process is gone.
    var stat: [UInt8]? { try? Descriptor(opening: "stat", in: folder).readWhole() }

    /// nil where the process is gone.
    var owner: Owner? {
        let status = status
        func numbers(_ label: String) -> [UInt32] {
            status[label]?.split { $0 == "\t" || $0 == " " }.compactMap { UInt32(digits: $0) } ?? []
        }
        let owner = Owner(users: numbers("Uid"), groups: numbers("Gid"))
        return owner.users.count == 4 && owner.groups.count == 4 ? owner : nil
    }

    /// Bytes of memory that the process has, in swap space included.
    var memoryBytes: UInt64 {
        let status = status
        return ["VmRSS", "VmSwap"].reduce(0) { sum, label in
            sum + (status[label]?.split(separator: " ").first.flatMap { UInt64(digits: $0) } ?? 0) * 1024
        }
    }

    /// What the process itself calls its id: inside a container it is another one.
    var innermostID: UInt32? {
        let ids = status["NSpid"]?.split { $0 == "\t" || $0 == " " } ?? []
        return ids.last.flatMap { UInt32(digits: $0) } ?? UInt32(exactly: number)
    }

    // MARK: The thread that shows memory

    /// "", or the folder of the first thread that has not ended.
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
    /// The author of what a process says: its effective user.
    ///
    /// - Parameter process: nil where it is gone: then the author is ``unknown``.
    init(of process: ProcessFolder?) { self = process?.owner.map { Author(user: $0.users[1]) } ?? .unknown }
}
