// What was asked of an object's reference count before a finding: who retained it, who released it.

extension Finding {
    /// One change of a Swift object's reference count (options `history_per_object` and `trace_class`).
    public struct CountChange: Hashable, Codable, Sendable {
        /// What was asked of the object.
        public enum Event: String, Codable, Sendable {
            /// One strong reference more.
            case retain
            /// One strong reference less.
            case release
            /// Several strong references more.
            case retainSeveral = "retain_n"
            /// Several strong references less.
            case releaseSeveral = "release_n"
            /// A weak reference was read.
            case tryRetain = "try_retain"
            /// An unowned reference was read.
            case unownedRetainStrong = "unowned_retain_strong"
            /// The object's memory was given back.
            case dealloc
        }

        /// As the runtime wrote it; ``knownEvent`` is nil for what a later version may have.
        public var event: String
        /// Strong references to the object before the change; nil where that is not known.
        public var strong: Int?
        /// Number of the thread.
        public var thread: Int
        /// Innermost frame first.
        public var stack: [Frame]

        /// The event, where this version knows it.
        public var knownEvent: Event? { Event(rawValue: event) }

        /// Makes a change of its parts. Each parameter is the property of its name.
        public init(event: String, strong: Int? = nil, thread: Int, stack: [Frame] = []) {
            self.event = event
            self.strong = strong
            self.thread = thread
            self.stack = stack
        }
    }
}

extension Finding.CountChange {
    package var json: JSONText {
        .object([
            ("event", .string(event)), ("strong", strong.map { .integer(Int64($0)) }),
            ("thread", .integer(Int64(thread))), ("stack", .array(stack.map(\.json))),
        ])
    }
}
