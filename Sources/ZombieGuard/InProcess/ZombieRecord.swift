// Records of freed blocks, and of blocks that refer to a block.

/// A freed block: the object that it held, and where it was freed and allocated.
public struct ZombieRecord: Hashable, Sendable {
    /// The class of the object, such as `Shop.Cart` or `Shop.Box<Swift.Int>`; nil if the block was not an object of a
    /// known class.
    public var className: String?
    /// The stored property at the queried address; nil if unknown.
    public var property: String?
    /// Address of the block.
    public var start: Address
    /// Size in bytes that the program requested.
    public var size: Int
    /// Distance of the queried address from ``start``, in bytes.
    public var offset: Int
    /// `quarantined` (held and filled), `retired` (its pages are protected) or `reusable` (may be reused at any time).
    public var state: String
    var isLive: Bool { Finding.Block.State(rawValue: state) == .live }
    /// The stack that freed the block, innermost frame first.
    public var deallocationStack: [Finding.Frame]
    /// The stack that allocated the block, innermost frame first.
    public var allocationStack: [Finding.Frame]
    /// The runtime's number of the thread that freed the block; 1 is the main thread.
    public var deallocatingThread: Int?
    /// The runtime's number of the thread that allocated the block.
    public var allocatingThread: Int?
    /// Time of the free, in nanoseconds since 1970 (UTC), exact to about 1 ms.
    public var deallocationTime: UInt64?

    /// Where the program's own code released the object: the innermost frame outside of runtimes and deinitializers.
    public var deallocationSite: Finding.Frame? { deallocationStack.site }
    /// Where the program's own code made the object: the innermost frame outside of runtimes and allocating inits.
    public var allocationSite: Finding.Frame? { allocationStack.site }
}

extension ZombieRecord: CustomStringConvertible {
    /// For example "a deallocated Shop.Cart (48 bytes at 0x7f10), freed in checkout() (main.swift:41)".
    public var description: String {
        let block = Finding.Block(start: start, size: UInt64(size), className: className)
        let what = className.map { block.object(of: $0) } ?? "a freed block"
        return "\(what) \(block.place)" + (deallocationSite.map { ", freed in \($0.shortPlace)" } ?? "")
    }
}

/// A live block that contains a pointer to another block.
public struct Referrer: Hashable, Sendable {
    /// Class of the object that contains the pointer; nil if unknown.
    public var className: String?
    /// Stored property that contains the pointer; nil if unknown.
    public var property: String?
    /// Address of the block.
    public var start: Address
    /// Size in bytes.
    public var size: Int
    /// Offset of the pointer from ``start``, in bytes.
    public var offset: Int
    /// The stack that allocated the block, innermost frame first.
    public var allocationStack: [Finding.Frame]

    /// Where the program's own code made the referring object.
    public var allocationSite: Finding.Frame? { allocationStack.site }
}

extension Referrer: CustomStringConvertible {
    /// For example "property Cart.owner of a Shop.Cart (48 bytes at 0x7f10), allocated in checkout() (main.swift:41)".
    public var description: String {
        let block = Finding.Block(start: start, size: UInt64(size), className: className, member: property)
        let place = block.property.map { "property \($0)" } ?? "offset \(offset)"
        let what = className.map { "a \(visible($0))" } ?? "a block"
        return "\(place) of \(what) \(block.place)" + (allocationSite.map { ", allocated in \($0.shortPlace)" } ?? "")
    }
}

extension [Finding.Frame] {
    // The innermost frame of the program's own code with a source line. Skips initializers and deinitializers, because
    // their caller is of interest.
    var site: Finding.Frame? {
        let calls = filter { frame in
            guard let function = frame.function else { return true }
            return !function.contains(".__allocating_init(") && !function.contains("__deallocating_deinit")
                && !function.hasSuffix("deinit")
        }
        return calls.first { $0.hasLine && !$0.isLibraryCode } ?? origin
    }
}
