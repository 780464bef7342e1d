// Encodes the history of an address as JSON.

extension AddressHistory {
    /// One object of ``schema``: docs/history.schema.json.
    public var json: JSONText {
        .object([
            ("schema", .string(Self.schema)), ("address", address.json), ("what", .string(what.rawValue)),
            ("sentence", .string(sentence)), ("block", block.map { blockJSON($0) }),
            ("trap", trap.map { trapJSON($0) }), ("mapping", place.map { placeJSON($0) }), ("stacks", stacks.json),
            ("history", changes.isEmpty ? nil : .array(changes.map(\.json))),
            ("pid", .integer(Int64(processID))), ("program", .string(program)),
            ("source", .string(isFromCore ? "core" : "process")),
        ])
    }

    // The keys of a finding's block, and keys that only `zguard history` writes.
    private func blockJSON(_ block: Finding.Block) -> JSONText {
        guard case .object(let keys) = block.json else { return block.json }
        let more: [(key: String, value: JSONText?)] = [
            ("fenced", .bool(isIsolated)), ("in_window", isInWindow ? .bool(true) : nil),
            ("in_guard", isInGuard ? .bool(true) : nil),
            ("allocated_with", family.map { .string($0) }), ("free_time_ns", freeTime.map { .natural($0) }),
            ("changing", isChanging ? .bool(true) : nil),
        ]
        return .object(keys + more)
    }

    private func trapJSON(_ trap: Trap) -> JSONText {
        .object([
            ("part", .string(trap.part.rawValue)), ("offset", .integer(trap.offset)),
            ("byte", trap.byte.map { .natural($0) }), ("access", trap.access.map { .string($0) }),
            ("objects", .integer(Int64(trap.objects))),
        ])
    }

    private func placeJSON(_ place: Place) -> JSONText {
        .object([
            ("start", place.start.json), ("end", place.end.json), ("permissions", .string(place.permissions)),
            ("path", place.path.map { .string($0) }),
        ])
    }
}
