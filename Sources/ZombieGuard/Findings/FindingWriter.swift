// Writes findings as the JSON lines of finished reports.

extension Finding {
    /// The finding as one line of a finished report, without the line feed.
    public var jsonLine: String { json.line }

    /// The finding as JSON; the keys are in the order of the documentation.
    public var json: JSONText {
        let head: [(String, JSONText?)] = [
            ("schema", .string(Self.schema)), ("kind", .string(kind.rawValue)), ("access", .string(access.rawValue)),
            ("confidence", .string(confidence.rawValue)), ("address", address?.json), ("block", block?.json),
            ("thread", thread?.json), ("stacks", stacks.json),
            ("history", history.isEmpty ? nil : .array(history.map(\.json))),
        ]
        return .object(
            head + (crash?.json ?? []) + (stall?.json ?? []) + [
                ("count", .integer(Int64(count))), ("pid", processID.map { .integer(Int64($0)) }),
                ("program", program.map { .string($0) }), ("time", time.map { .string($0) }),
                ("first_seen", firstSeen.map { .string($0) }), ("last_seen", lastSeen.map { .string($0) }),
                ("signature", signature.map { .string($0) }), ("detail", detailJSON), ("origin", origin?.json),
                ("author", author.text.map { .string($0) }),
            ])
    }

    private var detailJSON: JSONText? {
        detail.isEmpty ? nil : .object(detail.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })
    }
}

extension Address {
    package var json: JSONText { .string(description) }
}

extension Finding.Block {
    package var json: JSONText {
        .object([
            ("start", start.json), ("size", .natural(size)), ("offset", offset.map { .integer($0) }),
            ("state", state.map { .string($0) }), ("language", language.map { .string($0) }),
            ("class", className.map { .string($0) }), ("member", member.map { .string($0) }),
            ("alloc_thread", allocatingThread.map { .integer(Int64($0)) }),
            ("free_thread", freeingThread.map { .integer(Int64($0)) }),
        ])
    }
}

extension Finding.Thread {
    package var json: JSONText { .object([("id", .integer(Int64(id))), ("name", name.map { .string($0) })]) }
}

extension Finding.Stacks {
    package var json: JSONText {
        .object([
            ("access", .array(access.map(\.json))), ("free", .array(free.map(\.json))),
            ("alloc", .array(alloc.map(\.json))),
            ("previous", previous.isEmpty ? nil : .array(previous.map(\.json))),
            ("thrown", thrown.isEmpty ? nil : .array(thrown.map(\.json))),
        ])
    }
}

extension Finding.Frame {
    var json: JSONText {
        .object([
            ("pc", pc.json), ("module", module.map { .string($0) }), ("build_id", buildID.map { .string($0) }),
            ("offset", offset?.json), ("function", function.map { .string($0) }), ("file", file.map { .string($0) }),
            ("line", line.map { .integer(Int64($0)) }), ("column", column.map { .integer(Int64($0)) }),
            ("inlined", .bool(inlined)),
        ])
    }
}
