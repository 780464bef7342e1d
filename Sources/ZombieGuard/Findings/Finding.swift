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
    /// The blocks of a `leak` or `retain-cycle`; nil for any other kind.
    public var leak: Leak?
    /// Live memory that still points to the freed block, the most certain first; nil if memory was not searched.
    public var holders: [Holder]?
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
    /// The signatures under which equal findings may be known: that of version 1, and those computed before the symbols
    /// were known. Empty in raw findings, and if ``signature`` is one of version 1.
    public var formerSignatures: [String] = []
    /// Additional fields of this kind of finding, such as `allocated_with` of a dealloc-mismatch.
    public var detail: [String: String]
    /// The machine that shipped the finding, and the version of the program; nil if the finding was not shipped.
    public var origin: Origin?
    /// The users' decision about the finding's group; nil if there is none, or if no store was asked.
    public var triage: TriageNote?
    // Present in raw findings only: the number of the search for other pointers to the block; nil if there is none.
    package var search: Address?
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

extension Finding {
    /// Whether the stack named "free" or "alloc" was recorded with only its innermost frames.
    package func hasShortened(_ stack: String) -> Bool {
        detail["shortened"]?.split(separator: ", ").contains(stack[...]) ?? false
    }
}
