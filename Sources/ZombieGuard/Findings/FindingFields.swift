// The tables of a finding's JSON: a row for each key that docs/finding.schema.json describes. Everything that reads or
// writes findings uses these tables.

extension Finding {
    /// A finding while it is read or written: the keys of a crash, stall or leak are keys of the finding's own object.
    struct Draft {
        var finding: Finding
        var crash = Crash(signal: "")
        var stall = Stall(durationMs: 0)
        var leak = Leak(blocks: 0, bytes: 0)
        var hasSignal = false

        init() { finding = Finding(kind: Kind(rawValue: "")) }

        init(_ finding: Finding) {
            self.finding = finding
            if let crash = finding.crash { self.crash = crash }
            if let stall = finding.stall { self.stall = stall }
            if let leak = finding.leak { self.leak = leak }
        }

        static let fields = JSONFields<Draft>(
            [
                JSONField(
                    "schema", isNeeded: true,
                    read: { (scanner, _) throws(JSONScanner.Problem) in
                        if try scanner.text() != schema { throw JSONScanner.Problem(reason: .otherSchema) }
                    }, write: { _ in .string(schema) }),
                .needed("kind", \.finding.kind), .value("access", \.finding.access),
                .value("confidence", \.finding.confidence), .optional("address", \.finding.address),
                .optional("block", \.finding.block), .optional("thread", \.finding.thread),
                .value("stacks", \.finding.stacks), .list("history", \.finding.history),
                .optional("holders", \.finding.holders), .optional("search", \.finding.search, isRaw: true),
            ] + crashFields + stallFields + leakFields + [
                JSONField(
                    "count",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.finding.count = scanner.isNull() ? 1 : max(1, try Int.read(&scanner))
                    }, write: { $0.finding.count.json }),
                .optional("pid", \.finding.processID), .optional("program", \.finding.program),
                time("time", \.finding.time), time("first_seen", \.finding.firstSeen),
                time("last_seen", \.finding.lastSeen), .name("signature", \.finding.signature),
                .list("former_signatures", \.finding.formerSignatures),
                JSONField(
                    "detail",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        // Later versions may write numbers and booleans.
                        if scanner.isNull() { return }
                        draft.finding.detail = try scanner.dictionary { (scanner) throws(JSONScanner.Problem) in
                            try scanner.anyText()
                        }
                    }, write: { $0.finding.detail.isEmpty ? nil : $0.finding.detail.json }),
                .optional("origin", \.finding.origin),
                // Ignored when read: the decision is taken from the store, not from a report.
                JSONField(
                    "triage",
                    read: { (scanner, _) throws(JSONScanner.Problem) in try scanner.skipValue() },
                    write: { $0.finding.triage.map { TriageNote.fields.json($0) } }),
                JSONField(
                    "author",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.finding.author = Author(text: scanner.isNull() ? nil : try scanner.text())
                    }, write: { $0.finding.author.text?.json }),
            ])

        /// The keys of a crash. A finding without `code` names the signal in `detail` only, and has no crash.
        private static let crashFields: [JSONField<Draft>] =
            [
                JSONField(
                    "signal",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.crash.signal = try scanner.text()
                        draft.hasSignal = true
                    }, write: { $0.crash.status == nil ? $0.crash.signal.json : nil }),
                JSONField(
                    "status",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        if scanner.isNull() { return }
                        draft.crash.status = try Int.read(&scanner)
                        draft.hasSignal = true
                    }, write: { $0.crash.status?.json }),
                JSONField(
                    "code",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.crash.code = scanner.isNull() ? 0 : try Int.read(&scanner)
                        draft.finding.crash = draft.crash
                    }, write: { $0.crash.code.json }),
                .optional("message", \.crash.message), .list("registers", \.crash.registers),
                .list("annotations", \.crash.annotations), .list("threads", \.crash.threads),
            ].map { field in field.written { $0.finding.crash != nil } }

        private static let stallFields: [JSONField<Draft>] =
            [
                JSONField(
                    "duration_ms",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.stall.durationMs = try Int.read(&scanner)
                        draft.finding.stall = draft.stall
                    }, write: { $0.stall.durationMs.json }),
                .optional("without_processor_ms", \.stall.withoutProcessorMs),
                .optional("without_processor_for", \.stall.withoutProcessorFor),
                .value("occurrences", \.stall.occurrences), .value("samples", \.stall.samples),
                .value("freeze", \.stall.isFreeze), .value("computing", \.stall.isComputing),
                .optional("call", \.stall.call), .optional("holder", \.stall.holder),
                .list("waits", \.stall.waits), .list("awaited", \.stall.awaited),
                .list("sampled", \.stall.sampled),
            ].map { field in field.written { $0.finding.stall != nil } }

        private static let leakFields: [JSONField<Draft>] =
            [
                JSONField(
                    "blocks",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        draft.leak.blocks = max(0, try Int.read(&scanner))
                        draft.finding.leak = draft.leak
                    }, write: { $0.leak.blocks.json }),
                .value("bytes", \.leak.bytes),
                JSONField(
                    "indirect",
                    read: { (scanner, draft) throws(JSONScanner.Problem) in
                        if !scanner.isNull() { try scanner.object(indirectFields, into: &draft.leak) }
                    }, write: { $0.leak.indirectBlocks == 0 ? nil : indirectFields.json($0.leak) }),
                .list("cycle", \.leak.cycle),
            ].map { field in field.written { $0.finding.leak != nil } }

        private static let indirectFields = JSONFields<Leak>([
            .needed("blocks", \.indirectBlocks), .needed("bytes", \.indirectBytes),
        ])

        /// A field for a time. A time in 1970 is read as nil: if a seccomp filter forbids reading the clock, or the
        /// machine's clock is not set, the runtime writes the first second of 1970.
        private static func time(_ key: StaticString, _ path: JSONPath<Draft, String?>) -> JSONField<Draft> {
            let field = JSONField.optional(key, path)
            return JSONField(
                key,
                read: { (scanner, draft) throws(JSONScanner.Problem) in
                    try field.read(&scanner, &draft)
                    if draft[keyPath: path]?.hasPrefix("1970-") ?? false { draft[keyPath: path] = nil }
                }, write: field.write)
        }

        consuming func whole() throws(JSONScanner.Problem) -> Finding {
            if finding.crash != nil {
                if !hasSignal { throw JSONScanner.Problem(reason: .missing, path: ["signal"]) }
                finding.crash = crash
            }
            if finding.stall != nil { finding.stall = stall }
            if finding.leak != nil { finding.leak = leak }
            return finding
        }
    }

    /// Reads a raw or finished finding. Missing optional values get defaults; unknown keys are ignored.
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Finding {
        var draft = Draft()
        try scanner.object(Draft.fields, into: &draft)
        return try draft.whole()
    }

    /// Parses one line of a report whose author is unknown; nil if the line is not a finding.
    package init?(jsonLine line: String) {
        var line = line
        guard var finding = try? JSONScanner.read(&line, Finding.read) else { return nil }
        finding.author = .unknown
        self = finding
    }

    /// The finding as one line of a finished report, without the line feed.
    public var jsonLine: String { json.line }

    /// The finding as JSON; the keys are in the order of the documentation.
    public var json: JSONText { Self.allFields.json(Draft(self)) }

    static var allFields: JSONFields<Draft> { Draft.fields }
}

