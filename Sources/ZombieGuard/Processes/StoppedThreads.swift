// Stops threads of another process briefly and copies their registers and stacks.

import CSystem
import CUnwind
import CZombie
import Glibc

/// A snapshot of threads of a process. All threads are stopped, copied and resumed before any stack is unwound.
package struct StoppedThreads {
    package struct Thread {
        package var id: Int32
        package var name: String?
        package var registers: [UInt64]
        /// A bit for each valid register, by DWARF number.
        package var known = StackUnwinder.allKnown
    }

    /// Why the threads cannot be stopped.
    package enum Refusal: Error {
        case refused(SystemError)
        case traced
    }

    package private(set) var threads: [Thread] = []
    /// Threads that did not stop in time because they are in an uninterruptible call.
    package private(set) var unstopped: [(id: Int32, name: String?)] = []
    /// Threads that have not stopped yet. After they have stopped, the caller must resume them.
    package private(set) var late: [Int32] = []
    /// Threads that ended while traced. The kernel keeps them until the tracer waits for them.
    package private(set) var ended: [Int32] = []
    /// Signals with which stopped threads continue; 0: none.
    private var signals: [Int32: Int32] = [:]
    /// Copies of the stacks, by address.
    package private(set) var stacks: [(start: UInt64, bytes: [UInt8])] = []

    /// Words of the vector registers of a stopped thread. While a thread copies memory, some of the pointers that it
    /// copies may be in these registers only. Call while the threads are stopped.
    package func vectorWords(of thread: Int32) -> [UInt64] {
        [UInt64](unsafeUninitializedCapacity: Self.mostVectorWords) { words, count in
            let bytes = zg_thread_vectors(thread, words.baseAddress, Self.mostVectorWords * 8)
            count = max(0, Int(bytes)) / 8
        }
    }

    // AVX-512 with AMX takes 11 KiB.
    private static let mostVectorWords = 2048

    private static let longestMicroseconds = 2_000_000, stepMicroseconds: UInt32 = 500
    // Bytes copied per stack: `stackBytes` for up to `fewThreads` threads, else `smallStackBytes`.
    private static let stackBytes = 256 << 10, smallStackBytes = 32 << 10, fewThreads = 64
    /// Red zone below the stack pointer, where leaf functions keep data.
    private static let redZone: UInt64 = 256

    /// Stops all threads of a process except one.
    ///
    /// `whileStopped` runs when the registers and stacks have been copied, before the threads continue. If zguard dies
    /// meanwhile, the kernel detaches from the threads, and they continue.
    ///
    /// - Parameter copiesStacks: false if the caller reads the stacks itself.
    package init(
        of processID: Int, except own: Int32 = 0, memory: ProcessMemory, copiesStacks: Bool = true,
        whileStopped: (inout StoppedThreads) -> Void = { _ in }
    ) throws(Refusal) {
        var seized: [Int32] = []
        var isComplete = false
        // A running thread may create another thread: repeat until no new thread appears.
        while !isComplete {
            isComplete = true
            for thread in Self.threadIDs(of: processID) where thread != own && !seized.contains(thread) {
                let result = Self.seize(thread, of: processID)
                if result == -ESRCH { continue }
                // The thread has exited. The kernel keeps it until the other threads have exited, or its parent or
                // tracer has waited for it.
                if result < 0, ThreadTimes(of: processID, thread: UInt32(bitPattern: thread)) == nil { continue }
                if result < 0 {
                    for other in seized { _ = zg_thread_detach(other, 0) }
                    let isTraced = GuardedProcess.status(of: processID)["TracerPid"].map { $0 != "0" } ?? false
                    throw isTraced && seized.isEmpty ? .traced : .refused(SystemError(number: -result))
                }
                seized.append(thread)
                isComplete = false
            }
        }
        var signals: [Int32: Int32] = [:]
        wait(for: seized, &signals)
        for thread in seized where signals[thread] == nil && !ended.contains(thread) {
            unstopped.append((thread, ThreadTimes.name(of: thread, in: processID)))
        }
        copy(seized.filter { signals[$0] != nil }, processID, memory, copiesStacks: copiesStacks)
        self.signals = signals
        whileStopped(&self)
        for thread in seized where !ended.contains(thread) {
            guard let signal = self.signals[thread] else {
                late.append(thread)
                continue
            }
            if zg_thread_detach(thread, signal) < 0 { ended.append(thread) }
        }
    }

    /// Stops only the threads in `wanted`, and waits at most `microseconds` for them. Threads that have not stopped by
    /// then are in ``late``. A thread is not stopped if it is in a system call that would return early (EINTR) because
    /// of the stop: its stack does not change during the call, and /proc shows its stack pointer and program counter. A
    /// running thread is stopped only if it is in `computing` (``ComputingThreads``). Thread IDs come from the process
    /// and may be forged: only threads of the process are stopped. `whileStopped` runs before the threads continue.
    package init(
        only wanted: [Int32], computing: Set<Int32>, of processID: Int, memory: ProcessMemory, microseconds: Int,
        whileStopped: (StoppedThreads) -> Void = { _ in }
    ) throws(Refusal) {
        var seized: [Int32] = []
        for thread in wanted where ThreadTimes.isThread(thread, of: processID) {
            switch StopPlace(of: thread, in: processID) {
            case .disturbed(let call):
                copy(thread, waitingIn: call, processID, memory)
                continue
            case .running: if !computing.contains(thread) { continue }
            case .undisturbed: break
            }
            let result = Self.seize(thread, of: processID)
            if result == 0 {
                // TOCTOU: before the seize, another thread may have taken over the ID. A seized thread keeps its ID.
                if ThreadTimes.isThread(thread, of: processID) {
                    seized.append(thread)
                } else {
                    late.append(thread)
                }
            } else if result != -ESRCH, seized.isEmpty,
                ThreadTimes(of: processID, thread: UInt32(bitPattern: thread)) != nil
            {
                throw .refused(SystemError(number: -result))
            }
        }
        var signals: [Int32: Int32] = [:]
        wait(for: seized, &signals, microseconds: microseconds)
        copy(seized.filter { signals[$0] != nil }, processID, memory)
        whileStopped(self)
        for thread in seized where !ended.contains(thread) {
            guard let signal = signals[thread] else {
                late.append(thread)
                continue
            }
            if zg_thread_detach(thread, signal) < 0 { ended.append(thread) }
        }
    }

    // A thread that did not stop in time for an earlier snapshot is still traced by the calling thread, and its stop is
    // pending. The kernel answers EPERM to a second seize.
    private static func seize(_ thread: Int32, of processID: Int) -> Int32 {
        let result = zg_thread_seize(thread)
        guard result == -EPERM, ThreadTimes.isThread(thread, of: processID) else { return result }
        return GuardedProcess.status(of: Int(thread))["TracerPid"] == "\(zg_system_thread_id())" ? 0 : result
    }

    private mutating func wait(
        for seized: [Int32], _ signals: inout [Int32: Int32], microseconds: Int = longestMicroseconds
    ) {
        var waited = 0
        while waited < microseconds {
            var isAnyLeft = false
            for thread in seized where signals[thread] == nil && !ended.contains(thread) {
                var signal: Int32 = 0
                let result = zg_thread_has_stopped(thread, &signal)
                if result > 0 { signals[thread] = signal }
                if result < 0 { ended.append(thread) }
                if result == 0 { isAnyLeft = true }
            }
            if !isAnyLeft { return }
            usleep(Self.stepMicroseconds)
            waited += Int(Self.stepMicroseconds)
        }
    }

    /// Copies the process by fork. Call while all threads are stopped. The copy never runs, and is no child of the
    /// process.
    ///
    /// - Parameters:
    ///   - processID: ID of the process.
    ///   - code: addresses of the runtime's code that forks, and of the words in which that code gets registers.
    ///   - filters: number of seccomp filters that allow the system calls of the code.
    /// - Throws: the kernel's error; `ECHILD` if the process is a reaper of orphans, `EBUSY` if no thread can be used:
    ///   each is about to handle a signal, has other filters, or must not execute other code (`zg_snapshot_may_use`).
    package mutating func copy(
        of processID: Int, by code: zg_layout_snapshot, filters: UInt64
    ) throws(SystemError) -> ProcessCopy {
        var tries = 0
        for thread in threads where signals[thread.id] == 0 && zg_snapshot_may_use(thread.id) {
            guard SystemCallFilters.count(of: "\(processID)/task/\(thread.id)") == filters else { continue }
            var copy: Int32 = 0
            var signal: Int32 = 0
            let result = zg_snapshot_make(
                thread.id, code.code, code.words, Self.longestCopyMilliseconds, &copy, &signal)
            signals[thread.id] = signal
            if result == 0 { return ProcessCopy(processID: Int(copy)) }
            tries += 1
            if result != -EINTR || tries == Self.mostTries { throw SystemError(number: -result) }
        }
        throw SystemError(number: EBUSY)
    }

    private static let longestCopyMilliseconds: Int32 = 10_000, mostTries = 3

    private mutating func copy(
        _ stopped: [Int32], _ processID: Int, _ memory: ProcessMemory, copiesStacks: Bool = true
    ) {
        let most = stopped.count <= Self.fewThreads ? Self.stackBytes : Self.smallStackBytes
        for thread in stopped {
            var registers = [UInt64](repeating: 0, count: Int(ZG_THREAD_REGISTERS))
            guard zg_thread_registers(thread, &registers) == 0 else { continue }
            threads.append(Thread(id: thread, name: ThreadTimes.name(of: thread, in: processID), registers: registers))
            if !copiesStacks { continue }
            let start = registers[Int(ZG_THREAD_SP)] &- Self.redZone
            stacks.append((start, memory.read(at: start, upTo: most)))
        }
        stacks.sort { $0.start < $1.start }
    }

    // Copies the stack of a thread that is not stopped. Discards the copy if the thread has left the system call
    // meanwhile.
    private mutating func copy(
        _ thread: Int32, waitingIn call: SystemCall, _ processID: Int, _ memory: ProcessMemory
    ) {
        var registers = [UInt64](repeating: 0, count: Int(ZG_THREAD_REGISTERS))
        registers[Int(ZG_THREAD_PC)] = call.programCounter
        registers[Int(ZG_THREAD_SP)] = call.stackPointer
        let start = call.stackPointer &- Self.redZone
        let bytes = memory.read(at: start, upTo: Self.stackBytes)
        guard SystemCall(of: processID, thread: UInt32(bitPattern: thread)) == call else { return }
        threads.append(
            Thread(
                id: thread, name: ThreadTimes.name(of: thread, in: processID), registers: registers,
                known: 1 << UInt64(ZG_THREAD_PC) | 1 << UInt64(ZG_THREAD_SP)))
        stacks.append((start, bytes))
    }

    package static func threadIDs(of processID: Int) -> [Int32] {
        directoryEntries("/proc/\(processID)/task").compactMap { Int32(digits: $0) }.sorted()
    }
}

