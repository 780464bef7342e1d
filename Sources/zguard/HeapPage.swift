// Shows the summary of a heap as one self-contained HTML page: a flame graph of the allocation stacks, a treemap of the
// classes, and the tables of the text output.

import ZombieGuard
import ZombieGuardGraph

/// The page of `zguard heap --format html`.
struct HeapPage {
    private let report: HeapReport
    /// Notes on data that could not be read. Safe to print.
    private let notes: [String]
    private let isFull: Bool
    private let names: FrameNames

    /// - Parameter isFull: whether the flame graph shows every frame, including those of the language runtimes.
    init(_ report: HeapReport, notes: [String], isFull: Bool) {
        self.report = report
        self.notes = notes
        self.isFull = isFull
        names = FrameNames(report.symbolicator)
    }

    /// Maximum number of stacks in the flame graph. All further stacks share one box.
    private static let mostStacks = 20_000

    private var hasGrowth: Bool { report.earlier != nil }
    private var program: String {
        String((report.statistics.program.split(separator: "/").last ?? "heap").prefix(60))
    }

    /// The page, including its final line feed.
    var text: String {
        let title = "Heap of \(program)"
        var page = HTMLPage.head(
            title: title, styles: [HTMLStyle.part, HeapPageStyle.part], script: HeapPageStyle.script,
            version: zombieGuardVersion)
        page += "<body>\n\(HTMLReport.patterns)<header><div class=\"bar\"><h1>\(htmlText(title))</h1>"
        page += "<p class=\"sum\"><b>\(htmlText(report.sumText))</b>"
        if let growth = report.growthText { page += "; \(htmlText(growth))" }
        page += "</p></div><nav><a href=\"#flame\">Flame graph</a><a href=\"#classes\">Classes</a>"
        page += "<a href=\"#stacks\">Allocation stacks</a>"
        if report.hasSurvivors { page += "<a href=\"#ages\">Survivors by age</a>" }
        page += "<a href=\"#sizes\">Sizes</a></nav></header>\n<main>\n"
        page += notesHTML + flame + classes + stacks + survivors + sizes
        let made =
            "zguard \(htmlText(zombieGuardVersion)) · \(htmlText(report.statistics.program)) [\(report.statistics.processID)]"
        page += "</main>\n<footer>\(made) · \(htmlText(report.time))</footer>\n"
        return page + "<script>\(HeapPageStyle.script.text)</script>\n</body>\n</html>\n"
    }

    private func section(_ id: String, _ title: String, _ why: String, _ body: String) -> String {
        "<section id=\"\(id)\"><h2>\(title)</h2><p class=\"why\">\(why)</p>\n\(body)</section>\n"
    }

    private var notesHTML: String {
        notes.isEmpty ? "" : "<ul class=\"notes\">" + notes.map { "<li>\(htmlText($0))" }.joined() + "</ul>\n"
    }

    // MARK: Pictures

    private var flame: String {
        let bytes = FlameGraph.Measure("bytes") { byteText($0) }
        let blocks = FlameGraph.Measure("blocks") { "\(groupedText($0)) block\($0 == 1 ? "" : "s")" }
        let grown = FlameGraph.Measure("growth") { "+\(byteText($0))" }
        let measures = (hasGrowth ? [grown] : []) + [bytes, blocks]
        let rows = report.allStacks
        func values(_ row: HeapReport.Row) -> [UInt64] {
            (hasGrowth ? [UInt64(max(0, row.grownBytes))] : []) + [row.amount.bytes, UInt64(row.amount.blocks)]
        }
        var tree = FlameTree(measures: measures.count)
        // Sort by growth, so that the stacks that have grown most are not among the "other stacks".
        let ordered = hasGrowth ? rows.sorted { $0.grownBytes > $1.grownBytes } : rows
        for (number, row) in ordered.enumerated() {
            let calls = number < Self.mostStacks ? calls(row) : [FlameTree.Call("other stacks", isLibraryCode: true)]
            tree.add(calls, values(row))
        }
        let what =
            hasGrowth
            ? "Each box is a call; its width is how much the stacks below it have grown since the earlier look"
            : "Each box is a call; its width is the bytes of the live blocks that were allocated below it"
        let caption =
            "Flame graph of the allocation stacks of \(program): \(report.sumText). The tables below have the same numbers."
        return section(
            "flame", hasGrowth ? "Where it grows" : "Where it was allocated",
            "\(what). The outermost call is at the top.", FlameGraph(tree, measures).figure(caption: caption))
    }

    // The calls of a stack, the outermost first. Unless `isFull`, leaves out the allocation function and the callers of
    // `main`.
    private func calls(_ row: HeapReport.Row) -> [FlameTree.Call] {
        let frames = names.named(row.stack?.frames ?? [])
        if frames.isEmpty { return [FlameTree.Call(HeapReport.unknownStack, isLibraryCode: true)] }
        let isWhole = frames.last.map { $0.isLibraryCode || $0.function == "_start" } ?? true
        var shown = frames[...]
        if !isFull, let first = frames.firstIndex(where: { !$0.isLibraryCode }),
            let last = frames.lastIndex(where: { !$0.isLibraryCode && $0.function != "_start" }), first <= last
        {
            shown = frames[first...last]
        }
        var calls = shown.reversed().map { frame in
            FlameTree.Call(
                frame.function.map { withoutMangledEnd($0) } ?? frame.moduleName ?? "?",
                isLibraryCode: frame.isLibraryCode)
        }
        // The line of the allocation is a box of its own, so that below a function's box the boxes of its lines are
        // side by side.
        if let inner = shown.first, let file = inner.file, let line = inner.line {
            calls.append(FlameTree.Call("\(file.split(separator: "/").last.map(String.init) ?? file):\(line)"))
        }
        return (isWhole ? [] : [FlameTree.Call("outer calls that were not recorded", isLibraryCode: true)]) + calls
    }

