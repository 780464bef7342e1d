// Draws a block as inline SVG: its words, the accessed bytes, and the surroundings. The style sheet sets the colors.

struct BlockPicture {
    private let finding: Finding
    private let block: Finding.Block
    private let map: BlockMap

    private let width: Double
    private let style: String

    private static let left = 6.0
    /// Width of a letter of the label above the access.
    private static let letter = 6.8
    private static let rowTop = 40.0
    private static let rowHeight = 30.0

    /// One picture for wide windows, and one for narrow ones, in which fewer words fit. Empty if the finding has no
    /// block.
    ///
    /// - Parameter hasNarrow: whether there is a picture for narrow windows; without it, narrow windows scroll.
    static func pictures(_ finding: Finding, hasNarrow: Bool) -> String {
        let narrow = hasNarrow ? Self(finding, width: narrowWidth, words: BlockMap.narrowWords, " narrow") : nil
        return [Self(finding), narrow].compactMap { $0?.svg }.joined()
    }

    private static let narrowWidth = 340.0

    /// Nil if the finding has no block.
    init?(
        _ finding: Finding, width: Double = 640, words: Int64 = BlockMap.windowWords, _ style: String = ""
    ) {
        guard let block = finding.block, let map = BlockMap(finding, words: words) else { return nil }
        self.finding = finding
        self.width = width
        self.style = style
        self.block = block
        self.map = map
    }

    /// An `svg` element.
    var svg: String {
        let top = Self.rowTop
        var text = ""
        for (range, region) in map.regions(headerBytes: Int64(block.headerWords.count) * BlockMap.wordBytes) {
            text += bar(range, region.rawValue)
        }
        if let touched = map.touched {
            text += bar(touched.clamped(to: map.window), map.isLengthKnown ? "hit" : "hit at")
        }
        text += grid + headerLabels + outline + touchedLabel + ticks
        if map.isPartial { text += overview }
        let height = map.isPartial ? top + Self.rowHeight + 52 : top + Self.rowHeight + 20
        return """
            <svg class="bp\(style)" width="\(points(right))" height="\(points(height))" viewBox="0 0 \(points(right)) \(points(height))" role="img" aria-label="\(htmlText(caption))">\
            \(text)</svg>
            """
    }

    // Width of the picture. The picture of a short block is narrower, but has room for the label of the access.
    private var right: Double {
        if map.isPartial { return width }
        let label = map.touched.map { Double(touchedText($0).count) * Self.letter } ?? 0
        return min(width, max(360, label + 2 * Self.left, x(map.window.upperBound) + Self.left))
    }

    /// The picture's content in words, for screen readers.
    var caption: String {
        var text = "block of \(sizeText(block.size))"
        if let touched = map.touched { text += ", \(touchedText(touched))" }
        return text
    }

    private var wordWidth: Double {
        (width - 2 * Self.left) / Double((map.window.upperBound - map.window.lowerBound) / BlockMap.wordBytes)
    }

    // Limit the width of a word, so that few words do not fill the whole picture.
    private var scale: Double { min(wordWidth, 64) / Double(BlockMap.wordBytes) }

    private func x(_ offset: Int64) -> Double { Self.left + Double(offset - map.window.lowerBound) * scale }

    private func bar(_ range: Range<Int64>, _ style: String) -> String {
        rectangle(x(range.lowerBound), Self.rowTop, Double(range.count) * scale, Self.rowHeight, style)
    }

    private func rectangle(_ x: Double, _ y: Double, _ width: Double, _ height: Double, _ style: String) -> String {
        #"<rect class="\#(style)" x="\#(points(x))" y="\#(points(y))" width="\#(points(width))" height="\#(points(height))"/>"#
    }

    private func label(_ x: Double, _ y: Double, _ text: String, _ style: String = "", anchor: String = "middle")
        -> String
    {
        let side = anchor == "middle" ? "" : " text-anchor=\"\(anchor)\"" // "middle" is the style sheet's default
        let name = style.isEmpty ? "" : " class=\"\(style)\""
        return #"<text\#(name) x="\#(points(x))" y="\#(points(y))"\#(side)>\#(text)</text>"#
    }

    // Lines between the words.
    private var grid: String {
        let words = stride(from: map.window.lowerBound + 8, to: map.window.upperBound, by: 8)
        let path = words.map { "M\(points(x($0))) \(points(Self.rowTop))v\(points(Self.rowHeight))" }.joined()
        return path.isEmpty ? "" : #"<path class="grid" d="\#(path)"/>"#
    }

    private var headerLabels: String {
        block.headerWords.enumerated().map { index, word in
            let start = Int64(index) * BlockMap.wordBytes
            guard map.window.contains(start), map.window.contains(start + 7) else { return "" }
            let isTouched = map.touched?.overlaps(start..<start + BlockMap.wordBytes) ?? false
            return label(x(start + 4), Self.rowTop + 19, word, isTouched ? "in on" : "in")
        }.joined()
    }

