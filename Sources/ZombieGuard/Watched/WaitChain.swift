// Finds deadlocks: follows the chain of threads that each wait, without a time limit, for the next. All data comes from
// another process's memory, which may hold any values.

import CUnwind
import Glibc

/// Reads another process's memory.
package struct WaitMemory {
    private let read: (UInt64, Int) -> [UInt8]

    /// - Parameter read: reads up to a number of bytes at an address; fewer if some are unreadable.
    package init(read: @escaping (_ address: UInt64, _ count: Int) -> [UInt8]) { self.read = read }

    func bytes(at address: UInt64, upTo count: Int) -> [UInt8] { read(address, count) }

    /// The words of four bytes at an address; nil if some are unreadable.
    func numbers(at address: UInt64, count: Int) -> [UInt32]? {
        let bytes = read(address, 4 * count)
        return bytes.count == 4 * count ? (0..<count).map { bytes.number(at: 4 * $0) } : nil
    }
}

extension [UInt8] {
    func number(at place: Int) -> UInt32 {
        withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: UInt32.self) }
    }
}

/// The thread that must run before a waiting thread can go on, and what the wait is for. Only waits without a time
/// limit count. The rules are stricter than those of ``SystemCall/holder(for:of:read:)``, which accepts any word that
/// looks like an owner.
package struct AwaitedThread: Equatable {
    package enum Kind: String {
        /// A mutex of glibc, or one whose owner the kernel knows.
        case mutex
        /// A read-write lock that is held for writing. The holders of a read lock are unknown.
        case rwlock
        /// A queue of libdispatch, in `sync`.
        case queue
        /// The end of the thread.
        case end
    }

    package var kind: Kind
    /// The thread that must run first: the owner of the lock, the thread that serves the queue, or the thread that must
    /// end. May be the waiting thread itself.
    package var thread: Int32
    /// Address of the lock or queue; for ``Kind/end``, address of the word that the kernel clears when the thread ends.
    package var address: UInt64
    /// Label of the queue.
    package var name: String?
    /// Address behind the system call, if the memory only looks like a lock or thread of glibc. Callers must check that
    /// this code is glibc's.
    package var codeOfGlibc: UInt64?
}

extension SystemCall {
    private enum Futex {
        static let wait: UInt64 = 0, lock: UInt64 = 6, waitBits: UInt64 = 9, lockWithClock: UInt64 = 13
        /// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
        static let flags: UInt64 = 128 | 256, isPrivate: UInt64 = 128
        static let waiters: UInt32 = 0x8000_0000, owner: UInt32 = 0x3fff_ffff
    }

