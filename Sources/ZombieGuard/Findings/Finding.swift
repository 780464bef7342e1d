// Defines a finding: one bug, as the runtime records it and as reports show it.

/// One bug in a guarded program. Raw findings and findings of finished reports share this type; raw findings lack
/// symbols.
public struct Finding: Hashable, Sendable {
    /// The JSON schema that this version reads and writes.
    public static let schema = "zguard.finding/1"

    /// What the program did wrong.
    public var kind: Kind
    /// The operation on the block, such as a read or a release.
    public var access: Access
    /// Whether the block is known for certain or inferred.
    public var confidence: Confidence
    /// The address that was accessed, or that was passed to `free`.
    public var address: Address?
    /// The accessed block, or the nearest one; nil if none is known.
    public var block: Block?
    /// The thread that made the access; nil if unknown.
    public var thread: Thread?
    /// Stack traces of the access, the free and the allocation.
    public var stacks: Stacks
    /// The object's last retains and releases, newest first; empty if none were recorded.
    public var history: [RefCountChange] = []
    /// The crash (`collect=crashes`); nil if the program did not crash or crashes are not collected.
    public var crash: Crash?
    /// The stall of a thread that runs an event loop (`collect=stalls`); nil for any other kind.
    public var stall: Stall?
    /// Number of occurrences.
    public var count: Int
    /// Process id of the process in which the finding occurred.
    public var processID: Int?
    /// Path of the program's executable.
    public var program: String?
    /// Time of the finding: ISO 8601, UTC.
    public var time: String?
    /// Time of the first of ``count`` occurrences, if it differs from ``time``; ISO 8601, UTC.
    public var firstSeen: String?
    /// Time of the last of ``count`` occurrences, if it differs from ``time``; ISO 8601, UTC.
    public var lastSeen: String?
    /// The signature, which is equal for equal bugs; nil in raw findings. See ``computeSignature()``.
    public var signature: String?
    /// Additional fields of this kind of finding, such as `allocated_with` of a dealloc-mismatch.
    public var detail: [String: String]
    /// The machine and program version that shipped the finding; nil if it was not shipped.
    public var origin: Origin?
    /// The user who may have written the finding, set by the code that reads the finding. Comparison ignores the
    /// author.
    @NotCompared package var author: Author = .own

    /// Creates a finding. Each parameter sets the property of the same name.
    public init(
        kind: Kind, access: Access = .unknown, confidence: Confidence = .exact, address: Address? = nil,
        block: Block? = nil, thread: Thread? = nil, stacks: Stacks = Stacks(), count: Int = 1,
        processID: Int? = nil, program: String? = nil, time: String? = nil, signature: String? = nil,
        detail: [String: String] = [:]
    ) {
        self.kind = kind
        self.access = access
        self.confidence = confidence
        self.address = address
        self.block = block
        self.thread = thread
        self.stacks = stacks
        self.count = count
        self.processID = processID
        self.program = program
        self.time = time
        self.signature = signature
        self.detail = detail
    }
}

extension Finding: Codable {
    enum CodingKeys: String, CodingKey {
        case schema, kind, access, confidence, address, block, thread, stacks, history, code, count
        case durationMs = "duration_ms"
        case processID = "pid"
        case program, time
        case firstSeen = "first_seen"
        case lastSeen = "last_seen"
        case signature, detail, origin, author
    }

    /// Decodes a raw or finished finding of ``schema``. Missing optional values get defaults; unknown keys are ignored.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        let schema = try values.decode(String.self, forKey: .schema)
        guard schema == Self.schema else {
            throw DecodingError.dataCorruptedError(forKey: .schema, in: values, debugDescription: "another schema")
        }
        kind = try values.decode(Kind.self, forKey: .kind)
        access = try values.decodeIfPresent(Access.self, forKey: .access) ?? .unknown
        confidence = try values.decodeIfPresent(Confidence.self, forKey: .confidence) ?? .exact
        address = try values.decodeIfPresent(Address.self, forKey: .address)
        block = try values.decodeIfPresent(Block.self, forKey: .block)
        thread = try values.decodeIfPresent(Thread.self, forKey: .thread)
        stacks = try values.decodeIfPresent(Stacks.self, forKey: .stacks) ?? Stacks()
        history = try values.decodeIfPresent([RefCountChange].self, forKey: .history) ?? []
        // Findings without `code` name the signal in `detail` only and have no crash.
        if values.contains(.code) { crash = try Crash(from: decoder) }
        if values.contains(.durationMs) { stall = try Stall(from: decoder) }
        count = max(1, try values.decodeIfPresent(Int.self, forKey: .count) ?? 1)
        processID = try values.decodeIfPresent(Int.self, forKey: .processID)
        program = try values.decodeIfPresent(String.self, forKey: .program)
        time = Self.validTime(try values.decodeIfPresent(String.self, forKey: .time))
        firstSeen = Self.validTime(try values.decodeIfPresent(String.self, forKey: .firstSeen))
        lastSeen = Self.validTime(try values.decodeIfPresent(String.self, forKey: .lastSeen))
        let written = try values.decodeIfPresent(String.self, forKey: .signature)
        signature = written == "" ? nil : written
        detail = (try values.decodeIfPresent([String: DetailText].self, forKey: .detail) ?? [:]).compactMapValues(
            \.text)
        origin = try values.decodeIfPresent(Origin.self, forKey: .origin)
        author = Author(text: try values.decodeIfPresent(String.self, forKey: .author))
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(Self.schema, forKey: .schema)
        try values.encode(kind, forKey: .kind)
        try values.encode(access, forKey: .access)
        try values.encode(confidence, forKey: .confidence)
        try values.encodeIfPresent(address, forKey: .address)
        try values.encodeIfPresent(block, forKey: .block)
        try values.encodeIfPresent(thread, forKey: .thread)
        try values.encode(stacks, forKey: .stacks)
        if !history.isEmpty { try values.encode(history, forKey: .history) }
        try crash?.encode(to: encoder)
        try stall?.encode(to: encoder)
        try values.encode(count, forKey: .count)
        try values.encodeIfPresent(processID, forKey: .processID)
        try values.encodeIfPresent(program, forKey: .program)
        try values.encodeIfPresent(time, forKey: .time)
        try values.encodeIfPresent(firstSeen, forKey: .firstSeen)
        try values.encodeIfPresent(lastSeen, forKey: .lastSeen)
        try values.encodeIfPresent(signature, forKey: .signature)
        if !detail.isEmpty { try values.encode(detail, forKey: .detail) }
        try values.encodeIfPresent(origin, forKey: .origin)
    }
}

extension Finding {
    /// Whether the stack named "free" or "alloc" was recorded with only its innermost frames.
    package func hasShortened(_ stack: String) -> Bool {
        detail["shortened"]?.split(separator: ", ").contains(stack[...]) ?? false
    }
}

/// A value of `detail`, converted to text: later versions may write numbers and booleans. Other types are dropped.
private struct DetailText: Decodable {
    var text: String?

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() { return }
        if let text = try? value.decode(String.self) {
            self.text = text
        } else if let flag = try? value.decode(Bool.self) {
            text = String(flag)
        } else if let number = try? value.decode(Int64.self) {
            text = String(number)
        } else if let number = try? value.decode(Double.self) {
            text = String(number)
        }
    }
}

extension Finding {
    /// Drops a time in 1970. If a seccomp filter forbids reading the clock, or the machine's clock is not set, the
    /// runtime writes the first second of 1970.
    static func validTime(_ text: String?) -> String? { text?.hasPrefix("1970-") ?? false ? nil : text }
}