extension JSONField {
    /// This field, but written only if `condition` holds.
    fileprivate func written(if condition: @escaping @Sendable (Root) -> Bool) -> Self {
        let write = write
        return Self(key, isNeeded: isNeeded, read: read, write: { condition($0) ? write?($0) : nil })
    }
}

extension Finding.Kind: JSONValue {}
extension Finding.Access: JSONValue {}
extension Finding.Confidence: JSONValue {}

extension Finding.Block: JSONObject {
    package static let blank = Finding.Block(start: Address(0), size: 0)
    package static let fields = JSONFields<Finding.Block>([
        .needed("start", \.start), .needed("size", \.size), .optional("offset", \.offset), .optional("state", \.state),
        .optional("language", \.language), .optional("class", \.className), .optional("member", \.member),
        .optional("alloc_thread", \.allocatingThread), .optional("free_thread", \.freeingThread),
        .optional("class_symbol", \.classSymbol, isRaw: true),
        JSONField(
            "member_frame", read: JSONField<Finding.Block>.optional("member_frame", \.memberFrame).read,
            // Keep the frame if its build is known: symbols of the build may become available later.
            write: { $0.memberFrame.flatMap { $0.buildID == nil ? nil : $0.json } }),
        .list("next", \.next, isRaw: true), .list("bases", \.bases, isRaw: true),
    ])
}

extension Finding.NextUse: JSONObject {
    package static let blank = Finding.NextUse(access: .unknown)
    package static let fields = JSONFields<Finding.NextUse>([
        .needed("access", \.access), .optional("member", \.member), .optional("member_frame", \.memberFrame),
        .optional("member_symbol", \.memberSymbol), .optional("confidence", \.confidence),
    ])
}

extension Finding.Thread: JSONObject {
    package static let blank = Finding.Thread(id: 0)
    package static let fields = JSONFields<Finding.Thread>([.needed("id", \.id), .optional("name", \.name)])
}

