// A thread that waits for events and was busy for long: how long, with what, and what it did meanwhile.

extension Finding {
    /// What a finding says besides of a thread that held up its events. Its keys stand in the finding's own object.
    public struct Stall: Hashable, Sendable {
        /// Milliseconds between two waits for events, of the longest time.
        public var durationMs: Int
        /// How often it was busy for too long.
        public var occurrences: Int
        /// How many stacks were looked at.
        public var samples: Int
        /// Whether it was still busy when that was said.
        public var isFreeze: Bool
        /// Whether it computed, for half of the time at least; otherwise it waited.
        public var isComputing: Bool
        /// The system call that it waited in; nil where it computed, or none is known.
        public var call: String?
        /// Who holds the lock that it waited for; nil where it waited for none.
        public var holder: ThreadStack?
        /// What it did, the most frequent first.
        public var sampled: [Sampled]

        /// A stack, and how often it was seen.
        public struct Sampled: Hashable, Sendable, Codable {
            /// How often.
            public var count: Int
            /// Innermost frame first.
            public var stack: [Frame]

            /// Makes one of its parts. Each parameter is the property of its name.
            public init(count: Int, stack: [Frame]) {
                self.count = count
                self.stack = stack
            }
        }

        /// Makes a stall of its parts. Each parameter is the property of its name.
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

        /// Counts another one of the same kind.
        package mutating func add(_ other: Stall) {
            durationMs = max(durationMs, other.durationMs)
            occurrences = occurrences.addingSaturated(other.occurrences)
            samples = samples.addingSaturated(other.samples)
            isFreeze = isFreeze || other.isFreeze
        }
    }
}

extension Finding.Stall: Codable {
    enum CodingKeys: String, CodingKey {
        case durationMs = "duration_ms"
        case occurrences, samples
        case isFreeze = "freeze"
        case isComputing = "computing"
        case call, holder, sampled
    }

    /// Reads the keys of a stall out of a finding.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        durationMs = try values.decode(Int.self, forKey: .durationMs)
        occurrences = try values.decodeIfPresent(Int.self, forKey: .occurrences) ?? 1
        samples = try values.decodeIfPresent(Int.self, forKey: .samples) ?? 0
        isFreeze = try values.decodeIfPresent(Bool.self, forKey: .isFreeze) ?? false
        isComputing = try values.decodeIfPresent(Bool.self, forKey: .isComputing) ?? true
        call = try values.decodeIfPresent(String.self, forKey: .call)
        holder = try values.decodeIfPresent(Finding.ThreadStack.self, forKey: .holder)
        sampled = try values.decodeIfPresent([Sampled].self, forKey: .sampled) ?? []
    }

    /// The keys of a stall, for the object of its finding.
    var json: [(String, JSONText?)] {
        [
            ("duration_ms", .integer(Int64(durationMs))), ("occurrences", .integer(Int64(occurrences))),
            ("samples", .integer(Int64(samples))), ("freeze", .bool(isFreeze)), ("computing", .bool(isComputing)),
            ("call", call.map { .string($0) }), ("holder", holder?.json),
            ("sampled", sampled.isEmpty ? nil : .array(sampled.map(\.json))),
        ]
    }
}

extension Finding.Stall.Sampled {
    var json: JSONText { .object([("count", .integer(Int64(count))), ("stack", .array(stack.map(\.json)))]) }
}
