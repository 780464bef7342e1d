// Shows the summary of a heap as text and JSON, and chooses the rows for HTML.

import ZombieGuard
import ZombieGuardGraph

/// The report of `zguard heap`.
struct HeapReport {
    let summary: HeapSummary
    let statistics: Statistics
    let ages: HeapAges
    let symbolicator: Symbolicator
    let earlier: SavedHeap?
    let limit: Int
    let time: String

    init(
        _ summary: HeapSummary, _ statistics: Statistics, _ ages: HeapAges, _ symbolicator: Symbolicator,
        earlier: SavedHeap?, limit: Int, time: String
    ) {
        self.summary = summary
        self.statistics = statistics
        self.ages = ages
        self.symbolicator = symbolicator
        self.earlier = earlier
        self.limit = limit
        self.time = time
    }

    /// Amounts now, and how much they have grown since the saved heap (`--since`).
    struct Row {
        var amount: HeapSummary.Amount
        var grownBlocks = 0
        var grownBytes: Int64 = 0
        /// Blocks that already existed when an earlier heap was saved.
        var survivors = HeapSummary.Amount()
        var stack: HeapSummary.StackRow?
        var classRow: HeapSummary.ClassRow?

        init(_ amount: HeapSummary.Amount, since before: HeapSummary.Amount?) {
            self.amount = amount
            grownBlocks = amount.blocks &- (before?.blocks ?? 0)
            grownBytes = Int64(clamping: amount.bytes) &- Int64(clamping: before?.bytes ?? 0)
        }

        init(_ row: HeapSummary.ClassRow, since before: HeapSummary.Amount? = nil) {
            self.init(row.amount, since: before)
            (classRow, survivors) = (row, row.survivors)
        }

        init(_ row: HeapSummary.StackRow, since before: HeapSummary.Amount? = nil) {
            self.init(row.amount, since: before)
            (stack, survivors) = (row, row.survivors)
        }

        var className: String { classRow?.label ?? "" }
    }

    /// Whether it is known which blocks already existed when an earlier heap was saved.
    var hasSurvivors: Bool { earlier != nil && ages.hasEarlier }

    /// All classes, the largest first.
    var allClasses: [Row] {
        let before = earlier?.byClass
        return summary.classes.map { Row($0, since: before?[$0.label]) }
    }

    /// All stacks, the largest first.
    var allStacks: [Row] {
        let before = earlier?.byStack
        return summary.stacks.map { Row($0, since: before?[$0.identity]) }
    }

    /// Without an earlier saved heap, all rows, the largest first. With one, the rows that have grown, the largest
    /// growth first.
    func chosen(_ rows: [Row]) -> [Row] {
        if earlier == nil { return rows }
        return rows.filter { $0.grownBytes > 0 || $0.grownBlocks > 0 }.sorted { $0.grownBytes > $1.grownBytes }
    }

    // MARK: Text

    /// "5,102 live blocks, 418.3 KiB".
    var sumText: String {
        let total = summary.total
        return
            "\(groupedText(UInt64(total.blocks))) live block\(total.blocks == 1 ? "" : "s"), \(byteText(total.bytes))"
    }

    /// "+5,000 blocks, +312.5 KiB since 2026-11-26T07:00:00.000Z"; nil without a saved heap.
    var growthText: String? {
        guard let earlier else { return nil }
        let grown = Row(summary.total, since: .init(blocks: earlier.blocks, bytes: earlier.bytes))
        return "\(signedText(grown.grownBlocks)) blocks, \(signedByteText(grown.grownBytes))"
            + (earlier.time.map { " since \(visible($0))" } ?? "")
    }

    var text: String {
        var text = "\(sumText) in \(visible(statistics.program)) [\(statistics.processID)]"
        text += (growthText.map { "; " + $0 } ?? "") + "\n"
        text += part("class", chosen(allClasses)) { visible($0.className) }
        text += part("allocated in", chosen(allStacks)) { row in
            guard let stack = row.stack, !stack.frames.isEmpty else { return Self.unknownStack }
            return Self.path(symbolicator.symbolicate(stack.frames))
        }
        if earlier == nil {
            text += part("size", summary.sizes.map { Row($0.amount, since: nil) }, limit: .max) { _ in "" }
        }
        return text + (hasSurvivors ? survivorsText : "")
    }