    /// The thread without which this call never returns; nil if there is none, or if none is certain.
    ///
    /// - Parameters:
    ///   - process: the process of the threads.
    ///   - thread: the waiting thread.
    ///   - memory: memory of the process.
    package func awaited(by thread: Int32, of process: Int, in memory: WaitMemory) -> AwaitedThread? {
        let place = arguments[0]
        guard isFutex, arguments[3] == 0, let word = memory.numbers(at: place, count: 1)?.first else { return nil }
        func isThread(_ number: UInt32?) -> Int32? {
            guard let number, number > 2, number <= Futex.owner else { return nil }
            return ThreadTimes.isThread(Int32(number), of: process) ? Int32(number) : nil
        }
        func of(_ kind: AwaitedThread.Kind, _ owner: UInt32?, _ address: UInt64) -> AwaitedThread? {
            isThread(owner).map {
                AwaitedThread(kind: kind, thread: $0, address: address, codeOfGlibc: programCounter)
            }
        }
        switch arguments[1] & ~Futex.flags {
        case Futex.lock, Futex.lockWithClock:
            // In mutexes with priority inheritance, and in Swift's, the word holds the owner's ID, which the kernel
            // reads.
            return isThread(word & Futex.owner).map { AwaitedThread(kind: .mutex, thread: $0, address: place) }
        case Futex.wait, Futex.waitBits: break
        default: return nil
        }
        guard UInt32(truncatingIfNeeded: arguments[2]) == word else { return nil }
        if word == .max { return DispatchWait(of: thread, on: place, in: memory)?.awaited(isThread: isThread) }
        // struct __pthread_mutex_s of glibc: lock, count, owner, users, kind.
        let mutex = memory.numbers(at: place, count: 5)
        let kind = mutex.map { $0[4] & 0x7f }
        if word == 2 {
            guard let mutex, let kind, kind <= 3, mutex[3] >= 1 else { return nil }
            return of(.mutex, mutex[2], place)
        }
        if word == GlibcRWLock.awaitedWord, let lock = GlibcRWLock(waitedForAt: place, in: memory) {
            return lock.writer == UInt32(bitPattern: thread) ? nil : of(.rwlock, lock.writer, lock.address)
        }
        let robust: UInt32 = 16
        if word & Futex.waiters != 0 {
            return kind.map { $0 & robust != 0 } == true ? of(.mutex, word & Futex.owner, place) : nil
        }
        // pthread_join waits until the kernel clears the word with the thread's id, and therefore uses a shared futex.
        // Other words, such as a barrier's, may equal an id by chance, but threads wait on them as private futexes.
        guard arguments[1] & Futex.isPrivate == 0, word != UInt32(bitPattern: thread) else { return nil }
        return of(.end, word, place)
    }
}

/// A read-write lock of glibc that is held for writing. Source: glibc's struct_rwlock.h and pthread_rwlock_common.c.
private struct GlibcRWLock {
    let address: UInt64
    let writer: UInt32

    /// Value of the futex word that readers or writers wait on: 1, and PTHREAD_RWLOCK_FUTEX_USED.
    static let awaitedWord: UInt32 = 3
    /// Bits of the readers' word: PTHREAD_RWLOCK_WRPHASE and PTHREAD_RWLOCK_WRLOCKED, which mean that a writer has the
    /// lock.
    private static let isWritten: UInt32 = 3
    /// The largest value of PTHREAD_RWLOCK_PREFER_…, and the possible values of the word `__shared`.
    private static let mostFlags: UInt32 = 2, shared: Set<UInt32> = [0, 1, 128]

    init?(waitedForAt place: UInt64, in memory: WaitMemory) {
        // Words: readers, writers, futexes of readers and of writers, two of padding, writer, shared, …, flags.
        for offset: UInt64 in [8, 12] {
            guard let words = memory.numbers(at: place &- offset, count: 13),
                words[0] & Self.isWritten == Self.isWritten, words[4] == 0, words[5] == 0,
                Self.shared.contains(words[7]), words[12] <= Self.mostFlags
            else { continue }
            (address, writer) = (place &- offset, words[6])
            return
        }
        return nil
    }
}

/// Threads of which each waits for the next one.
package struct WaitChain: Equatable {
    /// The threads, and what each waits for. The last thread waits for one of them if ``isClosed``.
    package private(set) var threads: [Int32]
    package private(set) var awaited: [AwaitedThread] = []
    /// Index of the thread that the last thread waits for. Nil if that thread is outside the chain or unknown: then the
    /// threads may go on.
    package private(set) var closing: Int?
    /// Whether none of the threads can go on.
    package var isClosed: Bool { closing != nil }

    private static let most = 64

    /// Follows the waits from a thread on.
    ///
    /// - Parameters:
    ///   - thread: the first thread.
    ///   - process: its process.
    ///   - memory: memory of the process.
    package init(from thread: Int32, of process: Int, in memory: WaitMemory) {
        threads = [thread]
        while threads.count <= Self.most {
            let last = threads[threads.count - 1]
            guard let call = SystemCall(of: process, thread: UInt32(bitPattern: last)),
                let next = call.awaited(by: last, of: process, in: memory)
            else { return }
            awaited.append(next)
            closing = threads.firstIndex(of: next.thread)
            if isClosed { return }
            threads.append(next.thread)
        }
    }
}
