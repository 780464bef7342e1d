// A guarded program whose heap can be looked into: a process, or what a core file holds of one.

import CZombie

/// A guarded program whose heap can be looked into: a process, or what a core file holds of one.
public struct HeapSource {
    public let statistics: Statistics
    /// The program may go on while its memory is read.
    public let isRunning: Bool

    let memory: any MemoryReader
    let mappings: [Mapping]
    /// What was left out, because the file that it came from is another one now. One line each, safe to print.
    public var notes: [String] { (memory as? CoreFile)?.notes ?? [] }

    init(statistics: Statistics, memory: any MemoryReader, mappings: [Mapping], isRunning: Bool) {
        self.statistics = statistics
        self.memory = memory
        self.mappings = mappings
        self.isRunning = isRunning
    }

    /// A running or stopped process, which does not notice it.
    public init(process: GuardedProcess) throws(ProcessError) {
        let processID = process.processID
        statistics = try process.statistics()
        guard statistics.layout.isKnown else { throw .otherVersion(processID, UInt32(ZG_STATS_VERSION)) }
        memory = try ProcessMemory(processID: processID)
        do throws(SystemError) { mappings = try Mapping.all(of: processID) } catch {
            throw ProcessError(processID, error)
        }
        isRunning = true
    }

    /// What a core file holds.
    public init(core: CoreFile) throws(CoreError) {
        statistics = try core.statistics()
        memory = core
        mappings = core.mappings
        isRunning = false
    }
}
