// Renders one finding as a SARIF result: message, locations, stacks, and the code flow from allocation to access.

struct SARIFResult {
    let finding: Finding
    let kind: FindingKind
    /// Index of the kind among the rules.
    let rule: Int
    let files: FileURI

    func json(suppressions: JSONText?) -> JSONText {
        let level = finding.confidence == .exact ? kind.level : .warning
        var signed = finding
        signed.addSignature()
        let fingerprints: [(String, JSONText?)] =
            signed.formerSignatures.isEmpty
            ? [("zguardSignature/v1", signed.signature.map { .string(visible($0)) })]
            : [
                ("zguardSignature/v1", .string(visible(signed.formerSignatures[0]))),
                ("zguardSignature/v2", signed.signature.map { .string(visible($0)) }),
            ]
        let related = self.related
        return .object([
            ("ruleId", .string(SARIFReport.ruleID(finding.kind))), ("ruleIndex", .integer(Int64(rule))),
            ("kind", .string("fail")), ("level", .string(level.rawValue)), ("message", message),
            ("locations", primaryLocation.map { .array([$0]) }),
            ("relatedLocations", related.isEmpty ? nil : .array(related)),
            ("stacks", finding.stacksToShow.isEmpty ? nil : .array(finding.stacksToShow.map(stack))),
            ("codeFlows", codeFlow.map { .array([$0]) }),
            ("partialFingerprints", .object(fingerprints)),
            ("occurrenceCount", .integer(Int64(max(1, finding.count)))), ("provenance", provenance),
            ("suppressions", suppressions), ("properties", properties),
        ])
    }

    // Viewers show a related location only if the message links to its number.
    private var message: JSONText {
        let links = relatedEvents.enumerated().map { number, event in
            (isError: event.role == .thrown, text: "[\(event.title)](\(number + 1))")
        }
        var text = SARIFReport.escaped(finding.sentence)
        if let evidence = finding.evidence { text += " (\(evidence))" }
        for (what, isError) in [("error", true), ("block", false)] {
            let its = links.filter { $0.isError == isError }.map(\.text)
            if !its.isEmpty { text += "; the \(what) was " + its.joined(separator: ", ") }
        }
        return .object([("text", .string(text))])
    }

    // MARK: locations

    private var relatedEvents: [Finding.Event] {
        finding.events.filter {
            $0.role != .access && $0.frames.origin?.file.flatMap { files.reference(to: $0) } != nil
        }
    }

    private var related: [JSONText] {
        relatedEvents.enumerated().compactMap { number, event in
            event.frames.origin.map { location($0, id: number + 1, message: event.title) }
        }
    }

    // Code-scanning services require a file. For a frame without a source file, use its module; if there is no frame,
    // use the program.
    private var primaryLocation: JSONText? {
        if let frame = finding.primaryFrame { return location(frame, needsFile: true) }
        guard let program = finding.program.flatMap({ files.reference(to: $0) }) else { return nil }
        return .object([("physicalLocation", .object([("artifactLocation", artifact(program))]))])
    }

    private func location(_ frame: Finding.Frame, id: Int? = nil, message: String? = nil, needsFile: Bool = false)
        -> JSONText
    {
        let function = frame.function.map { name in
            JSONText.array([
                .object([("fullyQualifiedName", .string(visible(name))), ("kind", .string("function"))])
            ])
        }
        return .object([
            ("id", id.map { .integer(Int64($0)) }), ("physicalLocation", place(frame, needsFile: needsFile)),
            ("logicalLocations", function), ("message", message.map { SARIFReport.message($0) }),
        ])
    }

    private func place(_ frame: Finding.Frame, needsFile: Bool) -> JSONText {
        if let source = frame.file.flatMap({ files.reference(to: $0, isRelativeToRoot: !frame.isLibraryCode) }) {
            return .object([("artifactLocation", artifact(source)), ("region", region(frame))])
        }
        let module = frame.module.flatMap { $0.hasPrefix("/") ? files.reference(to: $0) : nil }
        let address = JSONText.object([
            ("absoluteAddress", Self.exact(frame.pc)), ("kind", .string("instruction")),
            ("fullyQualifiedName", .string(frame.moduleAndOffset)),
        ])
        return .object([("artifactLocation", needsFile ? module.map(artifact) : nil), ("address", address)])
    }

    private func artifact(_ reference: FileURI.Reference) -> JSONText {
        .object([
            ("uri", .string(reference.uri)),
            ("uriBaseId", reference.isBelowRoot ? .string(FileURI.rootName) : nil),
        ])
    }

    private func region(_ frame: Finding.Frame) -> JSONText? {
        guard let line = frame.line, line > 0 else { return nil }
        let column = frame.column.flatMap { $0 > 0 ? JSONText.integer(Int64($0)) : nil }
        return .object([("startLine", .integer(Int64(line))), ("startColumn", column)])
    }

    // Most JSON readers represent numbers exactly only up to 2^53.
    private static func exact(_ address: Address) -> JSONText? {
        address.rawValue < 1 << 53 ? .natural(address.rawValue) : nil
    }

    // MARK: stacks

    private func stack(_ event: Finding.Event) -> JSONText {
        .object([
            ("message", SARIFReport.message(event.title)),
            ("frames", .array(event.frames.map { frame($0, thread: event.thread) })),
        ])
    }

    private func frame(_ frame: Finding.Frame, thread: Int?) -> JSONText {
        .object([
            ("location", location(frame)), ("module", frame.moduleName.map { .string(visible($0)) }),
            ("threadId", thread.map { .integer(Int64($0)) }),
            (
                "properties",
                .object([
                    ("pc", frame.pc.json), ("moduleOffset", frame.offset?.json),
                    ("buildId", frame.buildID.map { .string(visible($0)) }),
                    ("inlined", frame.inlined ? .bool(true) : nil),
                ])
            ),
        ])
    }

    // The events in chronological order, with one thread flow for each thread involved.
    private var codeFlow: JSONText? {
        let events = finding.events.reversed()
        guard events.count > 1 else { return nil }
        var threads: [Int?] = []
        for event in events where !threads.contains(event.thread) { threads.append(event.thread) }
        let flows = threads.map { thread in
            let steps = events.enumerated().filter { $0.element.thread == thread }.compactMap { order, event in
                event.frames.origin.map { frame in
                    JSONText.object([
                        ("location", location(frame, message: event.title)),
                        ("executionOrder", .integer(Int64(order + 1))),
                        ("importance", .string("essential")),
                    ])
                }
            }
            return JSONText.object([("id", thread.map { .string("thread \($0)") }), ("locations", .array(steps))])
        }
        return .object([("threadFlows", .array(flows))])
    }

    // MARK: the rest

    private var provenance: JSONText? {
        guard let time = finding.time.flatMap({ Timestamp($0) })?.description else { return nil }
        return .object([("firstDetectionTimeUtc", .string(time))])
    }

    private var properties: JSONText {
        let detail = finding.detail.sorted { $0.key < $1.key }.map {
            (key: $0.key, value: JSONText?.some(.string($0.value)))
        }
        return .object([
            ("access", .string(finding.access.rawValue)), ("confidence", .string(finding.confidence.rawValue)),
            ("address", finding.address?.json), ("block", finding.block?.json), ("thread", finding.thread?.json),
            ("pid", finding.processID.map { .integer(Int64($0)) }), ("program", finding.program.map { .string($0) }),
            ("time", finding.time.map { .string($0) }), ("signature", finding.signature.map { .string($0) }),
            ("detail", detail.isEmpty ? nil : .object(detail)),
        ])
    }
}
