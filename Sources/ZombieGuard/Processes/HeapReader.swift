// Gives access to the heap of a guarded program: a process or a core file.

import CZombie

/// The heap of a guarded program, in a process or a core file.
public struct HeapReader {
    /// Statistics at the time the source was opened.
    public let statistics: Statistics
    /// Whether the program may run while its memory is read.
    public let isRunning: Bool

    package let memory: any MemoryReader
    package let mappings: [Mapping]
    /// Data that could not be read: mapped files that have changed since the core file was written, or blocks beyond
    /// the read budget. One line each, with control characters escaped.
    public var notes: [String] {
        if !hasMore { return [noteOfExhaustion] }
        return (memory as? CoreFile)?.notes ?? []
    }

    package var noteOfExhaustion: String {
        "the heap metadata of process \(statistics.processID) describes more blocks than its memory can hold: some were not checked"
    }

    /// False once the read budget is spent: reads then return nothing.
    package var hasMore: Bool { !((memory as? ProcessMemory)?.isExhausted ?? false) }

    init(statistics: Statistics, memory: any MemoryReader, mappings: [Mapping], isRunning: Bool) {
        self.statistics = statistics
        self.memory = memory
        self.mappings = mappings
        self.isRunning = isRunning
    }

    /// Opens a running or stopped process, which does not notice.
    ///
    /// - Parameter process: a guarded process.
    /// - Throws: ``ProcessError`` if the process has ended or may not be read.
    public init(process: GuardedProcess) throws(ProcessError) {
        let processID = process.processID
        let folder = try process.folder()
        statistics = try process.statistics(in: folder)
        guard statistics.heapLayout.isKnown else { throw .otherVersion(processID, UInt32(ZG_STATS_VERSION)) }
        memory = try ProcessMemory(of: folder)
        do throws(SystemError) { mappings = try Mapping.all(of: folder) } catch {
            throw ProcessError(processID, error)
        }
        isRunning = true
    }

    /// Opens the heap in a core file.
    ///
    /// - Parameter core: an open core file.
    /// - Throws: ``CoreError`` if the core file has no readable statistics page of this version.
    public init(core: CoreFile) throws(CoreError) {
        statistics = try core.statistics()
        memory = core
        mappings = core.mappings
        isRunning = false
    }
}

extension Statistics {
    /// Addresses and sizes of the heap's metadata. Decoded on each access.
    package var heapLayout: HeapLayout { HeapLayout(rawLayout) }
}
