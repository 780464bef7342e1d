// What is, or was, at an address of a guarded program.

/// What is, or was, at an address of a guarded program: a block with its life, or whatever else is known of the address.
public struct AddressHistory: Sendable {
    /// The schema of ``json``.
    public static let schema = "zguard.history/1"

    /// What an address is.
    public enum What: String, Sendable {
        /// In a block, or just before or behind one.
        case block
        /// Stands for a part of a dead object, in the object's place.
        case trap
        /// In the guarded heap, where no block was ever, or where blocks are forgotten.
        case unused
        /// No address: what the runtime fills memory with, or near it.
        case fill
        /// In an executable, a library or another mapped file.
        case file
        /// The stack of a thread.
        case stack
        /// Memory that neither the guarded heap nor a file is behind.
        case memory
        /// Nothing is there.
        case nothing
    }

    /// What of a dead object a trap address stands for.
    public struct Trap: Sendable {
        /// The part of a dead object that holds a trap.
        public enum Part: String, Sendable {
            /// The object's first word.
            case classPointer = "class pointer"
            /// The object's second word.
            case referenceCount = "reference count"
            /// What follows: the stored properties.
            case contents
        }

        /// Where in the object the value stood.
        public var part: Part
        /// Distance from the value that stands in the object.
        public var offset: Int64
        /// Where in the object that value stands, in bytes; nil where the object is not known.
        public var byte: UInt64?
        /// What an access through the class pointer does: `call`, `read`, `cast`, `release` or `unknown`.
        public var access: String?
        /// How many dead objects share the address; more than one: the block is but one of them.
        public var objects: Int
    }

    /// The mapping that holds an address.
    public struct Place: Sendable {
        /// The first address of the mapping.
        public var start: Address
        /// The address behind the last one.
        public var end: Address
        /// As the kernel writes them: `rw-p`.
        public var permissions: String
        /// Path of the file, or the kernel's name for it; nil for anonymous memory.
        public var path: String?
    }

    /// What was asked for.
    public var address: Address
    /// What is there.
    public var what: What
    /// Of ``What/block`` and, where the object is known, ``What/trap``; of ``What/unused`` the place for one. `state` may
    /// also be `freeing`; `offset` lies behind the block, or before it, where the address does.
    public var block: Finding.Block?
    /// The block has pages of its own, and a guard behind them.
    public var isFenced = false
    /// The block lies in a window: its page is its own, and shares memory with others.
    public var isInWindow = false
    /// The address lies in that guard.
    public var isInGuard = false
    /// Which function made the block, such as `operator new`.
    public var family: String?
    /// When the block died: nanoseconds since 1970, to about a millisecond; nil where that is not known.
    public var freeTime: UInt64?
    /// The record changed again and again while it was read: this is what was seen last.
    public var isChanging = false
    /// What the address says, where it is a trap.
    public var trap: Trap?
    /// The mapping that holds it; nil where nothing is there.
    public var place: Place?
    /// `access` is the place itself, where the address lies in a file.
    public var stacks = Finding.Stacks()
    /// The last retains and releases of a Swift object, the newest first, where they are kept.
    public var changes: [Finding.CountChange] = []
    /// The process that was asked.
    public var processID: Int
    /// Path of its executable.
    public var program: String
    /// The answer comes from a core file.
    public var isFromCore: Bool

    /// Whether anything is known of the address.
    public var isKnown: Bool { what != .nothing }

    /// Gives frames, class and member their names.
    ///
    /// - Parameter symbolicator: knows where symbols are.
    public mutating func symbolicate(with symbolicator: Symbolicator) {
        // Symbols are looked up for findings: this one carries block, stacks and changes there and back.
        var carrier = Finding(kind: .useAfterFree, block: block, stacks: stacks)
        carrier.history = changes
        let named = symbolicator.symbolicate(carrier)
        block = named.block
        stacks = named.stacks
        changes = named.history
    }
}
