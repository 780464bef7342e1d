// Draws the wait-for graph of a deadlock: a column of threads and the locks or queues that they wait for, with an arrow
// that closes the cycle.

struct WaitGraph {
    private let finding: Finding
    private let stall: Finding.Stall

    /// Nil unless the finding is a deadlock.
    init?(_ finding: Finding) {
        guard finding.kind == .deadlock, let stall = finding.stall else { return nil }
        self.finding = finding
        self.stall = stall
    }

    /// A thread, or a lock or queue that a thread waits for.
    private struct Box {
        var style: String
        var title: String, note: String
        /// Label of the arrow from this box to the next one.
        var leads: String
    }

    // Sizes in points. The picture is no wider than the screen of a phone. `most`: maximum number of pairs of thread
    // and lock; the rest of a longer chain is summed up in one box. A bold letter is 8 points wide.
    private static let width = 360, left = 46, boxHeight = 38, gap = 26, most = 16
    private static let mostLetters = (width - left - 16) / 8

    /// A `figure` element.
    var figure: String {
        let (boxes, back) = boxes
        let row = Self.boxHeight + Self.gap
        let height = boxes.count * row - Self.gap + 4
        let sentence = htmlText(finding.deadlockSentence, cutAt: 600)
        var text =
            "<figure class=\"wg\"><svg viewBox=\"0 0 \(Self.width) \(height)\" width=\"\(Self.width)\" height=\"\(height)\" "
            + "role=\"img\" aria-label=\"Wait-for graph: \(sentence)\"><title>Who waits for whom</title>"
        for (index, box) in boxes.enumerated() {
            let top = index * row + 2
            text += draw(box, top)
            guard index + 1 < boxes.count else { continue }
            let (x, from) = (Self.left + 24, top + Self.boxHeight)
            text += "<path class=\"wa\" d=\"M\(x) \(from)v\(Self.gap - 7)\"/>"
            text += "<path class=\"wh\" d=\"M\(x - 4) \(from + Self.gap - 8)h8l-4 7z\"/>"
            text += "<text x=\"\(x + 12)\" y=\"\(from + Self.gap / 2 + 4)\">\(htmlText(box.leads))</text>"
        }
        // Draw an arrow from the last box along the left edge to the thread that closes the cycle.
        let from = (boxes.count - 1) * row + 2 + Self.boxHeight / 2
        let to = back * row + 2 + Self.boxHeight / 2
        text += "<path class=\"wa\" d=\"M\(Self.left) \(from)H22V\(to)H\(Self.left - 7)\"/>"
        text += "<path class=\"wh\" d=\"M\(Self.left - 8) \(to - 4)v8l7 -4z\"/>"
        let label = (from + to) / 2
        text +=
            "<text class=\"wl\" transform=\"translate(15 \(label)) rotate(-90)\">\(htmlText(boxes[boxes.count - 1].leads))</text>"
        return text + "</svg><figcaption>Who waits for whom. None of these threads can go on.</figcaption></figure>"
    }

    private func draw(_ box: Box, _ top: Int) -> String {
        let (x, width) = (Self.left, Self.width - Self.left - 2)
        let radius = box.style == "thread" ? 8 : 0
        return
            "<g class=\"\(box.style)\"><rect x=\"\(x)\" y=\"\(top)\" width=\"\(width)\" height=\"\(Self.boxHeight)\" rx=\"\(radius)\"/>"
            + "<text class=\"wt\" x=\"\(x + 8)\" y=\"\(top + 16)\">\(htmlText(box.title, cutAt: Self.mostLetters))</text>"
            + "<text x=\"\(x + 8)\" y=\"\(top + 30)\">\(htmlText(box.note, cutAt: Self.mostLetters))</text></g>"
    }

    /// The boxes from top to bottom, and the index of the box to which the arrow from the last box leads back.
    private var boxes: (boxes: [Box], back: Int) {
        let threads = [nil, stall.holder].prefix(stall.holder == nil ? 1 : 2) + stall.waits
        var boxes: [Box] = []
        var places: [Int] = []
        for (index, thread) in threads.enumerated() {
            places.append(boxes.count)
            if boxes.count >= 2 * Self.most, index + 1 < threads.count {
                // Sum up the rest of a long chain in one box: more boxes would add no information.
                let left = threads.count - index
                boxes.append(Box(style: "rest", title: "\(left) more threads", note: "", leads: "and so on, to"))
                break
            }
            let stack = thread?.stack ?? finding.stacks.access
            let awaited = index < stall.awaited.count ? stall.awaited[index] : nil
            let isEnd = awaited.map { $0.kind == "end" } ?? (stack.joins)
            boxes.append(
                Box(
                    style: "thread", title: name(of: thread),
                    note: stack.origin.map { "in \($0.shortPlace)" } ?? "",
                    leads: isEnd ? "waits for the end of" : "waits for"))
            if !isEnd { boxes.append(box(of: awaited)) }
        }
        // The thread that closes the cycle, if the finding's own thread is not on the cycle.
        let closing = finding.detail["circle"].flatMap { name in
            threads.firstIndex { $0.map { $0.label == name } ?? false }
        }
        return (boxes, closing.flatMap { $0 < places.count ? places[$0] : nil } ?? 0)
    }

    private func name(of thread: Finding.ThreadStack?) -> String {
        let label = thread?.label ?? finding.threadName
        return label.hasPrefix("the ") ? String(label.dropFirst(4)) : label
    }

    private func box(of awaited: Finding.Stall.Awaited?) -> Box {
        guard let awaited else { return Box(style: "lock", title: "a lock", note: "", leads: "held by") }
        let address = "at \(awaited.address)"
        switch awaited.kind {
        case "queue":
            return Box(
                style: "lock", title: "queue \(awaited.name ?? "without a label")", note: address, leads: "served by")
        case "rwlock":
            return Box(
                style: "lock", title: "lock for readers and writers", note: address, leads: "held for writing by")
        default: return Box(style: "lock", title: "mutex", note: address, leads: "held by")
        }
    }
}

extension Finding.Stall {
    /// A flame graph of the samples as a `figure` element; nil if all samples show the same stack.
    var flame: String? {
        if sampled.count < 2 { return nil }
        var tree = FlameTree(measures: 1)
        for sample in sampled {
            var frames = sample.stack[...]
            // Drop the frames outside of `main`.
            if let last = frames.lastIndex(where: { !$0.isLibraryCode && $0.function != "_start" }) {
                frames = frames[...last]
            }
            let calls = frames.reversed().map {
                FlameTree.Call($0.function ?? $0.moduleName ?? "?", isLibraryCode: $0.isLibraryCode)
            }
            tree.add(calls, [UInt64(clamping: sample.count)])
        }
        let graph = FlameGraph(tree, [FlameGraph.Measure("samples") { "\($0) sample\($0 == 1 ? "" : "s")" }])
        let sum = groupedText(tree.nodes[0].values[0])
        return
            "<figure class=\"pic\">\(graph.picture(caption: "Flame graph of \(sum) samples. The stacks below have the same numbers."))"
            + "<figcaption>\(sum) samples while the thread was busy: a call is as wide as the samples that it was in. "
            + "The outermost call is at the top.</figcaption></figure>"
    }
}
