// Defines a leak: unreachable blocks, or objects that keep each other alive.

extension Finding {
    /// A leak, without its kind and the allocation stack. In JSON the keys of a leak are members of the finding's own
    /// object.
    public struct Leak: Hashable, Sendable {
        /// Number of blocks that nothing refers to; for a retain cycle, number of objects that the cycle keeps alive.
        public var blocks: Int
        /// Requested size of these blocks, in bytes.
        public var bytes: UInt64
        /// Number of blocks that only these blocks lead to.
        public var indirectBlocks: Int
        /// Requested size of the indirect blocks, in bytes.
        public var indirectBytes: UInt64
        /// The cycle: each object refers to the next, and the last one to the first. Empty for kind `leak`.
        public var cycle: [Step]

        /// Schema of the summary line that follows the findings of `zguard leaks --format json`.
        package static let sumSchema = "zguard.leaks/1"

        /// An object on a cycle.
        public struct Step: Hashable, Sendable {
            /// Class of the object, such as `Shop.Feed` or `closure context`.
            public var className: String?
            /// Stored property that refers to the next object; nil if unknown, or the object has no properties.
            public var member: String?
            /// Kind of the reference to the next object: `field`, `element`, `capture`, or `memory` if unknown.
            public var place: String
            /// Code of the closure, if the reference to the next object is a closure: the next object is the closure's
            /// context, or the only object that the closure has captured. Otherwise nil.
            public var code: Frame?
            /// Address of the object.
            public var start: Address
            /// Size of the object in bytes.
            public var size: UInt64
            /// Stack of the object's allocation.
            public var alloc: [Frame]

            /// Class names of two kinds of objects: the context of a closure holds what the closure has captured; a box
            /// holds a captured variable, or the payload of an enum or existential.
            package static let contextName = "closure context"
            package static let boxName = "box"

            // Present in raw findings only: the symbol of a C++ class.
            package var classSymbol: String?

            /// Creates a step. Each parameter sets the property of the same name.
            public init(
                className: String? = nil, member: String? = nil, place: String, code: Frame? = nil, start: Address,
                size: UInt64, alloc: [Frame] = []
            ) {
                self.className = className
                self.member = member
                self.place = place
                self.code = code
                self.start = start
                self.size = size
                self.alloc = alloc
            }
        }

        /// Creates a leak. Each parameter sets the property of the same name.
        public init(
            blocks: Int, bytes: UInt64, indirectBlocks: Int = 0, indirectBytes: UInt64 = 0, cycle: [Step] = []
        ) {
            self.blocks = blocks
            self.bytes = bytes
            self.indirectBlocks = indirectBlocks
            self.indirectBytes = indirectBytes
            self.cycle = cycle
        }

        /// Merges another leak of the same bug into this one.
        package mutating func add(_ other: Leak) {
            blocks = blocks.addingSaturated(other.blocks)
            bytes = bytes.addingReportingOverflow(other.bytes).overflow ? .max : bytes + other.bytes
            indirectBlocks = indirectBlocks.addingSaturated(other.indirectBlocks)
            indirectBytes =
                indirectBytes.addingReportingOverflow(other.indirectBytes).overflow
                ? .max : indirectBytes + other.indirectBytes
        }
    }
}
