// Defines a holder: live memory that still points to a freed block.

extension Finding {
    /// A place that still holds the address of a freed block, found when the finding was reported. Holders of one kind
    /// (the same property of several objects, the same offset in blocks of one allocation stack) are one value.
    public struct Holder: Hashable, Sendable {
        /// Kind of the place: `field` (a stored property), `element` (of an array, dictionary or set), `capture` (of a
        /// closure, or in a box), `global`, `stack` (a local variable), `thread-local`, or `memory` (a block without a
        /// known class, an object whose property is unknown, or memory that the program has mapped).
        public var place: String
        /// The variable, if `place` is `global` or `thread-local`; nil if it has no symbol.
        public var symbol: String?
        /// Class of the object that holds the pointer, such as `Shop.Feed`; nil if unknown, or if no object holds the
        /// pointer.
        public var className: String?
        /// The stored property that holds the pointer.
        public var member: String?
        /// The live block that holds the pointer, at its `offset`; nil if the pointer is in no block.
        public var block: Block?
        /// Function whose stack frame holds the pointer. For a global or thread-local variable: the module of the
        /// variable, and its offset in the module.
        public var frame: Frame?
        /// Thread whose stack or thread-local storage holds the pointer.
        public var thread: Thread?
        /// Stack of the allocation of ``block``.
        public var alloc: [Frame]
        /// Whether the type of the place is known to be a reference. Otherwise a word of unknown type equals the
        /// address.
        public var isTyped: Bool
        /// Number of places that this value stands for.
        public var count: Int
        /// The chain of places that leads to ``block``: the place that holds its address, then the place that holds the
        /// address of the first place's block, and so on to a root, which is in no block. Known for the first holder at
        /// most; otherwise empty.
        public var path: [Holder] = []

        // Present in raw findings only: the symbol of a C++ class, and the number of the frame, counted from the
        // innermost, on the stack of the thread that has used the block.
        package var classSymbol: String?
        package var depth: Int?

        /// Creates a holder. Each parameter sets the property of the same name.
        public init(
            place: String, symbol: String? = nil, className: String? = nil, member: String? = nil,
            block: Block? = nil, frame: Frame? = nil, thread: Thread? = nil, alloc: [Frame] = [],
            isTyped: Bool = false, count: Int = 1
        ) {
            self.place = place
            self.symbol = symbol
            self.className = className
            self.member = member
            self.block = block
            self.frame = frame
            self.thread = thread
            self.alloc = alloc
            self.isTyped = isTyped
            self.count = count
        }
    }
}

extension Finding.Holder {
    /// Values of `place`.
    package enum Place {
        package static let field = "field", element = "element", capture = "capture", global = "global"
        package static let stack = "stack", threadLocal = "thread-local", memory = "memory"
    }
}