extension Finding.Stacks: JSONObject {
    package static let blank = Finding.Stacks()
    package static let fields = JSONFields<Finding.Stacks>([
        .value("access", \.access), .value("free", \.free), .value("alloc", \.alloc), .list("previous", \.previous),
        .list("thrown", \.thrown),
    ])
}

extension Finding.Frame: JSONObject {
    package static let blank = Finding.Frame(pc: Address(0))
    package static let fields = JSONFields<Finding.Frame>([
        .needed("pc", \.pc), .name("module", \.module), .name("build_id", \.buildID),
        JSONField(
            "offset",
            read: { (scanner, frame) throws(JSONScanner.Problem) in
                frame.offset = scanner.isNull() ? nil : Address(try scanner.text())
            }, write: { $0.offset?.json }),
        .name("function", \.function), .name("file", \.file), .optional("line", \.line),
        .optional("column", \.column), .value("inlined", \.inlined),
    ])
}

extension Finding.ThreadStack: JSONObject {
    package static let blank = Finding.ThreadStack(id: nil, threadID: 0)
    package static let fields = JSONFields<Finding.ThreadStack>([
        .optional("id", \.id), .value("tid", \.threadID), .optional("name", \.name), .value("faulted", \.hasFaulted),
        .value("stack", \.stack),
    ])
}

extension Finding.Stall.Awaited: JSONObject {
    package static let blank = Finding.Stall.Awaited(kind: "", address: Address(0))
    package static let fields = JSONFields<Finding.Stall.Awaited>([
        .needed("kind", \.kind), .needed("address", \.address), .optional("name", \.name),
    ])
}

extension Finding.Stall.Sampled: JSONObject {
    package static let blank = Finding.Stall.Sampled(count: 0, stack: [])
    package static let fields = JSONFields<Finding.Stall.Sampled>([
        .needed("count", \.count), .needed("stack", \.stack),
    ])
}

extension Finding.Leak.Step: JSONObject {
    package static let blank = Finding.Leak.Step(place: "memory", start: Address(0), size: 0)
    package static let fields = JSONFields<Finding.Leak.Step>([
        .optional("class", \.className), .optional("member", \.member), .value("where", \.place),
        .optional("code", \.code), .needed("start", \.start), .value("size", \.size),
        JSONField(
            "stacks",
            read: { (scanner, step) throws(JSONScanner.Problem) in
                if !scanner.isNull() { step.alloc = try Finding.Stacks.read(&scanner).alloc }
            }, write: { .object([("alloc", $0.alloc.json)]) }),
    ])
}

extension Finding.Holder: JSONObject {
    package static let blank = Finding.Holder(place: Place.memory)
    private static let placeFields: [JSONField<Finding.Holder>] = [
        .value("where", \.place), .optional("symbol", \.symbol), .optional("class", \.className),
        .optional("member", \.member), .optional("block", \.block), .optional("frame", \.frame),
        .optional("thread", \.thread),
        JSONField(
            "stacks",
            read: { (scanner, holder) throws(JSONScanner.Problem) in
                if !scanner.isNull() { holder.alloc = try Finding.Stacks.read(&scanner).alloc }
            }, write: { $0.block == nil ? nil : .object([("alloc", $0.alloc.json)]) }),
        .value("typed", \.isTyped), .value("count", \.count),
    ]
    /// A step of a path has no path itself: a report must not be able to make the reader recurse without end.
    private static let stepFields = JSONFields(placeFields)

    package static let fields = JSONFields(
        placeFields + [
            JSONField(
                "path",
                read: { (scanner, holder) throws(JSONScanner.Problem) in
                    if scanner.isNull() { return }
                    holder.path = try scanner.array { (scanner) throws(JSONScanner.Problem) in
                        var step = blank
                        try scanner.object(stepFields, into: &step)
                        return step
                    }
                }, write: { $0.path.isEmpty ? nil : .array($0.path.map { stepFields.json($0) }) })
        ])
}

extension Finding.RefCountChange: JSONObject {
    package static let blank = Finding.RefCountChange(event: "", thread: 0)
    package static let fields = JSONFields<Finding.RefCountChange>([
        .needed("event", \.event), .optional("strong", \.strong), .needed("thread", \.thread),
        .needed("stack", \.stack),
    ])
}

extension Finding.TriageNote: JSONObject {
    package static let blank = Finding.TriageNote(state: "", text: "")
    package static let fields = JSONFields<Finding.TriageNote>([
        .needed("state", \.state), .needed("text", \.text), .optional("assigned", \.assigned),
    ])
}

extension Finding.Origin: JSONObject {
    package static let blank = Finding.Origin()
    package static let fields = JSONFields<Finding.Origin>([
        .optional("id", \.id), .optional("host", \.host), .optional("version", \.version),
        .optional("tenant", \.tenant),
    ])
}
