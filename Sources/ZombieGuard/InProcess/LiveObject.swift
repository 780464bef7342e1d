// Defines a live object with the references that keep it alive.

/// An object that has not been deallocated, as `ZombieGuard.liveObjects(of:)` of ZombieGuardTesting finds it.
public struct LiveObject: Hashable, Sendable {
    /// The object's own class, such as `Shop.Cart`, which may be a subclass of the class that was asked for; nil if
    /// unknown.
    public var className: String?
    /// Address of the object.
    public var address: Address
    /// Size in bytes.
    public var size: Int
    /// The stack that allocated the object, innermost frame first; empty if unknown.
    public var allocationStack: [Finding.Frame]
    /// Strong references to the object, typed ones first: stored properties, elements, captured values, globals, local
    /// variables, and words of other memory that equal the address.
    public var holders: [Finding.Holder]
    /// The shortest path to the object from a global or thread-local variable or, if no variable leads to the object,
    /// from a stack: first the variable or stack, then the reference in each block on the way. The last element holds
    /// the object. Empty if nothing leads to the object.
    public var path: [Finding.Holder]

    /// Creates a live object. Each parameter sets the property of the same name.
    public init(
        className: String? = nil, address: Address, size: Int, allocationStack: [Finding.Frame] = [],
        holders: [Finding.Holder] = [], path: [Finding.Holder] = []
    ) {
        self.className = className
        self.address = address
        self.size = size
        self.allocationStack = allocationStack
        self.holders = holders
        self.path = path
    }

    /// Where the program's own code made the object.
    public var allocationSite: Finding.Frame? { allocationStack.site }
}

extension LiveObject: CustomStringConvertible {
    private static let mostHoldersNamed = 4

    /// For example "a Shop.Cart (48 bytes at 0x7f10), allocated in checkout() (main.swift:41), held by Customer.cart of
    /// a live Shop.Customer; the global 'customers' → element of [Customer] → Customer.cart". Safe to print.
    public var description: String {
        let block = Finding.Block(start: address, size: UInt64(clamping: size))
        var text = "a \(className.map { visible($0) } ?? "block") \(block.place)"
        if let site = allocationSite { text += ", allocated in \(site.shortPlace)" }
        if holders.isEmpty { return text + ", held by nothing that was found" }
        text += ", held by " + holders.prefix(Self.mostHoldersNamed).map(\.text).joined(separator: " and by ")
        if holders.count > Self.mostHoldersNamed { text += " and by \(holders.count - Self.mostHoldersNamed) more" }
        return text + (pathText.map { "; " + $0 } ?? "")
    }

    /// The path as text, such as "the global 'customers' (ShopTests) → element of [Customer] → Customer.cart". Nil if a
    /// variable holds the object directly, or no path is known. Safe to print.
    package var pathText: String? {
        path.count > 1 ? path.map(\.shortText).joined(separator: " → ") : nil
    }
}

extension LiveObject: JSONObject {
    package static let blank = LiveObject(address: Address(0), size: 0)
    package static let fields = JSONFields<LiveObject>([
        .optional("class", \.className), .needed("start", \.address), .needed("size", \.size),
        .list("alloc", \.allocationStack), .list("holders", \.holders), .list("path", \.path),
    ])
}
