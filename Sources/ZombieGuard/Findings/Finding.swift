// A finding: one bug, as the runtime recorded it and as reports show it.

/// One bug in a guarded program. Raw findings and finished reports are the same type: a raw one lacks names.
public struct Finding: Hashable, Sendable {
    /// The schema that this version reads and writes.
    public static let schema = "zguard.finding/1"

    /// What the program did wrong.
    public var kind: Kind
    /// What was done to the block.
    public var access: Access
    /// How certain it is that this block was meant.
    public var confidence: Confidence
    /// The address that was touched, or that was given to `free`.
    public var address: Address?
    /// The block that was touched, or that lies nearest; nil where there is none.
    public var block: Block?
    /// Who did it; nil where nobody knows.
    public var thread: Thread?
    /// Where the block was touched, freed and allocated.
    public var stacks: Stacks
    /// The object's last retains and releases, the newest first; empty where none were recorded.
    public var history: [CountChange] = []
    /// What ended the program, where it was asked for (`collect=crashes`); nil where nothing did, or nobody asked.
    public var crash: Crash?
    /// What held up a thread that should wait for events (`collect=stalls`); nil for any other kind.
    public var stall: Stall?
    /// How many times it was seen.
    public var count: Int
    /// The process that the finding was made in.
    public var processID: Int?
    /// Path of the program's executable.
    public var program: String?
    /// ISO 8601, UTC.
    public var time: String?
    /// When the first and the last of ``count`` findings were, where that is another time than ``time``.
    public var firstSeen: String?
    /// When the last of ``count`` findings was; ISO 8601, UTC.
    public var lastSeen: String?
    /// Equal for equal bugs; nil in raw findings. See ``computeSignature()``.
    public var signature: String?
    /// What only findings of this kind have, such as `allocated_with` of a dealloc-mismatch.
    public var detail: [String: String]
    /// Where it comes from; nil where it has not been shipped.
    public var origin: Origin?
    /// Who can have written it: whoever reads one from anywhere says so. Equal findings may have different ones.
    @NotCompared package var author: Author = .own

    /// Makes a finding of its parts. Each parameter is the property of its name.
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

    /// Reads a raw or finished finding of ``schema``. What may be missing is filled in; unknown keys are ignored.
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
        history = try values.decodeIfPresent([CountChange].self, forKey: .history) ?? []
        // Findings that say of what signal in their detail alone have no code.
        if values.contains(.code) { crash = try Crash(from: decoder) }
        if values.contains(.durationMs) { stall = try Stall(from: decoder) }
        count = max(1, try values.decodeIfPresent(Int.self, forKey: .count) ?? 1)
        processID = try values.decodeIfPresent(Int.self, forKey: .processID)
        program = try values.decodeIfPresent(String.self, forKey: .program)
        time = Self.toldTime(try values.decodeIfPresent(String.self, forKey: .time))
        firstSeen = Self.toldTime(try values.decodeIfPresent(String.self, forKey: .firstSeen))
        lastSeen = Self.toldTime(try values.decodeIfPresent(String.self, forKey: .lastSeen))
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
    /// Whether only the innermost calls of the stack "free" or "alloc" were recorded.
    package func hasShortened(_ stack: String) -> Bool {
        detail["shortened"]?.split(separator: ", ").contains(stack[...]) ?? false
    }
}

/// A value of a finding's detail. Later versions may write numbers there; what is neither number nor text is left out.
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
    /// The time in a report, but nil where no clock has told it: a process that a filter forbids the clock writes the first second of
    /// 1970, and so does a machine whose clock was not set.
    static func toldTime(_ text: String?) -> String? { text?.hasPrefix("1970-") ?? false ? nil : text }
}
