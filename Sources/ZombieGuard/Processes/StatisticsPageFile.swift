// Finds, checks and opens the memfd of another process's statistics page. The process is not trusted: it may show any
// file that it can open, under any name, and exchange the file at any time.

import CSystem
import CZombie
import Glibc

/// An open, checked statistics page: a memfd of sealed size that the process has mapped, and that the process's user
/// owns. The contents are not trusted.
struct StatisticsPageFile {
    enum Refusal: Error {
        /// There is no path to the file: the program has closed the descriptor, and following the mapping's link needs
        /// more rights.
        case unreachable
        /// The file is not a statistics page.
        case foreign
        case system(SystemError)
    }

    let file: Descriptor

    static let name = "/memfd:\(ZG_STATS_NAME)"
    private static let names = [name, name + " (deleted)"]
    /// Limit of descriptors to check. The runtime uses one of the first free numbers from 1000 on.
    private static let mostDescriptors = 1 << 16
    /// Limit of mappings to return. The child of a fork has two: its own page and its parent's, in any order.
    private static let mostMappings = 4

    /// The mappings of statistics pages, whether the process has loaded the runtime, and whether it has no mappings at
    /// all.
    static func mappings(in process: ProcessFolder) throws(SystemError) -> (
        pages: [Mapping], hasRuntime: Bool, isEmpty: Bool
    ) {
        var pages: [Mapping] = []
        var lines = LineReader(source: try process.open("maps"))
        var hasRuntime = false
        var isEmpty = true
        // A process may have a million mappings: check the end of a line before parsing it.
        while let line = try lines.next() {
            isEmpty = false
            hasRuntime = hasRuntime || line.bytes.hasSuffix(GuardedProcess.librarySuffix)
            guard line.bytes.hasSuffix(names[0]) || line.bytes.hasSuffix(names[1]),
                let mapping = Mapping(line: String(decoding: line.bytes, as: UTF8.self)),
                names.contains(mapping.path), mapping.permissions.hasSuffix("s"), mapping.fileOffset == 0
            else { continue }
            pages.append(mapping)
            if pages.count == mostMappings { break }
        }
        return (pages, hasRuntime, isEmpty)
    }

    /// Opens the file behind a mapping of `process`.
    init(of mapping: Mapping, in process: ProcessFolder, flags: Int32) throws(Refusal) {
        guard let owner = process.owner else { throw .unreachable }
        // The mapping's link in map_files leads to the file directly, but following it needs root's rights.
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
        // Open with the rights of the page's owner, a user of the process, so that root opens no file that this user
        // could not.
        let opened = zg_system_open_handle(handle.number, flags, status.st_uid, owner.groups[1])
        guard opened >= 0 else { throw .system(SystemError(number: -opened)) }
        file = Descriptor(adopting: opened)
        let seals = zg_system_seals(opened)
        guard seals >= 0, seals & zg_system_seals_of_size == zg_system_seals_of_size else { throw .foreign }
    }

    /// O_PATH descriptor of the file to which a name leads; nil if the process has mapped another file. For example, a
    /// descriptor inherited from the parent leads to the parent's page.
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
