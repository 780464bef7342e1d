// Draws a tree of calls as a flame graph: inline SVG that fits any width. A script zooms, searches and switches
// measures; the graph is readable without the script.

/// A flame graph with the outermost calls at the top. Each box is an `svg` element nested in its caller's, so that its
/// position is a share of the caller's width, and the browser clips text that is too wide.
package struct FlameGraph {
    /// A quantity that the widths of the boxes can show.
    package struct Measure: Sendable {
        /// Such as "bytes".
        package var name: String
        package var text: @Sendable (UInt64) -> String

        package init(_ name: String, text: @escaping @Sendable (UInt64) -> String) {
            self.name = name
            self.text = text
        }
    }

    /// Position and width of a box, as fractions of its caller's width.
    package struct Span: Hashable, Sendable {
        package var start: Double
        package var width: Double
    }

    /// A call. If `node` is nil, the box stands for all calls of one caller that are not drawn.
    package struct Box: Sendable {
        package var node: Int?
        /// Number of calls, if `node` is nil.
        package var omitted = 0
        package var values: [UInt64]
        /// One for each measure.
        package var spans: [Span]
        package var children: [Box] = []

        /// Number of levels of boxes, from this box to the innermost one.
        package var depth: Int { 1 + (children.map(\.depth).max() ?? 0) }
        package var count: Int { children.reduce(1) { $0 + $1.count } }
    }

    /// A page with more boxes than this takes long to load.
    package static let mostBoxes = 3000
    /// Least share of the whole that gets a box. A box with a smaller share is less than a point wide on most screens.
    private static let leastShare = 0.0004
    private static let rowHeight = 18

    private let tree: FlameTree
    private let measures: [Measure]
    package let root: Box

    /// - Parameter measures: one for each amount of a node. The first determines the widths of the boxes; the script
    ///   can switch to another.
    package init(_ tree: FlameTree, _ measures: [Measure]) {
        precondition(tree.nodes[0].values.count == measures.count)
        self.tree = tree
        self.measures = measures
        let drawn = Self.drawn(tree)
        root = Self.box(0, in: tree, drawn, measures.map { _ in Span(start: 0, width: 1) })
    }

    // Selects the nodes to draw: those with the largest share of any measure. The parent of a selected node is selected
    // too, because its share is not smaller.
    private static func drawn(_ tree: FlameTree) -> [Bool] {
        let totals = tree.nodes[0].values
        let shares = tree.nodes.map { node in
            zip(node.values, totals).map { share($0, of: $1) }.max() ?? 0
        }
        var drawn = Array(repeating: false, count: tree.nodes.count)
        let order = tree.nodes.indices.filter { $0 == 0 || shares[$0] >= leastShare }
            .sorted { (shares[$1], $0) < (shares[$0], $1) }
        for node in order.prefix(mostBoxes) { drawn[node] = true }
        return drawn
    }

    private static func share(_ value: UInt64, of total: UInt64) -> Double {
        total == 0 ? 0 : min(1, Double(value) / Double(total))
    }

    private static func box(_ number: Int, in tree: FlameTree, _ drawn: [Bool], _ spans: [Span]) -> Box {
        let node = tree.nodes[number]
        var box = Box(node: number, values: node.values, spans: spans)
        var starts = node.values.map { _ in 0.0 }
        func next(_ values: [UInt64]) -> [Span] {
            values.indices.map { measure in
                let width = min(share(values[measure], of: node.values[measure]), 1 - starts[measure])
                defer { starts[measure] += width }
                return Span(start: starts[measure], width: width)
            }
        }
        let children = node.children.filter { drawn[$0] }
            .sorted { (tree.nodes[$1].values[0], $0) < (tree.nodes[$0].values[0], $1) }
        for child in children {
            box.children.append(Self.box(child, in: tree, drawn, next(tree.nodes[child].values)))
        }
        let omitted = node.children.filter { !drawn[$0] }
        let values = omitted.reduce(into: node.values.map { _ in 0 as UInt64 }) { sums, child in
            for (measure, value) in tree.nodes[child].values.enumerated() { sums[measure] &+= value }
        }
        if values.contains(where: { $0 > 0 }) {
            box.children.append(Box(omitted: omitted.count, values: values, spans: next(values)))
        }
        return box
    }

    // MARK: HTML

    /// A `figure` element with its controls.
    ///
    /// - Parameter caption: what the picture shows, for screen readers.
    package func figure(caption: String) -> String {
        var text = "<figure class=\"pic\"><div class=\"ft\" hidden>"
        if measures.count > 1 {
            text += "<span role=\"group\" aria-label=\"width of the boxes\">"
            for (number, measure) in measures.enumerated() {
                text +=
                    "<button type=\"button\" class=\"fm\" aria-pressed=\"\(number == 0)\">\(htmlText(measure.name))</button>"
            }
            text += "</span>"
        }
        text +=
            "<input class=\"fq\" type=\"search\" placeholder=\"Find a call\" aria-label=\"mark calls that contain this text\">"
        text += "<output class=\"fn\"></output><button type=\"button\" class=\"fz\" disabled>Zoom out</button></div>"
        return text + picture(caption: caption) + "<p class=\"fi\">&nbsp;</p></figure>\n"
    }

    /// The `svg` element alone, for pages without the script.
    package func picture(caption: String) -> String {
        let height = root.depth * Self.rowHeight
        var text =
            "<svg class=\"flame\" width=\"100%\" height=\"\(height)\" role=\"img\" aria-label=\"\(htmlText(caption, cutAt: 600))\">"
        write(root, height: height, to: &text)
        return text + "</svg>"
    }

    private func write(_ box: Box, height: Int, to text: inout String) {
        let name = name(of: box)
        let spans = box.spans.map { "\(Self.percent($0.start)) \(Self.percent($0.width))" }
        text +=
            "<svg class=\"\(style(of: box, name))\" x=\"\(Self.percent(box.spans[0].start))%\" y=\"\(box.node == 0 ? 0 : Self.rowHeight)\" "
            + "width=\"\(Self.percent(box.spans[0].width))%\" height=\"\(height)\" data-p=\"\(spans.joined(separator: " "))\">"
        text +=
            "<title>\(htmlText(name)) · \(amounts(of: box))</title><rect width=\"100%\" height=\"\(Self.rowHeight - 1)\"/>"
        text += "<text x=\"4\" y=\"13\">\(htmlText(name, cutAt: 160))</text>"
        for child in box.children { write(child, height: height - Self.rowHeight, to: &text) }
        text += "</svg>"
    }

    private func name(of box: Box) -> String {
        if let node = box.node { return tree.nodes[node].call.name }
        return "\(groupedText(UInt64(box.omitted))) smaller call\(box.omitted == 1 ? "" : "s")"
    }

    // A box of the program's own code has one of three tints, by its name. The tint has no meaning: like the gap
    // between boxes, it separates neighbors.
    private func style(of box: Box, _ name: String) -> String {
        guard let node = box.node else { return "fb rest" }
        if node == 0 { return "fb lib" }
        if tree.nodes[node].call.isLibraryCode { return "fb lib" }
        return "fb c\(name.utf8.reduce(UInt(0)) { $0 &* 31 &+ UInt($1) } % 3)"
    }

    private func amounts(of box: Box) -> String {
        var parts = zip(measures, box.values).map { htmlText($0.text($1)) }
        let share = Self.share(box.values[0], of: root.values[0])
        parts.append("\(points(share * 100)) % of all")
        return parts.joined(separator: " · ")
    }

    // A percentage with three decimals at most.
    private static func percent(_ fraction: Double) -> String {
        let thousandths = Int((fraction * 100_000).rounded())
        let rest = thousandths % 1000
        if rest == 0 { return "\(thousandths / 1000)" }
        var digits = String(rest + 1000).dropFirst()
        while digits.last == "0" { digits = digits.dropLast() }
        return "\(thousandths / 1000).\(digits)"
    }
}
