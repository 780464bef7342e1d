// Draws amounts as a treemap: one rectangle for each amount, with an area proportional to the amount. The inline SVG
// fits any width.

/// A squarified treemap (Bruls, Huizing, van Wijk 2000): rows of rectangles that are nearly squares.
package struct Treemap {
    package struct Item: Sendable {
        /// Not safe to print.
        package var name: String
        /// Text below the name, such as "1.2 MiB (+3.0 KiB)".
        package var detail: String
        /// Additional text for the tooltip and for screen readers.
        package var note: String
        package var value: UInt64
        package var isMarked: Bool

        package init(_ name: String, detail: String, note: String, value: UInt64, isMarked: Bool = false) {
            self.name = name
            self.detail = detail
            self.note = note
            self.value = value
            self.isMarked = isMarked
        }
    }

    package struct Rectangle: Hashable, Sendable {
        package var x: Double
        package var y: Double
        package var width: Double
        package var height: Double

        package init(x: Double, y: Double, width: Double, height: Double) {
            (self.x, self.y, self.width, self.height) = (x, y, width, height)
        }
    }

    /// Places rectangles in an area, in the order of their values.
    ///
    /// - Parameters:
    ///   - values: the largest first; none is 0.
    ///   - area: the area to fill.
    /// - Returns: a rectangle for each value, with an area proportional to the value.
    package static func layout(_ values: [Double], in area: Rectangle) -> [Rectangle] {
        let total = values.reduce(0, +)
        guard total > 0, area.width > 0, area.height > 0 else { return values.map { _ in area } }
        let scale = area.width * area.height / total
        var result: [Rectangle] = []
        var free = area
        var first = 0
        while first < values.count {
            let side = max(min(free.width, free.height), .leastNonzeroMagnitude)
            // Add rectangles to a row along the shorter side until one more would worsen the row's worst aspect ratio.
            var end = first
            var sum = 0.0
            var worst = Double.infinity
            while end < values.count {
                let next = sum + values[end] * scale
                let ratio = Self.worst(largest: values[first] * scale, smallest: values[end] * scale, next, side)
                if ratio > worst { break }
                (sum, worst, end) = (next, ratio, end + 1)
            }
            let isLast = end == values.count
            let isColumn = free.width >= free.height
            let room = max(free.width, free.height)
            // Rounding may leave too little room for rectangles that are far smaller than others.
            let thickness = isLast ? room : min(room, sum / side)
            var at = 0.0
            for index in first..<end {
                let length = values[index] * scale / sum * side
                result.append(
                    isColumn
                        ? Rectangle(x: free.x, y: free.y + at, width: thickness, height: length)
                        : Rectangle(x: free.x + at, y: free.y, width: length, height: thickness))
                at += length
            }
            if isColumn {
                free.x += thickness
                free.width = max(0, free.width - thickness)
            } else {
                free.y += thickness
                free.height = max(0, free.height - thickness)
            }
            first = end
        }
        return result
    }

    // The worst aspect ratio in a row that has a total area of `sum` and lies along a side.
    private static func worst(largest: Double, smallest: Double, _ sum: Double, _ side: Double) -> Double {
        let squares = (side * side, sum * sum)
        return max(squares.0 * largest / squares.1, squares.1 / (squares.0 * smallest))
    }

    /// Maximum number of items drawn as rectangles of their own. A last rectangle shows the sum of all others.
    package static let mostItems = 60
    private static let leastShare = 0.001

    /// Rectangles to draw, the largest first.
    package let items: [Item]

    /// - Parameters:
    ///   - items: in any order.
    ///   - text: formats a sum, such as "1.2 MiB".
    package init(_ items: [Item], text: (UInt64) -> String) {
        let total = items.reduce(0.0) { $0 + Double($1.value) }
        let sorted = items.filter { $0.value > 0 }.sorted { $0.value > $1.value }
        let drawn = sorted.prefix(Self.mostItems).prefix { Double($0.value) >= total * Self.leastShare }
        let rest = sorted.dropFirst(drawn.count)
        let sum = rest.reduce(0 as UInt64) { $0 &+ $1.value }
        let others = Item("\(groupedText(UInt64(rest.count))) others", detail: text(sum), note: "", value: sum)
        self.items = Array(drawn) + (rest.isEmpty ? [] : [others])
    }

    /// A `figure` element with one picture for wide and one for narrow windows. Empty if there is nothing to draw.
    package func figure(caption: String) -> String {
        if items.isEmpty { return "" }
        // A picture of fewer than six rectangles has less height.
        let size = Double(min(items.count, 6)) / 6
        let wide = svg(width: 1140, height: 320 * size, "tm wide", caption)
        return "<figure class=\"pic\">\(wide)\(svg(width: 370, height: 460 * size, "tm narrow", caption))</figure>\n"
    }

    // `width` is the usual width of the windows that show this picture. Other windows stretch the picture, but not its
    // text.
    private func svg(width: Double, height: Double, _ style: String, _ caption: String) -> String {
        let area = Rectangle(x: 0, y: 0, width: width, height: height)
        var text =
            "<svg class=\"\(style)\" width=\"100%\" height=\"\(points(height))\" role=\"img\" aria-label=\"\(htmlText(caption, cutAt: 600))\">"
        for (item, place) in zip(items, Self.layout(items.map { Double($0.value) }, in: area)) {
            text +=
                "<svg class=\"tb\(item.isMarked ? " grown" : "")\" x=\"\(points(place.x / width * 100))%\" y=\"\(points(place.y))\" "
            text += "width=\"\(points(place.width / width * 100))%\" height=\"\(points(place.height))\">"
            text += "<title>\(htmlText(item.name)) · \(htmlText(item.detail))\(htmlText(item.note))</title>"
            text += "<rect width=\"100%\" height=\"100%\"/>"
            let letters = Int((place.width - 8) / 6.7)
            if letters >= 4, place.height >= 18 {
                text += "<text x=\"5\" y=\"14\">\(htmlText(item.name, cutAt: max(letters - 1, 1)))</text>"
                // Omit the growth, which is in parentheses, if there is no room for it.
                let details = [item.detail, String(item.detail.prefix { $0 != "(" })]
                if place.height >= 34, let detail = details.first(where: { $0.count <= letters }) {
                    text += "<text class=\"in\" x=\"5\" y=\"29\">\(htmlText(detail))</text>"
                }
            }
            text += "</svg>"
        }
        return text + "</svg>"
    }
}
