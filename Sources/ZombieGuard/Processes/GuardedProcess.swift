// Finds guarded processes and reads their statistics pages.

import CZombie
import Glibc

/// A guarded process, identified by its mapping of a statistics page.
public struct GuardedProcess: Sendable {
    /// Process ID.
    public let processID: Int
    private let identity: ProcessIdentity
    private let page: Mapping

    package static let librarySuffix = "/libzguard.so"

    /// Finds the statistics page of a process. If the process is not guarded, examines its executable for the reason.
    ///
    /// - Parameter processID: ID of a process.
    /// - Throws: ``ProcessError`` if the process is not guarded, has ended, or may not be read.
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
        let folder: ProcessFolder
        let found: (pages: [Mapping], hasRuntime: Bool, isEmpty: Bool)
        do throws(SystemError) {
            folder = try ProcessFolder(of: processID)
            found = try StatisticsPageFile.mappings(in: folder)
        } catch {
            throw ProcessError(processID, error)
        }
        guard let identity = ProcessIdentity(folder) else { throw .gone(processID) }
        self.identity = identity
        // A zombie process (exited, not yet waited for) has no mappings.
        if found.isEmpty, folder.status["State"]?.hasPrefix("Z") ?? true { throw .gone(processID) }
        guard !found.pages.isEmpty else {
            throw found.hasRuntime ? .withoutStatistics(processID) : .notGuarded(processID)
        }
        self.page = try Self.ownPage(among: found.pages, of: processID, in: folder)
    }

    /// The mapping whose page names this process. The child of a fork has its parent's page, too. Between vfork and
    /// exec, a child shares its parent's memory, and no page names the child: it is not a guarded process.
    private static func ownPage(
        among pages: [Mapping], of processID: Int, in folder: ProcessFolder
    ) throws(ProcessError) -> Mapping {
        var refusal = ProcessError.notGuarded(processID)
        for page in pages {
            do throws(ProcessError) {
                if try decode(readPageBytes(at: page, of: processID, in: folder), of: processID).pid
                    == folder.innermostID
                {
                    return page
                }
            } catch {
                refusal = error
            }
        }
        throw refusal
    }

    /// All guarded processes that this user may read, sorted by process ID.
    ///
    /// - Returns: the processes; empty if no process is guarded.
    public static func all() -> [GuardedProcess] { survey().processes }

    /// All guarded processes, and the IDs of those without a readable statistics page.
    ///
    /// - Returns: processes with statistics, and the IDs of guarded processes without.
    public static func survey() -> (processes: [GuardedProcess], withoutStatistics: [Int]) {
        var processes: [GuardedProcess] = []
        var others: [Int] = []
        for id in directoryEntries("/proc").compactMap({ Int(digits: $0) }).sorted() {
            do throws(ProcessError) { processes.append(try GuardedProcess(unexplained: id)) } catch {
                if error == .withoutStatistics(id) || error == .foreignPage(id) { others.append(id) }
            }
        }
        return (processes, others)
    }

    /// The current statistics.
    ///
    /// - Returns: a copy of the statistics page, decoded.
    /// - Throws: ``ProcessError`` if the process has ended or may not be read.
    public func statistics() throws(ProcessError) -> Statistics { try statistics(in: folder()) }

    func statistics(in folder: ProcessFolder) throws(ProcessError) -> Statistics {
        Statistics(page: try readPage(in: folder), processID: processID)
    }

    /// The /proc folder of this process; throws `gone` if another process has reused the ID.
    func folder() throws(ProcessError) -> ProcessFolder {
        let folder: ProcessFolder
        do throws(SystemError) { folder = try ProcessFolder(of: processID) } catch {
            throw ProcessError(processID, error)
        }
        guard ProcessIdentity(folder) == identity else { throw .gone(processID) }
        return folder
    }

    /// The user of the process. Files that the process's data names (modules, and source files in their debug
    /// information) are opened with no more rights than this user has.
    package var author: Author { Author(of: try? folder()) }

    private func readPage(in folder: ProcessFolder) throws(ProcessError) -> zg_stats_page {
        try Self.decode(Self.readPageBytes(at: page, of: processID, in: folder), of: processID)
    }

    /// Decodes the bytes of a statistics page after checking magic, version and size.
    static func decode(_ bytes: [UInt8], of processID: Int) throws(ProcessError) -> zg_stats_page {
        var page = zg_stats_page()
        withUnsafeMutableBytes(of: &page) { $0.copyBytes(from: bytes.prefix($0.count)) }
        guard bytes.count >= MemoryLayout<zg_stats_page>.size, page.magic == zg_stats_page.expectedMagic else {
            throw .notGuarded(processID)
        }
        guard page.version == ZG_STATS_VERSION, Int(page.bytes) == MemoryLayout<zg_stats_page>.size else {
            throw .otherVersion(processID, page.version)
        }
        return page
    }

    // Try the descriptor first: /proc/PID/fd needs only PTRACE_MODE_READ, while /proc/PID/mem needs PTRACE_MODE_ATTACH.
    private static func readPageBytes(
        at page: Mapping, of processID: Int, in folder: ProcessFolder
    ) throws(ProcessError) -> [UInt8] {
        let size = MemoryLayout<zg_stats_page>.size
        do throws(StatisticsPageFile.Refusal) {
            let page = try StatisticsPageFile(of: page, in: folder, flags: O_RDONLY)
            do throws(SystemError) { return try page.file.read(at: 0, upTo: size) } catch { throw .system(error) }
        } catch {
            guard case .unreachable = error else { throw ProcessError(processID, error) }
        }
        do throws(SystemError) { return try folder.open("mem").read(at: page.start, upTo: size) } catch {
            throw error.number == EIO ? .gone(processID) : ProcessError(processID, error, wantsMemory: true)
        }
    }

    /// Opens the memfd of the statistics page for reading and writing.
    func openPage(in folder: ProcessFolder) throws(ProcessError) -> Descriptor {
        do throws(StatisticsPageFile.Refusal) {
            return try StatisticsPageFile(of: page, in: folder, flags: O_RDWR).file
        } catch {
            throw ProcessError(processID, error)
        }
    }

    /// Fields of /proc/PID/status; empty if the process has ended.
    static func status(of processID: Int) -> [String: String] {
        (try? ProcessFolder(of: processID))?.status ?? [:]
    }
}

extension ProcessError {
    fileprivate init(_ processID: Int, _ refusal: StatisticsPageFile.Refusal) {
        self =
            switch refusal {
            case .unreachable: .notOurs(processID, ProcessObstacle(processID: processID, wantsMemory: true))
            case .foreign: .foreignPage(processID)
            case .system(let error): ProcessError(processID, error)
            }
    }
}
