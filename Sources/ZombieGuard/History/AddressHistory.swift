// Describes the current or former contents of an address of a guarded process.

/// Description of an address of a guarded process: the current or former block at the address and its history, or the
/// mapping that contains it.
public struct AddressHistory: Sendable {
    /// The schema of ``json``.
    public static let schema = "zguard.history/1"

    /// The kind of an address.
    public enum What: String, Sendable {
        /// In a block, or shortly before or behind one.
        case block
        /// A trap word: the address stands for a part of a freed Swift or C++ object.
        case trap
        /// In the guarded heap, in a place that never held a block, or whose block has no record any more.
        case unused
        /// Not an address, but a value at or near the runtime's fill pattern.
        case fill
        /// In an executable, a library or another mapped file.
        case file
        /// On a thread's stack.
        case stack
        /// In memory outside of the guarded heap that no file backs.
        case memory
        /// Unmapped.
        case nothing
    }

    /// The meaning of an address that is a trap word.
    public struct Trap: Sendable {
        /// The part of a freed object that holds a trap word.
        public enum Part: String, Sendable {
            /// The object's first word.
            case classPointer = "class pointer"
            /// The object's second word.
            case referenceCount = "reference count"
            /// Stored properties, in the words behind the first two.
            case contents
        }

        /// The part of the object that the trap word replaced.
        public var part: Part
        /// Distance of the address from the trap word.
        public var offset: Int64
        /// Offset of the trap word in the object, in bytes; nil if the object is unknown.
        public var byte: UInt64?
        /// What an access through the class pointer does: `call`, `read`, `cast`, `release` or `unknown`.
        public var access: String?
        /// Number of freed objects that share the trap word. If more than one, the block is only one of the candidates.
        public var objects: Int
    }

    /// The mapping that contains an address.
    public struct Place: Sendable {
        /// First address of the mapping.
        public var start: Address
        /// Address behind the mapping.
        public var end: Address
        /// Permissions as in /proc/PID/maps: `rw-p`.
        public var permissions: String
        /// Path of the mapped file, or the kernel's name such as `[stack]`; nil for anonymous memory.
        public var path: String?
    }

    /// The address that was looked up.
    public var address: Address
    /// The kind of the address.
    public var what: What
    /// For ``What/block``: the block. For ``What/trap``: the object if it is known. For ``What/unused``: the empty
    /// slot. `state` may be `freeing` or `unused`, which findings never have. `offset` is negative in front of the
    /// block, and may exceed the block's size.
    public var block: Finding.Block?
    /// Whether the block is isolated (has pages of its own, followed by a guard page) or in a window. Without a block:
    /// whether the address space is reserved for such blocks.
    public var isIsolated = false
    /// Whether the block is in a window: a second mapping of physical memory that it shares with other blocks.
    public var isInWindow = false
    /// Whether the address is in the guard page.
    public var isInGuard = false
    /// The allocation function of the block, such as `operator new`.
    public var family: String?
    /// Time of the free in nanoseconds since 1970, exact to about 1 ms; nil if unknown.
    public var freeTime: UInt64?
    /// Whether the record kept changing while it was read. The last state seen is reported.
    public var isChanging = false
    /// The meaning of the address if it is a trap word.
    public var trap: Trap?
    /// The mapping of the address; nil if it is unmapped.
    public var place: Place?
    /// The stacks of the block. If the address is in a mapped file, `access` has one frame, which names the address
    /// itself.
    public var stacks = Finding.Stacks()
    /// The last retains and releases of a Swift object, newest first, if they are recorded.
    public var changes: [Finding.RefCountChange] = []
    /// Id of the process.
    public var processID: Int
    /// Path of the executable.
    public var program: String
    /// Whether a core file was read instead of a running process.
    public var isFromCore: Bool

    /// Whether anything is known about the address.
    public var isKnown: Bool { what != .nothing }

    /// Adds the names of the functions in the stacks, and of the block's class and member.
    ///
    /// - Parameter symbolicator: the source of symbols.
    public mutating func symbolicate(with symbolicator: Symbolicator) {
        // The symbolicator accepts only findings, so a temporary finding carries block, stacks and changes.
        var carrier = Finding(kind: .useAfterFree, block: block, stacks: stacks)
        carrier.history = changes
        let named = symbolicator.symbolicate(carrier)
        block = named.block
        stacks = named.stacks
        changes = named.history
    }
}
