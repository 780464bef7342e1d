// Shows the summary of a heap as text and JSON.

import ZombieGuard
import ZombieGuardGraph

/// The report of `zguard heap`.
struct HeapReport {
    private let summary: HeapSummary
    private let statistics: Statistics
    private let symbolicator: Symbolicator
    private let earlier: SavedHeap?
    private let limit: Int
    private let time: String

    init(
        _ summary: HeapSummary, _ statistics: Statistics, _ symbolicator: Symbolicator, earlier: SavedHeap?, limit: Int,
        time: String
    ) {
        self.summary = summary
        self.statistics = statistics
        self.symbolicator = symbolicator
        self.earlier = earlier
        self.limit = limit
        self.time = time
    }

    /// Amounts now, and how much they have grown since the earlier look.
    private struct Row {
        var amount: HeapSummary.Amount
        var grownBlocks = 0
        var grownBytes: Int64 = 0
        var stack: HeapSummary.StackRow?
        var classRow: HeapSummary.ClassRow?

        init(_ amount: HeapSummary.Amount, since before: HeapSummary.Amount?) {
            self.amount = amount
            grownBlocks = amount.blocks &- (before?.blocks ?? 0)
            grownBytes = Int64(clamping: amount.bytes) &- Int64(clamping: before?.bytes ?? 0)
        }
    }

    private var classRows: [Row] {
        let before = earlier?.byClass
        return chosen(
            summary.classes.map { row in
                var result = Row(row.amount, since: before?[row.label])
                result.classRow = row
                return result
            })
    }

    private var stackRows: [Row] {
        let before = earlier?.byStack
        return chosen(
            summary.stacks.map { row in
                var result = Row(row.amount, since: before?[row.identity])
                result.stack = row
                return result
            })
    }

    // Without an earlier look, all rows, the largest first. With one, those that have grown, the fastest first.
    private func chosen(_ rows: [Row]) -> [Row] {
        if earlier == nil { return rows }
        return rows.filter { $0.grownBytes > 0 || $0.grownBlocks > 0 }.sorted { $0.grownBytes > $1.grownBytes }
    }

    // MARK: Text

    var text: String {
        let total = summary.total
        var text =
            "\(groupedText(UInt64(total.blocks))) live block\(total.blocks == 1 ? "" : "s"), \(byteText(total.bytes)) in "
            + "\(visible(statistics.program)) [\(statistics.processID)]"
        if let earlier {
            let grown = Row(total, since: .init(blocks: earlier.blocks, bytes: earlier.bytes))
            text += "; \(signed(grown.grownBlocks)) blocks, \(signedBytes(grown.grownBytes))"
            text += earlier.time.map { " since \(visible($0))" } ?? ""
        }
        text += "\n"
        let classes = classRows
        text += part("class", classes) { visible($0.classRow.map(Self.shown) ?? "") }
        let stacks = stackRows
        text += part("allocated in", stacks) { row in
            guard let stack = row.stack, !stack.frames.isEmpty else { return "an unknown stack" }
            return Self.path(symbolicator.symbolicate(stack.frames))
        }
        if earlier == nil {
            text += part("size", summary.sizes.map { Row($0.amount, since: nil) }, limit: .max) { _ in "" }
        }
        return text
    }

    private static func shown(_ row: HeapSummary.ClassRow) -> String {
        row.language == .swift ? row.name.map { $0 } ?? row.label : row.label
    }

    // The three innermost calls of the program's own, such as "make (list.c:12) ← load (list.c:40)".
    private static func path(_ frames: [Finding.Frame]) -> String {
        guard let origin = frames.origin, let first = frames.firstIndex(of: origin) else { return "an unknown stack" }
        let own = frames[first...].filter { !$0.isLibraryCode }.prefix(3)
        return (own.isEmpty ? [origin] : Array(own)).map { frame in
            // The module's name is enough here.
            var short = frame
            short.module = frame.moduleName
            return short.shortPlace
        }.joined(separator: " ← ")
    }

