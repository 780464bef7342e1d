// Defines a recorded retain or release of a Swift object; a finding lists the last ones in its history.

extension Finding {
    /// One change of a Swift object's reference count (options `history_per_object` and `trace_class`).
    public struct RefCountChange: Hashable, Sendable {
        /// The reference-counting operation.
        public enum Event: String, Sendable {
            /// The object was retained: one strong reference more.
            case retain
            /// The object was released: one strong reference less.
            case release
            /// The object was retained several times in one call (`swift_retain_n`).
            case retainSeveral = "retain_n"
            /// The object was released several times in one call (`swift_release_n`).
            case releaseSeveral = "release_n"
            /// A weak reference to the object was read, which retains the object if it is still alive.
            case tryRetain = "try_retain"
            /// An unowned reference to the object was read, which retains the object.
            case unownedRetainStrong = "unowned_retain_strong"
            /// The object was deallocated.
            case dealloc
        }

        /// The event's name as the runtime wrote it. ``knownEvent`` is nil for a name that only a later version knows.
        public var event: String
        /// Strong reference count before the change; nil if unknown.
        public var strong: Int?
        /// The runtime's number of the thread.
        public var thread: Int
        /// Stack trace of the call, innermost frame first.
        public var stack: [Frame]

        /// The parsed event; nil if this version does not know its name.
        public var knownEvent: Event? { Event(rawValue: event) }

        /// Creates a change. Each parameter sets the property of the same name.
        public init(event: String, strong: Int? = nil, thread: Int, stack: [Frame] = []) {
            self.event = event
            self.strong = strong
            self.thread = thread
            self.stack = stack
        }
    }
}
