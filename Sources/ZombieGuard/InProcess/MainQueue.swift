// Which thread serves Dispatch's main queue.

import CSystem
import Glibc

/// The main queue's own record of who serves it. After `dispatchMain()`, so in every program whose main is asynchronous, that is now one
/// worker and now another. The queue's state has the kernel's number of the thread in its low 30 bits (DLOCK_OWNER_MASK in libdispatch's
/// shims/lock.h, of Swift 5.5 to 6.3); where it stands is found by looking from the inside, and where it is not found, who served it last
/// counts.
struct MainQueue {
    /// nil until it has been served.
    private(set) var lastServer: Int32?
    /// A bit for each word that has had the number of the thread whenever somebody looked from the inside.
    private var places: UInt32

    private static let words = 24
    private static let ownerBits: UInt32 = 0x3fff_ffff
    private static let address: UInt? = dlsym(nil, "_dispatch_main_q").map { UInt(bitPattern: $0) }

    init() { places = Self.address == nil ? 0 : (1 << UInt32(Self.words)) - 1 }

    private static func owner(at place: Int) -> Int32 {
        guard let word = address.flatMap({ UnsafePointer<UInt32>(bitPattern: $0) }) else { return 0 }
        return Int32(bitPattern: zg_system_load(word + place) & ownerBits)
    }

    /// Told by the thread that serves it, or that keeps it from being served.
    mutating func isServed() {
        let thread = zg_system_thread_id()
        lastServer = thread
        for place in 0..<Self.words where Self.owner(at: place) != thread { places &= ~(1 << UInt32(place)) }
    }

    /// Who serves it now; nil where nobody does, or nobody ever has.
    var server: Int32? {
        guard lastServer != nil, let place = (0..<Self.words).first(where: { places >> UInt32($0) & 1 != 0 }) else {
            return lastServer
        }
        let owner = Self.owner(at: place)
        return owner > 0 && access("/proc/self/task/\(owner)", F_OK) == 0 ? owner : nil
    }
}
