// What the runtime remembers of a block, and who holds one.

/// What is known of a dead block: what it was, who freed it and who allocated it.
public struct ZombieRecord: Hashable, Sendable {
    /// The class of the object, such as `Shop.Cart` or `Shop.Box<Swift.Int>`; nil where the block was no object, or none
    /// of a known class.
    public var className: String?
    /// The stored property at the address that was asked for; nil where none is known.
    public var property: String?
    /// Where the block begins.
    public var start: Address
    /// In bytes, as the program asked for it.
    public var size: Int
    /// Distance of the address that was asked for from ``start``, in bytes.
    public var offset: Int
    /// `quarantined` (held and filled), `retired` (its pages are protected) or `reusable` (about to be used again).
    public var state: String
    var isLive: Bool { Finding.Block.State(rawValue: state) == .live }
    /// The stack that freed the block, innermost frame first.
    public var deallocationStack: [Finding.Frame]
    /// The stack that allocated the block, innermost frame first.
    public var allocationStack: [Finding.Frame]
    /// The runtime's numbers of the threads that did it; 1 is the main thread.
    public var deallocatingThread: Int?
    /// The runtime's number of the thread that allocated it.
    public var allocatingThread: Int?
    /// When the block was freed, to about a millisecond: nanoseconds since 1970, UTC.
    public var deallocationTime: UInt64?

    /// Where the program's own code let go of the object: the innermost frame that is neither a runtime's nor the
    /// object's own deinitializer.
    public var deallocationSite: Finding.Frame? { deallocationStack.site }
    /// Where the program's own code made the object: the innermost frame that is neither a runtime's nor an initializer's
    /// allocating half.
    public var allocationSite: Finding.Frame? { allocationStack.site }
}

extension ZombieRecord: CustomStringConvertible {
    /// "a deallocated Shop.Cart (48 bytes at 0x7f10), freed in checkout() (main.swift:41)"
    public var description: String {
        let block = Finding.Block(start: start, size: UInt64(size), className: className)
        let what = className.map { block.object(of: $0) } ?? "a freed block"
        return "\(what) \(block.place)" + (deallocationSite.map { ", freed in \($0.shortPlace)" } ?? "")
    }
}

/// A live block that holds a pointer to another one.
public struct Referrer: Hashable, Sendable {
    /// The class of the object that holds the pointer, where it is known.
    public var className: String?
    /// The stored property that holds it, where it is known.
    public var property: String?
    /// Where the block begins.
    public var start: Address
    /// In bytes.
    public var size: Int
    /// Where in the block the pointer lies, in bytes from ``start``.
    public var offset: Int
    /// The stack that allocated the block, innermost frame first.
    public var allocationStack: [Finding.Frame]

    /// Where the program's own code made the holder.
    public var allocationSite: Finding.Frame? { allocationStack.site }
}

extension Referrer: CustomStringConvertible {
    /// "property Cart.owner of a Shop.Cart (48 bytes at 0x7f10), allocated in checkout() (main.swift:41)"
    public var description: String {
        let block = Finding.Block(start: start, size: UInt64(size), className: className, member: property)
        let place = block.property.map { "property \($0)" } ?? "offset \(offset)"
        let what = className.map { "a \(visible($0))" } ?? "a block"
        return "\(place) of \(what) \(block.place)" + (allocationSite.map { ", allocated in \($0.shortPlace)" } ?? "")
    }
}

extension [Finding.Frame] {
    // Initializers and deinitializers have frames of their own; who called them is what a reader looks for.
    var site: Finding.Frame? {
        let calls = filter { frame in
            guard let function = frame.function else { return true }
            return !function.contains(".__allocating_init(") && !function.contains("__deallocating_deinit")
                && !function.hasSuffix("deinit")
        }
        return calls.first { $0.hasLine && !$0.isLibraryCode } ?? origin
    }
}
