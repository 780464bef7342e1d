// Defines a stall: a thread that runs an event loop was busy for too long. A deadlock is a stall that never ends.

extension Finding {
    /// A stall, without its kind and stacks. In JSON the keys of a stall are members of the finding's own object.
    public struct Stall: Hashable, Sendable {
        /// Longest time between two waits for events, in milliseconds: the time that an event had to wait.
        public var durationMs: Int
        /// Part of this time in which the thread waited for a processor, in milliseconds; nil if unknown.
        public var withoutProcessorMs: Int?
        /// Why the thread had no processor for most of that part: "quota" if the CPU quota of its cgroup was used up,
        /// "load" if other threads had the processors; nil if unknown.
        public var withoutProcessorFor: String?
        /// Number of times that the thread was busy for too long.
        public var occurrences: Int
        /// Number of stack samples, over all occurrences.
        public var samples: Int
        /// Whether the thread was still busy when the finding was written.
        public var isFreeze: Bool
        /// Whether the thread used the processor for at least half of the time; otherwise it was blocked.
        public var isComputing: Bool
        /// System call in which the thread was blocked; nil if the thread was computing or the call is unknown.
        public var call: String?
        /// Holder of the lock for which the thread waited; nil if it waited for no lock or the holder is unknown.
        public var holder: ThreadStack?
        /// The threads of a deadlock after the holder. Each thread waits for the next one, and the last one for an
        /// earlier thread.
        public var waits: [ThreadStack] = []
        /// What each thread of a deadlock waits for, in the order: the finding's own thread, the holder, the threads of
        /// ``waits``.
        public var awaited: [Awaited] = []
        /// The sampled stacks, the most frequent first.
        public var sampled: [Sampled]

        /// What a thread of a deadlock waits for.
        public struct Awaited: Hashable, Sendable {
            /// "mutex", "rwlock", "queue" (of Dispatch), or "end" (the thread waits until the next thread has ended).
            public var kind: String
            /// Address of the lock or queue.
            public var address: Address
            /// Label of the queue.
            public var name: String?

            /// Creates a description. Each parameter sets the property of the same name.
            public init(kind: String, address: Address, name: String? = nil) {
                self.kind = kind
                self.address = address
                self.name = name
            }
        }

        /// A stack and the number of samples that show it.
        public struct Sampled: Hashable, Sendable {
            /// Number of samples.
            public var count: Int
            /// Stack trace, innermost frame first.
            public var stack: [Frame]

            /// Creates a sampled stack. Each parameter sets the property of the same name.
            public init(count: Int, stack: [Frame]) {
                self.count = count
                self.stack = stack
            }
        }

        /// Creates a stall. Each parameter sets the property of the same name.
        public init(
            durationMs: Int, occurrences: Int = 1, samples: Int = 0, isFreeze: Bool = false, isComputing: Bool = true,
            call: String? = nil, holder: ThreadStack? = nil, sampled: [Sampled] = []
        ) {
            self.durationMs = durationMs
            self.occurrences = occurrences
            self.samples = samples
            self.isFreeze = isFreeze
            self.isComputing = isComputing
            self.call = call
            self.holder = holder
            self.sampled = sampled
        }

        /// Merges another stall of the same bug into this one.
        package mutating func add(_ other: Stall) {
            if other.durationMs > durationMs {
                durationMs = other.durationMs
                (withoutProcessorMs, withoutProcessorFor) = (other.withoutProcessorMs, other.withoutProcessorFor)
            }
            occurrences = occurrences.addingSaturated(other.occurrences)
            samples = samples.addingSaturated(other.samples)
            isFreeze = isFreeze || other.isFreeze
        }
    }
}
