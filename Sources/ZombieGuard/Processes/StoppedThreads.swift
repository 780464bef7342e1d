// Threads of another process: stopped for a moment, their registers and stacks copied.

import CUnwind
import Glibc

/// What threads of a process were doing at one moment: all are stopped, copied, and go on before anything is worked out.
struct StoppedThreads {
    struct Thread {
        var id: Int32
        var name: String?
        var registers: [UInt64]
        /// A bit for each register that is known.
        var known = StackUnwinder.allKnown
    }

    /// Why a process cannot be looked at.
    enum Refusal: Error {
        case refused(SystemError)
        case traced
    }

    private(set) var threads: [Thread] = []
    /// Threads that did not stop within the time: in a call that cannot be interrupted.
    private(set) var unstopped: [(id: Int32, name: String?)] = []
    /// Threads that have not stopped yet, and still will.
    private(set) var late: [Int32] = []
    /// Threads that ended meanwhile, which the kernel keeps until they are waited for.
    private(set) var ended: [Int32] = []
    /// Their stacks, by address.
    private(set) var stacks: [(start: UInt64, bytes: [UInt8])] = []

    private static let longestMicroseconds = 2_000_000, stepMicroseconds: UInt32 = 500
    // So many bytes of each of few threads, and of each of many.
    private static let stackBytes = 256 << 10, smallStackBytes = 32 << 10, fewThreads = 64
    /// Below the stack pointer, where leaf functions keep words.
    private static let redZone: UInt64 = 256

    /// Stops all threads of a process but one.
    init(of processID: Int, except own: Int32, memory: ProcessMemory) throws(Refusal) {
        var seized: [Int32] = []
        var isComplete = false
        // A thread that is not stopped yet may make another one.
        while !isComplete {
            isComplete = true
            for thread in Self.threadIDs(of: processID) where thread != own && !seized.contains(thread) {
                let result = zg_thread_seize(thread)
                if result == -ESRCH { continue }
                // One that has ended, and that the kernel keeps until the others have, too, or until somebody takes note of it.
                if result < 0, ThreadTimes(of: processID, thread: UInt32(bitPattern: thread)) == nil { continue }
                if result < 0 {
                    for other in seized { _ = zg_thread_let_go(other, 0) }
                    let isTraced = GuardedProcess.status(of: processID)["TracerPid"].map { $0 != "0" } ?? false
                    throw isTraced && seized.isEmpty ? .traced : .refused(SystemError(number: -result))
                }
                seized.append(thread)
                isComplete = false
            }
        }
        var signals: [Int32: Int32] = [:]
        wait(for: seized, &signals)
        copy(seized.filter { signals[$0] != nil }, processID, memory)
        for thread in seized {
            if signals[thread] == nil, !ended.contains(thread) {
                unstopped.append((thread, ThreadTimes.name(of: thread, in: processID)))
            }
            if zg_thread_let_go(thread, signals[thread] ?? 0) < 0, !ended.contains(thread) { ended.append(thread) }
        }
    }

    /// Stops a few threads and nothing else, for so long at the most. One that has not stopped by then is in ``late``: it is to be let go
    /// once it has. One that waits in a call which a stop would end is not stopped: its stack stands still anyway, but of its registers
    /// only two are known. One that runs is stopped where it is among those that compute (``ComputingThreads``). Numbers that the process
    /// says of itself may be another's: none but its own threads are stopped.
    init(
        only wanted: [Int32], computing: Set<Int32>, of processID: Int, memory: ProcessMemory, microseconds: Int
    ) throws(Refusal) {
        var seized: [Int32] = []
        for thread in wanted where Self.isThread(thread, of: processID) {
            switch StopPlace(of: thread, in: processID) {
            case .disturbed(let call):
                copy(thread, waitingIn: call, processID, memory)
                continue
            case .running: if !computing.contains(thread) { continue }
            case .undisturbed: break
            }
            let result = zg_thread_seize(thread)
            if result == 0 {
                // A seized thread keeps its number; before, it may have passed it on.
                if Self.isThread(thread, of: processID) {
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
        for thread in seized where !ended.contains(thread) {
            guard let signal = signals[thread] else {
                late.append(thread)
                continue
            }
            if zg_thread_let_go(thread, signal) < 0 { ended.append(thread) }
        }
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

    private mutating func copy(_ stopped: [Int32], _ processID: Int, _ memory: ProcessMemory) {
        let most = stopped.count <= Self.fewThreads ? Self.stackBytes : Self.smallStackBytes
        for thread in stopped {
            var registers = [UInt64](repeating: 0, count: Int(ZG_THREAD_REGISTERS))
            guard zg_thread_registers(thread, &registers) == 0 else { continue }
            threads.append(Thread(id: thread, name: ThreadTimes.name(of: thread, in: processID), registers: registers))
            let start = registers[Int(ZG_THREAD_SP)] &- Self.redZone
            stacks.append((start, memory.read(at: start, upTo: most)))
        }
        stacks.sort { $0.start < $1.start }
    }

    // A thread that is not stopped. It may go on meanwhile, and nothing is known of it then.
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

    private static func isThread(_ thread: Int32, of processID: Int) -> Bool {
        thread > 0 && access("/proc/\(processID)/task/\(thread)", F_OK) == 0
    }

    static func threadIDs(of processID: Int) -> [Int32] {
        directoryEntries("/proc/\(processID)/task").compactMap { Int32(digits: $0) }.sorted()
    }
}

/// Memory of a process of which some was copied before.
final class CopiedMemory: MemoryReader {
    private let copies: [(start: UInt64, bytes: [UInt8])] // in the order of their addresses
    private let memory: any MemoryReader

    init(copies: [(start: UInt64, bytes: [UInt8])], memory: any MemoryReader) {
        self.copies = copies
        self.memory = memory
    }

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        var bytes = memory.read(at: address, upTo: count)
        // Where the memory has gone by now, it is the copy's alone.
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
