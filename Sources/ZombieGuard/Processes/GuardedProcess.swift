// Finds guarded processes and reads their statistics.

import CZombie
import Glibc

/// A guarded process, found by the statistics page that it maps.
public struct GuardedProcess: Sendable {
    /// The process.
    public let processID: Int
    private let page: Mapping

    static let pageName = "/memfd:\(ZG_STATS_NAME)"
    private static let libraryName = "libzguard.so"

    /// Finds the statistics page of a process; where there is none, says why, as far as its program tells.
    ///
    /// - Parameter processID: the number of a process.
    /// - Throws: ``ProcessError`` where it is not guarded, gone, or not ours to read.
    public init(processID: Int) throws(ProcessError) {
        do throws(ProcessError) {
            try self.init(unexplained: processID)
        } catch {
            guard error == .notGuarded(processID), let reason = Self.reason(processID) else { throw error }
            throw reason
        }
    }

    private static func reason(_ processID: Int) -> ProcessError? {
        let program = "/proc/\(processID)/exe"
        guard let name = readLink(program) else {
            return status(of: processID)["VmSize"] == nil ? .kernelThread(processID) : nil
        }
        do throws(ProgramRefusal) {
            try ProgramCheck(searchPath: nil).check(program, name: name)
            return nil
        } catch {
            return error.status == .cannotGuard ? .unguardable(processID, error) : nil
        }
    }

    private init(unexplained processID: Int) throws(ProcessError) {
        self.processID = processID
        let mappings: [Mapping]
        do throws(SystemError) { mappings = try Mapping.all(of: processID) } catch {
            throw ProcessError(processID, error)
        }
        // A process that ended and was not waited for has no mappings any more.
        if mappings.isEmpty, Self.status(of: processID)["State"]?.hasPrefix("Z") ?? true { throw .gone(processID) }
        let page = mappings.first { $0.path.hasPrefix(Self.pageName) && $0.permissions.hasSuffix("s") }
        guard let page else {
            let hasRuntime = mappings.contains { $0.path.hasSuffix("/\(Self.libraryName)") }
            throw hasRuntime ? .withoutStatistics(processID) : .notGuarded(processID)
        }
        self.page = page
        // Between vfork and exec a child runs in its parent's memory and is not a guarded process of its own.
        guard try readPage().pid == Self.innermostID(of: processID) else { throw .notGuarded(processID) }
    }

    /// All guarded processes that this user may look into, by process id.
    ///
    /// - Returns: the processes; none where nobody is guarded.
    public static func all() -> [GuardedProcess] { survey().processes }

    /// The same, and the ids of guarded processes that show no statistics.
    ///
    /// - Returns: the processes, and the numbers of those without a page.
    public static func survey() -> (processes: [GuardedProcess], withoutStatistics: [Int]) {
        var processes: [GuardedProcess] = []
        var others: [Int] = []
        for id in directoryEntries("/proc").compactMap({ Int($0) }).sorted() {
            do throws(ProcessError) { processes.append(try GuardedProcess(unexplained: id)) } catch {
                if error == .withoutStatistics(id) { others.append(id) }
            }
        }
        return (processes, others)
    }

    /// The statistics as they are now.
    ///
    /// - Returns: a copy, as of now.
    /// - Throws: ``ProcessError`` where the process has ended.
    public func statistics() throws(ProcessError) -> Statistics {
        Statistics(page: try readPage(), processID: processID)
    }

    private func readPage() throws(ProcessError) -> zg_stats_page {
        var page = zg_stats_page()
        let bytes = try readPageBytes()
        withUnsafeMutableBytes(of: &page) { $0.copyBytes(from: bytes.prefix($0.count)) }
        guard bytes.count >= MemoryLayout<zg_stats_page>.size, page.magic == zg_stats_page.expectedMagic else {
            throw .notGuarded(processID)
        }
        guard page.version == ZG_STATS_VERSION, Int(page.bytes) == MemoryLayout<zg_stats_page>.size else {
            throw .otherVersion(processID, page.version)
        }
        return page
    }

    // The descriptor needs the right to look at the process, its memory the right to debug it: the first comes first.
    private func readPageBytes() throws(ProcessError) -> [UInt8] {
        do throws(SystemError) {
            let size = MemoryLayout<zg_stats_page>.size
            if let file = openPage(flags: O_RDONLY) { return try file.read(at: 0, upTo: size) }
            return try Descriptor(opening: ProcessFolder.ofMemory(of: processID) + "/mem").read(
                at: page.start, upTo: size)
        } catch {
            throw error.number == EIO ? .gone(processID) : ProcessError(processID, error, wantsMemory: true)
        }
    }

    /// Opens the file behind the page; nil where the program closed its descriptor and there is no other way.
    func openPage(flags: Int32) -> Descriptor? {
        let directory = ProcessFolder.ofMemory(of: processID) + "/fd"
        let descriptors = directoryEntries(directory).map { "\(directory)/\($0)" }
        for path in descriptors where readLink(path)?.hasPrefix(Self.pageName) ?? false {
            if let file = openIfPage(path, flags) { return file }
        }
        let range = String(page.start, radix: 16) + "-" + String(page.end, radix: 16)
        return openIfPage("/proc/\(processID)/map_files/\(range)", flags)
    }

    private func openIfPage(_ path: String, _ flags: Int32) -> Descriptor? {
        // A descriptor inherited from the parent leads to the parent's page: the inode tells them apart.
        guard let file = try? Descriptor(opening: path, flags: flags), let status = file.status,
            UInt64(status.st_ino) == page.inode
        else { return nil }
        return file
    }

    /// The lines of /proc/PID/status; empty where the process is gone.
    static func status(of processID: Int) -> [String: String] {
        guard let bytes = try? readFile("/proc/\(processID)/status") else { return [:] }
        var status: [String: String] = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { status[String(parts[0])] = String(parts[1].drop { $0 == "\t" || $0 == " " }) }
        }
        return status
    }

    // What the process itself calls its id: inside a container it is another one.
    private static func innermostID(of processID: Int) -> UInt32? {
        let ids = status(of: processID)["NSpid"]?.split { $0 == "\t" || $0 == " " } ?? []
        return ids.last.flatMap { UInt32($0) } ?? UInt32(exactly: processID)
    }
}
