// Searches processes of a run for other pointers to the freed block of a finding, while the process waits.

import CSystem
import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Answers the requests that processes with findings make on the run's shared page (zg_collector.h), and adds the
/// holders to the findings when these arrive.
package final class HolderRequests {
    private let page: RunPage
    private var results: [Key: Result] = [:]
    private var waiting: [Waiting] = []
    private var left = LeftThreads()
    private let child: () -> Int32?

    /// Identifies a search by its process and its number: any process of the run may choose any number.
    private struct Key: Hashable {
        var process: Int
        var number: UInt64
    }

    private struct Result {
        /// nil if the process could not be searched.
        var holders: [Finding.Holder]?
        /// Why the holders are incomplete; nil if they are complete.
        var note: String?
    }

    private struct Waiting {
        var finding: Finding
        var until: UInt64
    }

    /// The largest `scan_ms`.
    private static let longestMilliseconds: UInt64 = 60_000
    /// Time for which a finding waits for the request of its process. The process writes the finding before it makes
    /// the request, and a request of another of its threads may come in between.
    private static let reserveMilliseconds: UInt64 = 3000
    private static let mostResults = 256
    private static let mostWaiting = 64

    /// - Parameters:
    ///   - page: the run's shared page.
    ///   - child: returns the ID of the child process that another part of zguard waits for.
    package init(page: Descriptor, child: @escaping () -> Int32?) throws(SystemError) {
        self.page = try RunPage(page)
        self.child = child
    }

    // MARK: Requests

    /// Searches the message's sender, which waits meanwhile, and lets it go on.
    package func answer(_ message: RunMessage) {
        guard case .holders(let index, let place, let nonce) = message.content,
            let request = CollectorRequest(index, at: place, nonce, of: message.sender.number, on: page)
        else { return }
        defer { request.finish() }
        guard let memory = request.memory, let asking = request.question else { return }
        if results.count >= Self.mostResults { results = [:] }
        results[Key(process: Int(asking.pid), number: nonce)] = search(message.sender.number, asking, memory)
    }

    private func search(_ process: Int, _ asking: zg_dying_process, _ memory: ProcessMemory) -> Result {
        let now = monotonicNanoseconds()
        let limit = min(UInt64(asking.wait_ms), Self.longestMilliseconds)
        // The time limit begins when the process began to wait. That time is unknown if a seccomp filter prevents the
        // process from reading the clock.
        let since = asking.since_ns <= now && now - asking.since_ns < limit * 1_000_000 ? asking.since_ns : now
        // Leave a sixteenth of the time for names and for the reply.
        let deadline = since + limit * 1_000_000 / 16 * 15
        let cut = "the search ended after \(limit) ms (scan_ms)"
        guard asking.pid == process else {
            return Result(note: "not searched: the process is in another PID namespace")
        }
        // Filters that forbid ptrace also forbid mincore, which libunwind calls, so a search without ptrace is
        // impossible, too.
        if SystemCallFilters.forbidsTracing {
            return Result(note: "not searched: a seccomp filter forbids ptrace")
        }
        guard asking.block_size > 0, asking.block_start < 1 << 48, asking.block_size < 1 << 48 else { return Result() }
        if now > deadline { return Result(note: cut) }
        do {
            let guarded = try GuardedProcess(processID: process)
            let (threads, stacks) = threads(of: process, asking, memory, microseconds: Int((deadline - now) / 4000))
            let source = try HeapReader(process: guarded)
            let (end, overflows) = asking.signal_stack.addingReportingOverflow(asking.signal_stack_bytes)
            let excluded = overflows ? 0..<0 : asking.signal_stack..<end
            var search = HolderSearch(
                source, target: asking.block_start..<asking.block_start &+ asking.block_size, threads: threads,
                stacks: CopiedMemory(copies: stacks, memory: source.memory), excluded: excluded, deadline: deadline)
            // Search for the path with a new reader, which has its own read budget. If there is none, report the
            // holders without a path.
            if let again = try? HeapReader(process: guarded) {
                search.addPath(
                    again, threads: threads, stacks: CopiedMemory(copies: stacks, memory: again.memory),
                    excluded: excluded, deadline: deadline)
            }
            return Result(holders: search.holders, note: search.isCut ? cut : nil)
        } catch {
            return Result(note: "not searched: \(error)")
        }
    }

    /// Maximum number of running threads for which it is determined whether they compute: more would take too long.
    private static let mostRunning = 16

    /// The threads with their registers, and copies of their stacks. The other threads are stopped only while their
    /// registers and stacks are copied. None is stopped in a system call that would return early (EINTR), because the
    /// program may continue after the finding.
    private func threads(
        of process: Int, _ asking: zg_dying_process, _ memory: ProcessMemory, microseconds: Int
    ) -> (threads: [HolderPlaces.Thread], stacks: [(start: UInt64, bytes: [UInt8])]) {
        let own = Self.own(asking, process)
        let others = StoppedThreads.threadIDs(of: process).filter { $0 != own.id }
        if others.isEmpty { return ([own], []) }
        let numbers = asking.threadNumbers(main: Int32(truncatingIfNeeded: process))
        var computing = ComputingThreads()
        let running = others.filter { if case .running = StopPlace(of: $0, in: process) { true } else { false } }
        let computingNow = Set(running.prefix(Self.mostRunning).filter { computing.computes($0, of: process) })
        // If no thread can be stopped, the stacks of other threads are searched like any other memory.
        guard
            let stopped = try? StoppedThreads(
                only: others, computing: computingNow, of: process, memory: memory, microseconds: microseconds)
        else { return ([own], []) }
        left.add(stopped, except: child())
        let threads = stopped.threads.map {
            HolderPlaces.Thread(
                id: $0.id, number: numbers[$0.id] ?? 0, name: $0.name, registers: $0.registers, known: $0.known)
        }
        return ([own] + threads, stopped.stacks)
    }

    // The thread that waits in the runtime. Its stack is unwound from the use of the block.
    private static func own(_ asking: zg_dying_process, _ process: Int) -> HolderPlaces.Thread {
        let id = Int32(truncatingIfNeeded: asking.tid)
        var thread = HolderPlaces.Thread(
            id: id, number: asking.threadNumbers(main: Int32(truncatingIfNeeded: process))[id] ?? 0,
            name: ThreadTimes.name(of: id, in: process), registers: asking.allRegisters, known: .max,
            isOwn: true)
        if asking.has_few_registers != 0 {
            thread.isInCall = true
            thread.known = [ZG_THREAD_PC, ZG_THREAD_SP, ZG_THREAD_FP].reduce(0) { $0 | 1 << UInt64($1) }
        }
        return thread
    }

    /// Resumes threads that stopped late, and reaps those that ended while they were traced. Call periodically.
    package func clean() { left.clean() }

    // MARK: Findings

    /// Adds the holders to a finding whose process asked for them.
    ///
    /// - Returns: false if the answer has not been given yet. The finding then waits here until ``ready()`` returns it.
    ///   If too many findings wait, returns true without holders.
    package func complete(_ finding: inout Finding) -> Bool {
        guard let number = finding.search?.rawValue else { return true }
        if take(&finding, number) { return true }
        if waiting.count == Self.mostWaiting { return true }
        waiting.append(
            Waiting(finding: finding, until: monotonicNanoseconds() + Self.reserveMilliseconds * 1_000_000))
        return false
    }

    /// The waiting findings whose search has ended, or whose process did not ask in time.
    ///
    /// - Parameter all: return all waiting findings, because no process will ask.
    package func ready(all: Bool = false) -> [Finding] {
        let now = monotonicNanoseconds()
        var ready: [Finding] = []
        waiting.removeAll { kept in
            var finding = kept.finding
            guard take(&finding, finding.search?.rawValue ?? 0) || all || now > kept.until else { return false }
            finding.search = nil
            ready.append(finding)
            return true
        }
        return ready
    }

    private func take(_ finding: inout Finding, _ number: UInt64) -> Bool {
        guard let process = finding.processID,
            let result = results.removeValue(forKey: Key(process: process, number: number))
        else { return false }
        finding.holders = result.holders
        if let note = result.note { finding.detail["search"] = note }
        finding.search = nil
        return true
    }
}
