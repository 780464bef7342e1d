// A guarded program whose heap can be looked into: a process, or what a core file holds of one.

import CZombie

/// A guarded program whose heap can be looked into: a process, or what a core file holds of one.
public struct HeapSource {
    /// The statistics as they were when the source was opened.
    public let statistics: Statistics
    /// The program may go on while its memory is read.
    public let isRunning: Bool

    let memory: any MemoryReader
    let mappings: [Mapping]
    /// What was left out: because the file that it came from is another one now, or because there is too much of it. One line each, safe to
    /// print.
    public var notes: [String] {
        if !hasMore {
            return [
                "process \(statistics.processID) says that it has more blocks than it has memory for: not all that it says was looked at"
            ]
        }
        return (memory as? CoreFile)?.notes ?? []
    }

    /// False where so much was read that nothing more can be.
    var hasMore: Bool { !((memory as? ProcessMemory)?.isExhausted ?? false) }

    init(statistics: Statistics, memory: any MemoryReader, mappings: [Mapping], isRunning: Bool) {
        self.statistics = statistics
        self.memory = memory
        self.mappings = mappings
        self.isRunning = isRunning
    }

    /// A running or stopped process, which does not notice it.
    ///
    /// - Parameter process: a guarded process.
    /// - Throws: ``ProcessError`` where it is gone, or not ours to read.
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

    /// What a core file holds.
    ///
    /// - Parameter core: an open core file.
    /// - Throws: ``CoreError`` where its tables do not fit.
    public init(core: CoreFile) throws(CoreError) {
        statistics = try core.statistics()
        memory = core
        mappings = core.mappings
        isRunning = false
    }
}

extension Statistics {
    /// Where the metadata of the heap lies. Made anew each time.
    var heapLayout: HeapLayout { HeapLayout(rawLayout) }
}