    private var survivorsText: String {
        let lines = ages.looks.indices.map { look in
            let amount = ages.looks[look].amount
            return [groupedText(UInt64(amount.blocks)), byteText(amount.bytes), visible(ageText(look))]
        }
        return "\n" + table([["    blocks", "     bytes", "first seen"]] + lines, rightAligned: [0, 1])
    }

    /// "at 2026-11-26T07:00:00.000Z, or older". Not safe to print.
    func ageText(_ look: Int) -> String {
        if look == ages.looks.count - 1 { return "now" }
        return "at \(ages.looks[look].time)" + (look == 0 ? ", or older" : "")
    }

    static let unknownStack = "an unknown stack"

    // The three innermost calls in the program's own code, such as "make (list.c:12) ← load (list.c:40)".
    static func path(_ frames: [Finding.Frame]) -> String {
        guard let origin = frames.origin, let first = frames.firstIndex(of: origin) else { return unknownStack }
        let own = frames[first...].filter { !$0.isLibraryCode }.prefix(3)
        return (own.isEmpty ? [origin] : Array(own)).map { frame in
            // Shows only the module's name, not its path.
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
        if hasSurvivors { head += ["  survived"] }
        lines.append(head + [title == "size" ? "size at most" : title])
        for (number, row) in rows.prefix(limit).enumerated() {
            var cells = [groupedText(UInt64(row.amount.blocks)), byteText(row.amount.bytes)]
            if earlier != nil { cells += [signedText(row.grownBlocks), signedByteText(row.grownBytes)] }
            if hasSurvivors { cells += [groupedText(UInt64(row.survivors.blocks))] }
            let last = title == "size" ? byteText(summary.sizes[number].most) : name(row)
            lines.append(cells + [last])
        }
        var text = "\n" + table(lines, rightAligned: Set(0..<head.count))
        if rows.count > limit { text += "  … and \(groupedText(UInt64(rows.count - limit))) more\n" }
        return text
    }

    // MARK: JSON

    /// One JSON object on one line.
    ///
    /// - Parameter isComplete: whether to write all rows, which a saved heap needs. Only the first `limit` stacks have
    ///   frames.
    func json(isComplete: Bool = false) -> String {
        let most = isComplete ? Int.max : limit
        let classes = isComplete ? summary.classes.map { Row($0) } : chosen(allClasses)
        let stacks = isComplete ? summary.stacks.map { Row($0) } : chosen(allStacks)
        let growth = isComplete ? nil : earlier
        return JSONText.object([
            ("schema", .string(SavedHeap.schema)), ("pid", .integer(Int64(statistics.processID))),
            ("program", .string(statistics.program)), ("time", .string(time)),
            ("started_ns", isComplete ? .natural(statistics.started) : nil),
            ("since", growth?.time.map { .string($0) }),
            ("blocks", .integer(Int64(summary.total.blocks))), ("bytes", .natural(summary.total.bytes)),
            (
                "classes",
                .array(
                    classes.prefix(most).map { row in
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
            ("ages", isComplete || hasSurvivors ? .array(ages.looks.indices.map { age($0, isComplete) }) : nil),
        ]).line + "\n"
    }

    private func age(_ look: Int, _ isComplete: Bool) -> JSONText {
        let amount = ages.looks[look].amount
        return .object([
            ("time", .string(ages.looks[look].time)), ("blocks", .integer(Int64(amount.blocks))),
            ("bytes", .natural(amount.bytes)), ("members", isComplete ? .string(ages.members(of: look)) : nil),
        ])
    }

    private func amounts(_ row: Row, _ hasGrown: Bool) -> [(String, JSONText?)] {
        var all: [(String, JSONText?)] = [
            ("blocks", .integer(Int64(row.amount.blocks))), ("bytes", .natural(row.amount.bytes)),
        ]
        if !hasGrown { return all }
        all += [("blocks_grown", .integer(Int64(row.grownBlocks))), ("bytes_grown", .integer(row.grownBytes))]
        if !hasSurvivors { return all }
        return all + [
            ("blocks_survived", .integer(Int64(row.survivors.blocks))),
            ("bytes_survived", .natural(row.survivors.bytes)),
        ]
    }
}