/// Memory of a process. Where copies made earlier exist, they are read instead of the current contents.
package final class CopiedMemory: MemoryReader {
    private let copies: [(start: UInt64, bytes: [UInt8])] // sorted by address
    private let memory: any MemoryReader

    package init(copies: [(start: UInt64, bytes: [UInt8])], memory: any MemoryReader) {
        self.copies = copies
        self.memory = memory
    }

    package func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        var bytes = memory.read(at: address, upTo: count)
        // Memory that was unmapped after the copy was made exists only in the copies.
        for copy in copies {
            let end = copy.start &+ UInt64(copy.bytes.count)
            if copy.start <= address, address < end, bytes.count < count {
                bytes = Array(copy.bytes[Int(address - copy.start)...].prefix(count))
            }
            let low = max(copy.start, address)
            let high = min(end, address &+ UInt64(bytes.count))
            if low >= high { continue }
            let part = copy.bytes[Int(low - copy.start)..<Int(high - copy.start)]
            bytes.replaceSubrange(Int(low - address)..<Int(high - address), with: part)
        }
        return bytes
    }
}

/// Threads of stopped processes that have to be resumed or reaped later.
package struct LeftThreads {
    /// `mayReap`: whether no other part of zguard waits for the thread to end.
    private var late: [(thread: Int32, mayReap: Bool)] = []
    private var ended: [Int32] = []

    package init() {}

    /// - Parameters:
    ///   - stopped: a snapshot whose threads have been resumed.
    ///   - child: ID of the child process that another part of zguard waits for.
    package mutating func add(_ stopped: StoppedThreads, except child: Int32?) {
        late += stopped.late.map { ($0, $0 != child) }
        ended += stopped.ended.filter { $0 != child }
    }

    /// Resumes threads that stopped late, and reaps those that ended while they were traced. Call periodically.
    package mutating func clean() {
        late.removeAll { thread, mayReap in
            var signal: Int32 = 0
            let result = zg_thread_has_stopped(thread, &signal)
            if result > 0 { _ = zg_thread_detach(thread, signal) }
            // A traced thread that has ended keeps its process from ending until the tracer has waited for it.
            if result < 0, mayReap { return zg_thread_reap(thread) != 0 }
            return result != 0
        }
        ended.removeAll { zg_thread_reap($0) != 0 }
    }
}
