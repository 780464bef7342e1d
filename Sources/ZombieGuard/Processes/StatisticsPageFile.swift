// The file behind the statistics page of another process: found, checked and opened once. What a process shows there may be any file that
// it can open, under any name, and may be another file a moment later.

import CSystem
import CZombie
import Glibc

/// An open statistics page that is one: a file in memory, sealed so that its size stays what it is, the one that the process has mapped, and
/// owned by the process's user. Its contents are still whatever the process wants them to be.
struct StatisticsPageFile {
    enum Refusal: Error {
        /// There is no way to the file: the program has closed its descriptor, and the mapping itself takes more rights.
        case unreachable
        /// It is another file than a statistics page.
        case foreign
        case system(SystemError)
    }

    let file: Descriptor

    static let name = "/memfd:\(ZG_STATS_NAME)"
    private static let names = [name, name + " (deleted)"]
    /// Descriptors of a process that are looked at: the runtime's is one of the first from 1000 on.
    private static let mostDescriptors = 1 << 16

    /// The mapping of the page, and whether the process has the library; no mapping where it shows no page.
    static func mapping(in process: ProcessFolder) throws(SystemError) -> (
        page: Mapping?, hasRuntime: Bool, isEmpty: Bool
    ) {
        var lines = LineReader(source: try process.open("maps"))
        var hasRuntime = false
        var isEmpty = true
        // A process may have a million mappings: of most lines only the end is looked at.
        while let line = try lines.next() {
            isEmpty = false
            hasRuntime = hasRuntime || line.bytes.hasSuffix(GuardedProcess.librarySuffix)
            guard line.bytes.hasSuffix(names[0]) || line.bytes.hasSuffix(names[1]),
                let mapping = Mapping(line: String(decoding: line.bytes, as: UTF8.self)),
                names.contains(mapping.path), mapping.permissions.hasSuffix("s"), mapping.fileOffset == 0
            else { continue }
            return (mapping, hasRuntime, false)
        }
        return (nil, hasRuntime, isEmpty)
    }

    /// Opens the file of a mapping of this process.
    init(of mapping: Mapping, in process: ProcessFolder, flags: Int32) throws(Refusal) {
        guard let owner = process.owner else { throw .unreachable }
        // The mapping leads to its file by itself, which takes rights that root has.
        let range = String(mapping.start, radix: 16) + "-" + String(mapping.end, radix: 16)
        var handle = Self.handle("map_files/\(range)", of: mapping, in: process)
        if handle == nil {
            for number in process.entries(of: "fd").prefix(Self.mostDescriptors) {
                guard Self.names.contains(process.link("fd/\(number)") ?? "") else { continue }
                handle = Self.handle("fd/\(number)", of: mapping, in: process)
                if handle != nil { break }
            }
        }
        guard let handle else { throw .unreachable }
        guard let status = handle.status, status.st_mode & S_IFMT == S_IFREG, status.st_size >= off_t(ZG_STATS_BYTES),
            owner.users.contains(status.st_uid), Self.names.contains(readLink("/proc/self/fd/\(handle.number)") ?? "")
        else { throw .foreign }
        // With the rights of the page's owner, who is the process's: what only root may open is not opened.
        let opened = zg_system_open_handle(handle.number, flags, status.st_uid, owner.groups[1])
        guard opened >= 0 else { throw .system(SystemError(number: -opened)) }
        file = Descriptor(adopting: opened)
        let seals = zg_system_seals(opened)
        guard seals >= 0, seals & zg_system_seals_of_size == zg_system_seals_of_size else { throw .foreign }
    }

    /// The file that a name leads to, not yet open for anything; nil where it is another one than is mapped: a descriptor that was inherited
    /// from the parent leads to the parent's page.
    private static func handle(_ name: String, of mapping: Mapping, in process: ProcessFolder) -> Descriptor? {
        guard let handle = try? process.open(name, flags: zg_system_open_path), let status = handle.status,
            UInt64(status.st_ino) == mapping.inode, UInt64(status.st_dev) == mapping.device
        else { return nil }
        return handle
    }
}

extension [UInt8] {
    fileprivate func hasSuffix(_ text: String) -> Bool {
        let suffix = text.utf8
        return count >= suffix.count && self[(count - suffix.count)...].elementsEqual(suffix)
    }
}
