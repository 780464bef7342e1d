// Collects the stacks of all threads of dying processes at their request.

import CSystem
import CUnwind
import CZombie
import Glibc

/// Answers the requests for stacks on the run's shared page (zg_collector.h) and keeps the collected stacks.
package final class CrashRequests {
    private let page: RunPage
    private var collected: [Int: Collected] = [:] // by process ID
    private var left = LeftThreads()
    private let child: () -> Int32?

    private struct Collected {
        var faulted: Int32
        var threads: [Finding.ThreadStack] = []
        /// Why the stacks of the other threads are missing.
        var obstacle: String?
        /// Panic message of a Go program, read from its memory: Go writes it without libc, unseen by the runtime.
        var words: String?
    }

    /// The reason why only the stack of the dying thread can be shown; nil if the stacks of all threads can be shown.
    package static var obstacle: String? {
        SystemCallFilters.forbidsTracing ? "a seccomp filter forbids ptrace" : StackUnwinder.obstacle
    }

    /// - Parameters:
    ///   - page: the run's shared page.
    ///   - child: returns the ID of the child process that another part of zguard waits for.
    package init(page: Descriptor, child: @escaping () -> Int32?) throws(SystemError) {
        self.page = try RunPage(page)
        self.child = child
        self.page.contents.pointee.collector.pid = UInt32(getpid())
    }

    /// Stops answering. Processes that wait for an answer continue without an answer, and so do processes that ask
    /// later.
    package func close() { zg_system_store(page.place(of: \.collector.pid), 0) }

    /// Answers the request that a message announces: collects the stacks of its sender. A process resends the message
    /// until the request is answered.
    package func answer(_ message: RunMessage) {
        guard case .dying(let index, let place, let nonce) = message.content,
            let request = CollectorRequest(
                index, at: place, nonce, of: message.sender.number, on: page, mayBeUnreadable: true)
        else { return }
        collect(from: message.sender.number, request)
        request.finish()
    }

    /// Frees the requests of processes that have ended. Call periodically.
    package func clean() {
        left.clean()
        for index in 0..<Int(ZG_COLLECTOR_REQUESTS) {
            let request = requests + index
            let process = pid_t(truncatingIfNeeded: request.pointee.pid)
            if zg_system_load(&request.pointee.state) != zg_request_free.rawValue, process > 0,
                kill(process, 0) != 0, errno == ESRCH
            {
                zg_system_store(&request.pointee.state, zg_request_free.rawValue)
            }
        }
    }

    private var requests: UnsafeMutablePointer<zg_collector_request> { page.place(of: \.collector.requests) }

    /// Adds the collected stacks to a finding of a process that asked for them.
    package func complete(_ finding: inout Finding) {
        guard let crash = finding.crash, crash.threads.isEmpty, let process = finding.processID,
            let known = collected.removeValue(forKey: process)
        else { return }
        if let obstacle = known.obstacle { finding.detail["threads"] = "only the crashed thread: \(obstacle)" }
        if crash.message == nil, crash.signal == "SIGABRT" { finding.crash?.message = known.words }
        finding.add(known.threads)
    }

    private func collect(from process: Int, _ request: CollectorRequest) {
        var result = Collected(faulted: 0)
        defer { collected[process] = result }
        guard let memory = request.memory else {
            result.obstacle = "its memory cannot be read"
            return
        }
        guard let dying = request.question else {
            result.obstacle = "the process has ended"
            return
        }
        // In another PID namespace, the process and its findings use other process and thread IDs.
        guard dying.pid == process else {
            collected[Int(dying.pid)] = Collected(faulted: 0, obstacle: "it is in another PID namespace")
            return
        }
        result.faulted = Int32(truncatingIfNeeded: dying.tid)
        // If a published function made the request, too few registers of its caller are known to find a Go panic.
        let registers = dying.has_few_registers == 0 ? dying.allRegisters : nil
        result.words = registers.flatMap { GoPanic(registers: $0, in: memory)?.message }
        if let obstacle = Self.obstacle {
            result.obstacle = obstacle
            return
        }
        let stopped: StoppedThreads
        do throws(StoppedThreads.Refusal) {
            stopped = try StoppedThreads(of: process, except: result.faulted, memory: memory)
        } catch {
            switch error {
            case .traced: result.obstacle = "a debugger traces the program"
            case .refused(let error): result.obstacle = "the kernel refuses ptrace (\(error))"
            }
            return
        }
        left.add(stopped, except: child())
        result.threads = threads(of: process, dying, registers, stopped, memory)
    }

    private func threads(
        of process: Int, _ dying: zg_dying_process, _ registers: [UInt64]?, _ stopped: StoppedThreads,
        _ memory: ProcessMemory
    ) -> [Finding.ThreadStack] {
        let unwinder = StackUnwinder(
            mappings: (try? Mapping.all(of: process)) ?? [],
            memory: CopiedMemory(copies: stopped.stacks, memory: memory))
        let numbers = dying.threadNumbers(main: Int32(truncatingIfNeeded: process))
        let own = Int32(truncatingIfNeeded: dying.tid)
        func thread(_ id: Int32, _ name: String?, _ registers: [UInt64]?) -> Finding.ThreadStack {
            Finding.ThreadStack(
                id: numbers[id], threadID: Int(id), name: name, hasFaulted: id == own,
                stack: registers.map { unwinder.stack(from: $0) } ?? [])
        }
        let name = ThreadTimes.name(of: own, in: process)
        return [thread(own, name, registers)]
            + stopped.threads.map { thread($0.id, $0.name, $0.registers) }
            + stopped.unstopped.map { thread($0.id, $0.name, nil) }
    }
}

extension Finding {
    /// Adds the stacks of all threads to a crash finding.
    mutating func add(_ threads: [ThreadStack]) {
        var threads = threads
        if let own = threads.firstIndex(where: \.hasFaulted) {
            threads[own].id = thread?.id ?? threads[own].id
            threads[own].name = threads[own].name ?? thread?.name
            // Keep the longer of zguard's and the runtime's stack: zguard's libunwind follows frame pointers through
            // JIT code, and the runtime recovers from calls of invalid addresses.
            if threads[own].stack.count >= stacks.access.count {
                stacks.access = threads[own].stack
            } else {
                threads[own].stack = stacks.access
            }
        }
        crash?.threads = threads
    }
}
