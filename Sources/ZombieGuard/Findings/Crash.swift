// What ended a program: signal, message, registers, and the stacks of all its threads.

extension Finding {
    /// What a finding says besides where the program ended by it. Its keys stand in the finding's own object.
    public struct Crash: Hashable, Sendable {
        /// The name of the signal, such as `SIGABRT`.
        public var signal: String
        /// The kernel's `si_code`: above 0 where an instruction or the kernel raised the signal, and not a process.
        public var code: Int
        /// What whoever ended the program said about it, such as "Fatal error: Index out of range"; nil where nothing was said.
        public var message: String?
        /// The registers of the thread that died, by the names that debuggers have for them.
        public var registers: [String: Address]
        /// What the program noted about itself, by its own names.
        public var annotations: [String: String]
        /// All threads, the one that died first; empty where nobody could look at them.
        public var threads: [ThreadStack]

        /// Makes a crash of its parts. Each parameter is the property of its name.
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

    /// One thread of a program that died.
    public struct ThreadStack: Hashable, Sendable {
        /// The runtime's number, as in ``Thread``; nil where the runtime did not know the thread.
        public var id: Int?
        /// The kernel's number.
        public var threadID: Int
        /// As the kernel has it, of at most 15 bytes.
        public var name: String?
        /// Whether the program died in it.
        public var hasFaulted: Bool
        /// Innermost frame first; empty where the thread could not be stopped.
        public var stack: [Frame]

        /// Makes a thread of its parts. Each parameter is the property of its name.
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

    /// Reads the keys of a crash out of a finding.
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

    /// The keys of a crash, for the object of its finding.
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
