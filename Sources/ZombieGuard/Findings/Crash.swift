// Defines what a finding records about a crash: signal, message, registers, and the stacks of all threads.

extension Finding {
    /// A crash, without its kind, address and stacks. In JSON the keys of a crash are members of the finding's own
    /// object.
    public struct Crash: Hashable, Sendable {
        /// The name of the signal, such as `SIGABRT`.
        public var signal: String
        /// The kernel's `si_code`: positive if the kernel or an instruction raised the signal; otherwise a process sent
        /// it.
        public var code: Int
        /// The message printed when the program was terminated, such as "Fatal error: Index out of range"; nil if there
        /// was none.
        public var message: String?
        /// Registers of the faulting thread, by the names that debuggers use.
        public var registers: [String: Address]
        /// Annotations that the program has set (zg_annotate.h), by key.
        public var annotations: [String: String]
        /// All threads, the faulting one first; empty if the threads could not be stopped and unwound.
        public var threads: [ThreadStack]

        /// Creates a crash. Each parameter sets the property of the same name.
        public init(
            signal: String, code: Int = 0, message: String? = nil, registers: [String: Address] = [:],
            annotations: [String: String] = [:], threads: [ThreadStack] = []
        ) {
            self.signal = signal
            self.code = code
            self.message = message
            self.registers = registers
            self.annotations = annotations
            self.threads = threads
        }
    }

    /// One thread of a crashed program, or the lock holder of a stall.
    public struct ThreadStack: Hashable, Sendable {
        /// The runtime's number of the thread, as in ``Thread``; nil if the runtime did not know the thread.
        public var id: Int?
        /// The kernel's thread id (tid).
        public var threadID: Int
        /// The thread name that the kernel keeps, at most 15 bytes.
        public var name: String?
        /// Whether this thread received the fatal signal.
        public var hasFaulted: Bool
        /// Stack trace, innermost frame first; empty if the thread could not be stopped.
        public var stack: [Frame]

        /// Creates a thread. Each parameter sets the property of the same name.
        public init(id: Int?, threadID: Int, name: String? = nil, hasFaulted: Bool = false, stack: [Frame] = []) {
            self.id = id
            self.threadID = threadID
            self.name = name
            self.hasFaulted = hasFaulted
            self.stack = stack
        }
    }
}

extension Finding.ThreadStack: Codable {
    enum CodingKeys: String, CodingKey {
        case id
        case threadID = "tid"
        case name
        case hasFaulted = "faulted"
        case stack
    }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        id = try values.decodeIfPresent(Int.self, forKey: .id)
        threadID = try values.decodeIfPresent(Int.self, forKey: .threadID) ?? 0
        name = try values.decodeIfPresent(String.self, forKey: .name)
        hasFaulted = try values.decodeIfPresent(Bool.self, forKey: .hasFaulted) ?? false
        stack = try values.decodeIfPresent([Finding.Frame].self, forKey: .stack) ?? []
    }
}

extension Finding.Crash: Codable {
    enum CodingKeys: String, CodingKey {
        case signal, code, message, registers, annotations, threads
    }

    /// Decodes a crash from the members of a finding's object.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        signal = try values.decode(String.self, forKey: .signal)
        code = try values.decodeIfPresent(Int.self, forKey: .code) ?? 0
        message = try values.decodeIfPresent(String.self, forKey: .message)
        registers = try values.decodeIfPresent([String: Address].self, forKey: .registers) ?? [:]
        annotations = try values.decodeIfPresent([String: String].self, forKey: .annotations) ?? [:]
        threads = try values.decodeIfPresent([Finding.ThreadStack].self, forKey: .threads) ?? []
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(signal, forKey: .signal)
        try values.encode(code, forKey: .code)
        try values.encodeIfPresent(message, forKey: .message)
        if !registers.isEmpty { try values.encode(registers, forKey: .registers) }
        if !annotations.isEmpty { try values.encode(annotations, forKey: .annotations) }
        if !threads.isEmpty { try values.encode(threads, forKey: .threads) }
    }

    /// The members that a crash adds to the finding's JSON object.
    var json: [(String, JSONText?)] {
        [
            ("signal", .string(signal)), ("code", .integer(Int64(code))), ("message", message.map { .string($0) }),
            ("registers", registers.isEmpty ? nil : .object(sorted(registers) { $0.json })),
            ("annotations", annotations.isEmpty ? nil : .object(sorted(annotations) { .string($0) })),
            ("threads", threads.isEmpty ? nil : .array(threads.map(\.json))),
        ]
    }

    private func sorted<Value>(
        _ values: [String: Value], _ json: (Value) -> JSONText
    ) -> [(String, JSONText?)] {
        values.sorted { $0.key < $1.key }.map { ($0.key, json($0.value)) }
    }
}

extension Finding.ThreadStack {
    var json: JSONText {
        .object([
            ("id", id.map { .integer(Int64($0)) }), ("tid", .integer(Int64(threadID))),
            ("name", name.map { .string($0) }), ("faulted", .bool(hasFaulted)), ("stack", .array(stack.map(\.json))),
        ])
    }
}
