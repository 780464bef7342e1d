// Finds the thread that serves Dispatch's main queue.

import CSystem
import Glibc

/// Tracks the thread that serves the main queue. After `dispatchMain()`, as in every program with an asynchronous main,
/// several threads of Dispatch's pool take turns. The queue's state holds the kernel's id of its owner in the low 30
/// bits of a word (DLOCK_OWNER_MASK in libdispatch's shims/lock.h, Swift 5.5 to 6.3). The offset of that word is
/// learned on the serving thread. If the offset is not found, the thread that last served the queue is assumed to be
/// the owner.
struct MainQueue {
    /// nil until the queue has been served.
    private(set) var lastServer: Int32?
    /// Bit mask of the words of `_dispatch_main_q` that contained the calling thread's id at every call of `isServed`.
    private var places: UInt32

    private static let words = 24
    private static let ownerBits: UInt32 = 0x3fff_ffff
    private static let address: UInt? = dlsym(nil, "_dispatch_main_q").map { UInt(bitPattern: $0) }

    init() { places = Self.address == nil ? 0 : (1 << UInt32(Self.words)) - 1 }

    private static func owner(at place: Int) -> Int32 {
        guard let word = address.flatMap({ UnsafePointer<UInt32>(bitPattern: $0) }) else { return 0 }
        return Int32(bitPattern: zg_system_load(word + place) & ownerBits)
    }

    /// Records the calling thread. Call on the thread that serves the queue, or on the thread that prevents the queue
    /// from being served.
    mutating func isServed() {
        let thread = zg_system_thread_id()
        lastServer = thread
        for place in 0..<Self.words where Self.owner(at: place) != thread { places &= ~(1 << UInt32(place)) }
    }

    /// The thread that serves the queue now; nil if no thread serves it, or none ever did.
    var server: Int32? {
        guard lastServer != nil, let place = (0..<Self.words).first(where: { places >> UInt32($0) & 1 != 0 }) else {
            return lastServer
        }
        let owner = Self.owner(at: place)
        return owner > 0 && access("/proc/self/task/\(owner)", F_OK) == 0 ? owner : nil
    }
}