    private var treemap: String {
        let items = report.allClasses.map { row in
            let grown = hasGrowth && row.grownBytes != 0 ? " (\(signedByteText(row.grownBytes)))" : ""
            let blocks = groupedText(UInt64(row.amount.blocks))
            return Treemap.Item(
                row.className, detail: byteText(row.amount.bytes) + grown,
                note: " · \(blocks) block\(row.amount.blocks == 1 ? "" : "s")", value: row.amount.bytes,
                isMarked: hasGrowth && row.grownBytes > 0)
        }
        return Treemap(items) { byteText($0) }.figure(
            caption: "Treemap of the classes of \(program) by bytes. The table below has the same numbers.")
    }

    // MARK: Tables

    private var classes: String {
        let what =
            "The areas are the bytes of the live objects of each class\(hasGrowth ? "; those that have grown say by how much" : "")."
        let rows = report.chosen(report.allClasses)
        return section(
            "classes", "Classes",
            "\(what) Blocks without a known class are shown by their allocation function, such as (malloc).",
            treemap + table(rows, "class") { htmlText($0.className) })
    }

    private var stacks: String {
        let rows = report.chosen(report.allStacks)
        return section(
            "stacks", "Allocation stacks", "The innermost calls of the program’s own.",
            table(rows, "allocated in") { row in
                let frames = names.named(row.stack?.frames ?? [])
                if frames.isEmpty { return HeapReport.unknownStack }
                return
                    "<details><summary>\(htmlText(HeapReport.path(frames), cutAt: 600))</summary>\(HTMLStack.list(of: frames))</details>"
            })
    }

    private var sizes: String {
        let rows = report.summary.sizes.map { size in
            "<tr role=\"row\">\(amountCells(size.amount))<td role=\"cell\" class=\"what\">\(byteText(size.most))"
        }
        return section(
            "sizes", "Sizes", "Each row has the blocks that are larger than half of its size.",
            tableHTML(["blocks", "bytes"], "size at most", rows))
    }

    private var survivors: String {
        if !report.hasSurvivors { return "" }
        let rows = report.ages.looks.indices.map { look in
            "<tr role=\"row\">\(amountCells(report.ages.looks[look].amount))<td role=\"cell\" class=\"what\">\(htmlText(report.ageText(look)))"
        }
        return section(
            "ages", "Survivors by age",
            "Which look was the first to see the blocks that are live now. A block whose address was freed and taken "
                + "again by the same call counts as old.", tableHTML(["blocks", "bytes"], "first seen", rows))
    }

    private func table(_ rows: [HeapReport.Row], _ title: String, name: (HeapReport.Row) -> String) -> String {
        if rows.isEmpty { return hasGrowth ? "<p>None has grown.</p>\n" : "" }
        var heads = ["blocks", "bytes"]
        if hasGrowth { heads += ["+ blocks", "+ bytes"] }
        if report.hasSurvivors { heads += ["survived"] }
        let lines = rows.prefix(report.limit).map { row in
            var line = "<tr role=\"row\">\(amountCells(row.amount))"
            if hasGrowth {
                line += number(signedText(row.grownBlocks)) + number(signedByteText(row.grownBytes))
            }
            if report.hasSurvivors { line += number(groupedText(UInt64(row.survivors.blocks))) }
            return line + "<td role=\"cell\" class=\"what\">\(name(row))"
        }
        let more = rows.count - lines.count
        return tableHTML(heads, title, lines)
            + (more > 0 ? "<p class=\"left\">… and \(groupedText(UInt64(more))) more</p>\n" : "")
    }

    private func number(_ text: String) -> String { "<td role=\"cell\" class=\"n\">\(htmlText(text))" }

    private func amountCells(_ amount: HeapSummary.Amount) -> String {
        number(groupedText(UInt64(amount.blocks))) + number(byteText(amount.bytes))
    }

    // The table needs ARIA roles: in a narrow window the style shows the rows as grids, and a browser then drops the
    // implicit roles.
    private func tableHTML(_ heads: [String], _ last: String, _ rows: [String]) -> String {
        let cells = heads.map { "<th role=\"columnheader\" scope=\"col\" class=\"n\">\($0)" }.joined()
        return
            "<table class=\"ht h\(heads.count)\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">\(cells)"
            + "<th role=\"columnheader\" scope=\"col\">\(last)<tbody role=\"rowgroup\">\n"
            + rows.joined(separator: "\n") + "</table>\n"
    }
}

/// Finds the names of frames, once for each frame: the stacks of a heap share most of their frames.
private final class FrameNames {
    private let symbolicator: Symbolicator
    private var known: [Finding.Frame: [Finding.Frame]] = [:]

    init(_ symbolicator: Symbolicator) { self.symbolicator = symbolicator }

    func named(_ stack: [Finding.Frame]) -> [Finding.Frame] {
        stack.flatMap { frame in
            if let frames = known[frame] { return frames }
            let frames = symbolicator.symbolicate([frame])
            known[frame] = frames
            return frames
        }
    }
}
