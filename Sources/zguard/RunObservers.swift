// Answers the requests of a run's processes, and watches their threads for stalls, while the program runs.

import ZombieGuard
import ZombieGuardGraph
import ZombieGuardStalls

/// Serves and watches the processes of a run while they run. Use from one thread only. If the system refuses a service,
/// the program runs without it.
final class RunObservers {
    /// The run's coverage page; nil if it cannot be read: the closing line then says that the coverage is unknown.
    let coverage: RunCoverage?
    /// Stacks of crashing processes.
    let crashes: CrashRequests?
    /// Searches for live memory that still points to the freed blocks of findings.
    let holders: HolderRequests?
    private let stalls: StallWatch?
    private let leaks: LeakRequests?
    private let handlers: RunningHandlers?
    private let child = Child()

    private final class Child { var processID: Int32? }

    /// - Parameters:
    ///   - directory: the run's directory.
    ///   - options: the run's options.
    ///   - searchesLeaks: whether processes are searched for leaks before they end.
    init(_ directory: RunDirectory, _ options: RuntimeOptions, searchesLeaks: Bool) {
        let child = child
        coverage = try? RunCoverage(at: directory.page)
        guard let page = coverage?.page else {
            (crashes, holders, stalls, leaks, handlers) = (nil, nil, nil, nil, nil)
            return
        }
        crashes = try? CrashRequests(page: page) { child.processID }
        holders = try? HolderRequests(page: page) { child.processID }
        stalls =
            SystemCallFilters.forbidsTracing
            ? nil : try? StallWatch(page: page, isDefault: !options.userSetCollect) { child.processID }
        leaks = searchesLeaks ? try? LeakRequests(page: page) { child.processID } : nil
        handlers = try? RunningHandlers(page: page)
    }

    /// Milliseconds between two polls of the threads; nil if stalls are not watched.
    var milliseconds: Int32? { stalls?.milliseconds }

    /// Call when the child process has started.
    func begin(_ processID: Int32) { child.processID = processID }

    /// Answers a message. Returns the findings of the search for leaks that the message asked for, if any.
    func answer(_ message: RunMessage) -> [Finding] {
        crashes?.answer(message)
        holders?.answer(message)
        stalls?.note(message)
        return leaks?.answer(message) ?? []
    }

    /// Looks at the threads.
    func look() -> [Finding] {
        crashes?.clean()
        holders?.clean()
        leaks?.clean()
        return stalls?.look() ?? []
    }

    /// Stops answering when the program has ended. Returns findings for stalls in progress and for repeats of earlier
    /// stalls, and notes on what the search for leaks could not read.
    func finish(_ end: ProgramEnd) -> (findings: [Finding], notes: [String]) {
        crashes?.close()
        leaks?.finish()
        return (stalls?.finish(isByItself: end.signal == nil) ?? [], leaks?.notes ?? [])
    }

    /// Returns the faults whose handlers were running when their process ended. Call after the last raw finding.
    func leftInHandlers(_ end: ProgramEnd) -> [Finding] {
        child.processID.flatMap { handlers?.left(by: $0, end) } ?? []
    }

    /// Whether a signal handler of the child process was running when the process ended.
    var isInHandler: Bool { child.processID.flatMap { handlers?.isInHandler($0) } ?? false }
}
