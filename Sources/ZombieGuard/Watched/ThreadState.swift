// Reads the state of a thread from /proc: CPU time and current system call.

import CSystem
import CUnwind
import Glibc

/// Scheduling times of a thread.
package struct ThreadTimes {
    /// Nanoseconds spent running, and spent runnable while waiting for a processor.
    package var ran: UInt64 = 0, delayed: UInt64 = 0
    /// Stopped by a signal or a debugger.
    package var isStopped = false
    /// Running, or waiting for a processor.
    package var isRunnable = false
    let process: Int
    package var thread: UInt32

    /// - Returns: nil if the thread has ended.
    package init?(of process: Int, thread: UInt32) {
        let folder = "/proc/\(process)/task/\(thread)/"
        guard let status = try? readFile(folder + "stat") else { return nil }
        let behindName = status.lastIndex(of: UInt8(ascii: ")")).map { status[$0...].dropFirst(2) } ?? []
        guard let state = behindName.first, ![UInt8(ascii: "Z"), UInt8(ascii: "X")].contains(state) else { return nil }
        (self.process, self.thread) = (process, thread)
        isStopped = state == UInt8(ascii: "T")
        isRunnable = state == UInt8(ascii: "R")
        // Some kernels lack schedstat: the times stay 0. If the folder is gone, too, the thread has ended.
        let times = try? readFile(folder + "schedstat")
        if times == nil, access(folder, F_OK) != 0 { return nil }
        let words = (times ?? []).split(separator: UInt8(ascii: " "))
        ran = words.first.flatMap { UInt64(digits: String(decoding: $0, as: UTF8.self)) } ?? 0
        delayed = words.count > 1 ? UInt64(digits: String(decoding: words[1], as: UTF8.self)) ?? 0 : 0
    }

    /// Number of voluntary context switches; nil if the thread has ended.
    static func waits(of thread: Int32, in process: Int) -> UInt64? {
        guard let bytes = try? readFile("/proc/\(process)/task/\(thread)/status") else { return nil }
        let label = "voluntary_ctxt_switches:"
        let line = bytes.split(separator: 10).first { $0.starts(with: label.utf8) }
        return line.flatMap {
            UInt64(digits: String(decoding: $0.dropFirst(label.utf8.count).drop { $0 == 9 || $0 == 32 }, as: UTF8.self))
        }
    }

    /// Whether the process has a thread with this ID.
    package static func isThread(_ thread: Int32, of process: Int) -> Bool {
        thread > 0 && access("/proc/\(process)/task/\(thread)", F_OK) == 0
    }

    /// Name of the thread; nil if the thread has ended.
    package static func name(of thread: Int32, in process: Int) -> String? {
        guard let bytes = try? readFile("/proc/\(process)/task/\(thread)/comm") else { return nil }
        return String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self)
    }
}

/// The system call that a thread is blocked in.
package struct SystemCall: Equatable {
    package var number: Int
    package var arguments: [UInt64]
    package var stackPointer: UInt64
    /// Address behind the system call instruction.
    package var programCounter: UInt64

    /// - Returns: nil if the thread is not blocked in a system call.
    package init?(of process: Int, thread: UInt32) {
        guard let bytes = try? readFile("/proc/\(process)/task/\(thread)/syscall") else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard words.count > 8, let number = Int(digits: words[0]) else { return nil }
        self.number = number
        let values = words[1...8].map { UInt64(digits: $0.dropFirst(2), radix: 16) ?? 0 }
        arguments = Array(values[..<6])
        (stackPointer, programCounter) = (values[6], values[7])
    }

    /// Name such as "futex"; nil if unknown.
    package var name: String? { zg_call_name(number).map { String(cString: $0) } }
    package var isFutex: Bool { zg_call_is_futex(number) }
    /// Whether the call waits for the next client to connect, as in servers that handle one request at a time.
    package var waitsForStrangers: Bool { zg_call_accepts_clients(number) }

    /// Whether this is the same call as `earlier`, possibly restarted after a stop.
    package func goesOn(with earlier: SystemCall) -> Bool {
        (number == earlier.number || zg_call_is_restart(number)) && arguments == earlier.arguments
            && stackPointer == earlier.stackPointer
    }

    /// The thread that holds the lock on which the futex call waits. glibc mutexes store the owner 8 bytes behind the
    /// futex word; priority-inheritance mutexes and Swift's mutexes store the owner in the word; read-write locks store
    /// the writer behind their two futex words.
    /// Source: glibc's struct_mutex.h and struct_rwlock.h.
    ///
    /// - Parameters:
    ///   - thread: the waiting thread.
    ///   - process: the process of the threads.
    ///   - read: reads four bytes at an address.
    /// - Returns: nil if the call is no futex wait, or no thread holds the lock.
    package func holder(for thread: UInt32, of process: Int, read: (UInt64) -> UInt32?) -> Int32? {
        guard zg_call_is_futex(number), let word = read(arguments[0]) else { return nil }
        func isThread(_ number: UInt32?) -> Int32? {
            guard let number, number > 1, number != thread else { return nil }
            let id = Int32(bitPattern: number)
            return ThreadTimes.isThread(id, of: process) ? id : nil
        }
        // Values 0 to 2 are lock states, not thread IDs.
        let ownerBits: UInt32 = 0x3fff_ffff
        let inWord = word > 2 ? word & ownerBits : nil
        if let owner = isThread(inWord) ?? isThread(read(arguments[0] &+ 8)) { return owner }
        // struct __pthread_rwlock_arch_t: readers, writers, two futex words (at 8 and 12), padding of 8 zero bytes, the
        // writer.
        for offset: UInt64 in [8, 12] {
            let lock = arguments[0] &- offset
            if read(lock &+ 16) == 0, read(lock &+ 20) == 0, let owner = isThread(read(lock &+ 24)) { return owner }
        }
        return nil
    }
}

extension UInt64 {
    package func subtractingClamped(_ other: UInt64) -> UInt64 { self > other ? self - other : 0 }
}
