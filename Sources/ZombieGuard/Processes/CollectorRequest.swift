// Takes requests of processes from the run's shared page (zg_collector.h).

import CSystem
import CUnwind
import CZombie
import Glibc

/// A request of a process that waits for the answer.
package struct CollectorRequest {
    /// The process's memory; nil if it cannot be read.
    package let memory: ProcessMemory?
    /// The question in the process's memory; nil if it cannot be read.
    package let question: zg_dying_process?
    private let state: UnsafeMutablePointer<UInt32>

    /// Marks a request as taken, so that later copies of the message that announced it are ignored.
    ///
    /// - Parameters:
    ///   - index: number of the request.
    ///   - place: address of the question in the process's memory.
    ///   - nonce: identifies the question.
    ///   - process: the message's sender.
    ///   - page: the run's shared page.
    ///   - mayBeUnreadable: whether to take the request if the question cannot be read, although the process exists.
    /// - Returns: nil if the request is already taken or answered, or if the question cannot be read. Also nil for a
    ///   late copy of a message: the sender has ended, or a process has reused the request since.
    package init?(
        _ index: Int, at place: UInt64, _ nonce: UInt64, of process: Int, on page: RunPage,
        mayBeUnreadable: Bool = false
    ) {
        guard index < Int(ZG_COLLECTOR_REQUESTS) else { return nil }
        let requests: UnsafeMutablePointer<zg_collector_request> = page.place(of: \.collector.requests)
        // The state is the first field of a request.
        state = UnsafeMutableRawPointer(requests + index).assumingMemoryBound(to: UInt32.self)
        guard zg_system_load(state) == zg_request_asked.rawValue else { return nil }
        memory = try? ProcessMemory(processID: process)
        question = memory?.record(zg_dying_process.self, at: place)
        if let question {
            // Both process IDs are those in the process's own PID namespace.
            if question.nonce != nonce || question.pid != requests[index].pid { return nil }
        } else if !mayBeUnreadable || kill(pid_t(truncatingIfNeeded: process), 0) != 0 && errno == ESRCH {
            return nil
        }
        zg_system_store(state, zg_request_taken.rawValue)
    }

    /// Lets the process go on.
    package func finish() {
        zg_system_store(state, zg_request_answered.rawValue)
        _ = zg_system_futex_wake(state)
    }
}

extension zg_dying_process {
    /// The thread's registers by their DWARF numbers. If `has_few_registers` is set, only PC, SP and FP are known; all
    /// others are 0.
    package var allRegisters: [UInt64] {
        var all = withUnsafeBytes(of: registers) { Array($0.bindMemory(to: UInt64.self)) }
        all += [UInt64](repeating: 0, count: max(0, Int(ZG_THREAD_REGISTERS) - all.count))
        all[Int(ZG_THREAD_PC)] = pc
        return all
    }

    /// The runtime's thread numbers by the kernel's thread IDs. `main`: ID of the first thread.
    package func threadNumbers(main: Int32) -> [Int32: Int] {
        var byID = [main: 1]
        let ids = withUnsafeBytes(of: tids) { Array($0.bindMemory(to: UInt32.self)) }
        let known = withUnsafeBytes(of: numbers) { Array($0.bindMemory(to: UInt32.self)) }
        for index in 0..<min(Int(thread_count), ids.count) {
            byID[Int32(truncatingIfNeeded: ids[index])] = Int(known[index])
        }
        return byID
    }
}