    // The outline of the block, open on a side where the block extends beyond the window.
    private var outline: String {
        let start = max(0, map.window.lowerBound)
        let end = min(map.size, map.window.upperBound)
        if end < start { return "" }
        let (left, right, top, bottom) = (x(start), x(end), Self.rowTop, Self.rowTop + Self.rowHeight)
        var path = "M\(points(left)) \(points(top))H\(points(right))M\(points(left)) \(points(bottom))H\(points(right))"
        if map.window.contains(0) { path += "M\(points(left)) \(points(top))V\(points(bottom))" }
        if map.size <= map.window.upperBound { path += "M\(points(right)) \(points(top))V\(points(bottom))" }
        return #"<path class="edge \#(block.stateClass)" d="\#(path)"/>"#
    }

    private var touchedLabel: String {
        guard let touched = map.touched else { return "" }
        let shown = touched.clamped(to: map.window)
        let middle = (x(shown.lowerBound) + x(shown.upperBound)) / 2
        let top = Self.rowTop
        // Center the label over the access, but keep it within the picture.
        let text = touchedText(touched)
        let letters = min(text.count, Int((right - 2 * Self.left) / Self.letter))
        let length = Double(letters) * Self.letter
        let at = max(Self.left, min(middle - length / 2, right - Self.left - length))
        let arrow = "M\(points(middle)) \(points(top - 3))l-5 -8h10z"
        return #"<path class="arrow" d="\#(arrow)"/>"#
            + label(at, top - 17, htmlText(text, cutAt: text.count > letters ? letters - 1 : letters), "hl")
    }

    private func touchedText(_ touched: Range<Int64>) -> String {
        var text = use(UInt64(touched.count))
        if touched.lowerBound < 0 {
            text += " \(sizeText(touched.lowerBound.magnitude)) before the block"
        } else if touched.lowerBound >= map.size {
            let distance = UInt64(touched.lowerBound - map.size)
            text += distance == 0 ? " right behind the block" : " \(sizeText(distance)) behind the block"
        } else {
            text += " at +\(touched.lowerBound)"
            if finding.detail["part"] != "class pointer", let property = block.property { text += " · \(property)" }
        }
        return text
    }

    // A description of the access: "4 bytes changed", "call through the class pointer".
    private func use(_ count: UInt64) -> String {
        switch finding.kind {
        case .doubleFree, .invalidFree, .deallocMismatch: return "pointer given to free"
        case .writeAfterFree: return "\(sizeText(count)) changed"
        default: break
        }
        let access = finding.access.noun
        switch finding.detail["part"] {
        case "class pointer"?:
            return "\(access) through the \(block.knownLanguage == .cxx ? "vtable" : "class") pointer"
        case "reference count"?:
            return finding.access == .unknown ? "reference count" : "\(access) of the reference count"
        case "contents"?: return "pointer loaded from the object"
        default: break
        }
        return map.isLengthKnown ? "\(access) of \(sizeText(count))" : access
    }

    // Offsets below the words. A label that would overlap an earlier one is dropped. Order: the block's end, the
    // access, all other offsets.
    private var ticks: String {
        let y = Self.rowTop + Self.rowHeight + 13
        let end = map.size
        var marks: [(offset: Int64, text: String)] = []
        if map.window.contains(end) || end == map.window.upperBound { marks.append((end, "end +\(end)")) }
        var offsets = stride(from: map.window.lowerBound, through: map.window.upperBound, by: 8).filter {
            (0..<end).contains($0)
        }
        if let touched = map.touched?.lowerBound, let word = offsets.last(where: { $0 <= touched }) {
            offsets.insert(word, at: 0)
        }
        marks += offsets.map { ($0, "+\($0)") }
        var taken: [ClosedRange<Double>] = []
        var text = ""
        for mark in marks {
            let half = Double(mark.text.count) * 3.2
            let middle = min(max(x(mark.offset), Self.left + half), width - Self.left - half)
            let room = middle - half - 5...middle + half + 5
            if taken.contains(where: { $0.overlaps(room) }) { continue }
            taken.append(room)
            text += label(middle, y, mark.text)
        }
        return text
    }

    // A bar below the words that stands for the whole block, with the window's position marked.
    private var overview: String {
        let y = Self.rowTop + Self.rowHeight + 26
        let low = Double(min(0, map.window.lowerBound))
        let high = Double(max(map.size, map.window.upperBound))
        let full = width - 2 * Self.left
        func place(_ offset: Int64) -> Double { Self.left + (Double(offset) - low) / (high - low) * full }
        let (from, to) = (place(map.window.lowerBound), place(map.window.upperBound))
        let lens =
            "M\(points(Self.left)) \(points(y - 8))L\(points(from)) \(points(y))H\(points(max(to, from + 1)))"
            + "L\(points(x(map.window.upperBound))) \(points(y - 8))z"
        var text = #"<path class="lens" d="\#(lens)"/>"#
        text += rectangle(place(0), y, place(map.size) - place(0), 8, "body whole \(block.stateClass)")
        if let touched = map.touched {
            text += rectangle(
                min(place(touched.lowerBound), width - Self.left - 3), y,
                max(3, place(touched.upperBound) - place(touched.lowerBound)), 8, "hit")
        }
        text += label(Self.left, y + 20, "0", anchor: "start")
        return text + label(width - Self.left, y + 20, sizeText(block.size), anchor: "end")
    }
}