    private func part(_ title: String, _ rows: [Row], limit: Int? = nil, name: (Row) -> String) -> String {
        if rows.isEmpty { return earlier == nil ? "" : "\nno \(title == "class" ? "class" : "stack") has grown\n" }
        let limit = limit ?? self.limit
        var lines: [[String]] = []
        var head = ["    blocks", "     bytes"]
        if earlier != nil { head += ["    blocks", "     bytes"] }
        lines.append(head + [title == "size" ? "size at most" : title])
        for (number, row) in rows.prefix(limit).enumerated() {
            var cells = [groupedText(UInt64(row.amount.blocks)), byteText(row.amount.bytes)]
            if earlier != nil { cells += [signed(row.grownBlocks), signedBytes(row.grownBytes)] }
            let last = title == "size" ? byteText(summary.sizes[number].most) : name(row)
            lines.append(cells + [last])
        }
        var text = "\n" + table(lines, rightAligned: Set(0..<head.count))
        if rows.count > limit { text += "  … and \(groupedText(UInt64(rows.count - limit))) more\n" }
        return text
    }

    private func signed(_ number: Int) -> String {
        (number < 0 ? "-" : "+") + groupedText(UInt64(number.magnitude))
    }

    private func signedBytes(_ number: Int64) -> String { (number < 0 ? "-" : "+") + byteText(number.magnitude) }

    // MARK: JSON

    /// One JSON object on one line.
    ///
    /// - Parameter isComplete: all rows, as a later look needs them; of the stacks only the first ones have frames.
    func json(isComplete: Bool = false) -> String {
        let most = isComplete ? Int.max : limit
        let all = isComplete ? summary.classes.map { row in Self.row(row) } : classRows
        let stacks = isComplete ? summary.stacks.map { row in Self.row(row) } : stackRows
        let growth = isComplete ? nil : earlier
        return JSONText.object([
            ("schema", .string(SavedHeap.schema)), ("pid", .integer(Int64(statistics.processID))),
            ("program", .string(statistics.program)), ("time", .string(time)),
            ("since", growth?.time.map { .string($0) }),
            ("blocks", .integer(Int64(summary.total.blocks))), ("bytes", .natural(summary.total.bytes)),
            (
                "classes",
                .array(
                    all.prefix(most).map { row in
                        .object(
                            [
                                ("class", row.classRow?.name.map { .string($0) }),
                                ("language", .string(row.classRow?.language.rawValue ?? "unknown")),
                                ("family", row.classRow.map { .string($0.family) }),
                            ] + amounts(row, growth != nil))
                    })
            ),
            (
                "stacks",
                .array(
                    stacks.prefix(most).enumerated().map { number, row in
                        let frames = number < limit ? symbolicator.symbolicate(row.stack?.frames ?? []) : []
                        return .object(
                            [("identity", .string(Finding.Stacks.digits(ofIdentity: row.stack?.identity ?? 0)))]
                                + amounts(row, growth != nil)
                                + [("alloc", frames.isEmpty ? nil : .array(frames.map(\.json)))])
                    })
            ),
            (
                "sizes",
                .array(
                    summary.sizes.map {
                        .object([("at_most", .natural($0.most))] + amounts(Row($0.amount, since: nil), false))
                    })
            ),
        ]).line + "\n"
    }

    private static func row(_ stack: HeapSummary.StackRow) -> Row {
        var row = Row(stack.amount, since: nil)
        row.stack = stack
        return row
    }

    private static func row(_ classRow: HeapSummary.ClassRow) -> Row {
        var row = Row(classRow.amount, since: nil)
        row.classRow = classRow
        return row
    }

    private func amounts(_ row: Row, _ hasGrown: Bool) -> [(String, JSONText?)] {
        [("blocks", .integer(Int64(row.amount.blocks))), ("bytes", .natural(row.amount.bytes))]
            + (hasGrown
                ? [("blocks_grown", .integer(Int64(row.grownBlocks))), ("bytes_grown", .integer(row.grownBytes))] : [])
    }
}
