// Finds the libdispatch queue for which a thread waits in `sync`, and the thread that serves the queue, by reading the
// memory of their process.

/// A thread's wait in `DispatchQueue.sync` or `dispatch_async_and_wait`. libdispatch itself ends a program whose thread
/// calls `sync` on a queue that the thread already serves.
struct DispatchWait {
    private let thread: Int32
    private let queue: UInt64
    private let memory: WaitMemory

    // struct dispatch_sync_context_s in libdispatch's src/queue_internal.h, on the stack of the waiting thread. Swift
    // 5.5 to 6.3 have the same layout.
    private enum Context {
        static let flags = 0, itself = 40, queue = 56, event = 96, waiter = 100, bytes = 104
        /// DC_FLAG_SYNC_WAITER, and a limit above all flags.
        static let isSync: UInt64 = 1, mostFlags: UInt64 = 0x1000
    }

    // struct dispatch_lane_s, as in MainQueueWatch.
    private enum Queue {
        static let target = 24, state = 56, number = 64, label = 72, bytes = 80
        static let server: UInt64 = 0x3fff_ffff, mostNumber: UInt64 = 1 << 40
        static let mostTargets = 16, longestLabel = 128
    }

    /// - Parameters:
    ///   - thread: the waiting thread.
    ///   - event: address of the futex word that it waits on.
    /// - Returns: nil if the word is not part of a `dispatch_sync_context_s` in which the thread waits.
    init?(of thread: Int32, on event: UInt64, in memory: WaitMemory) {
        let context = event &- UInt64(Context.event)
        let bytes = memory.bytes(at: context, upTo: Context.bytes)
        guard bytes.count == Context.bytes else { return nil }
        let flags = bytes.word(at: Context.flags)
        guard flags & Context.isSync != 0, flags < Context.mostFlags, bytes.word(at: Context.itself) == context,
            bytes.number(at: Context.waiter) == UInt32(bitPattern: thread)
        else { return nil }
        self.thread = thread
        self.memory = memory
        queue = bytes.word(at: Context.queue)
    }

    /// The thread that serves the queue. If that is the waiting thread, the thread that serves the queue's target
    /// queue, and so on. Nil if a queue cannot be read, or if no thread serves it: then a thread of the pool may begin
    /// to serve it.
    ///
    /// - Parameter isThread: returns its argument if that is the ID of a thread of the process; otherwise nil.
    func awaited(isThread: (UInt32?) -> Int32?) -> AwaitedThread? {
        var place = queue
        for _ in 0..<Queue.mostTargets {
            let bytes = memory.bytes(at: place, upTo: Queue.bytes)
            guard bytes.count == Queue.bytes, (1..<Queue.mostNumber).contains(bytes.word(at: Queue.number)) else {
                return nil
            }
            guard let server = isThread(UInt32(bytes.word(at: Queue.state) & Queue.server)) else { return nil }
            if server != thread {
                let label = memory.bytes(at: bytes.word(at: Queue.label), upTo: Queue.longestLabel).prefix { $0 != 0 }
                return AwaitedThread(
                    kind: .queue, thread: server, address: place,
                    name: label.isEmpty ? nil : String(decoding: label, as: UTF8.self))
            }
            place = bytes.word(at: Queue.target)
        }
        return nil
    }
}

extension [UInt8] {
    fileprivate func word(at place: Int) -> UInt64 {
        withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: UInt64.self) }
    }
}
