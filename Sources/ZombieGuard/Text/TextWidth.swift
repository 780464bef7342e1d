// How wide texts are on a terminal, and parts of them that fit.

extension Unicode.Scalar {
    // Shown in two columns: the ranges of Unicode's EastAsianWidth.txt that are wide or fullwidth, with what lies between.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x4dbf, 0x4e00...0xa4cf, 0xa960...0xa97f, 0xac00...0xd7a3,
        0xf900...0xfaff, 0xfe30...0xfe6f, 0xff01...0xff60, 0xffe0...0xffe6, 0x1f300...0x1f64f, 0x1f900...0x1f9ff,
        0x20000...0x3fffd,
    ]

    /// Columns of a terminal: 0 where it joins the character in front of it.
    var columns: Int {
        if value < 0x300 { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        // The later jamos of a Korean syllable.
        if (0x1160...0x11ff).contains(value) { return 0 }
        return Self.wide.contains { $0.contains(value) } || properties.isEmojiPresentation ? 2 : 1
    }
}

extension Character {
    /// Columns of a terminal.
    var columns: Int { unicodeScalars.reduce(0) { max($0, $1.columns) } }
}

/// A part of a line that fits, and where in it the column is that it was to show.
public struct FittingText: Hashable, Sendable {
    /// The part, with "…" where something is missing.
    public var text: String
    /// In columns, counted from 1; nil where none was asked for.
    public var column: Int?

    static let cut = "…"

    init(whole text: String, column: Int?) {
        self.text = text
        self.column = column
    }

    /// The line itself where it has at most `width` columns, otherwise its beginning with "…" behind it; or, where `column` would
    /// not be in that, a part around it with "…" where something is missing. `column` counts from 1 and may stand right behind
    /// the line.
    ///
    /// - Parameters:
    ///   - line: a line without control characters.
    ///   - column: what is to be shown; nil: the beginning.
    ///   - width: columns that the part may have, at least 4.
    public init(_ line: String, column: Int? = nil, width: Int) {
        let width = max(4, width)
        let sizes = line.map(\.columns)
        let total = max(sizes.reduce(0, +), column ?? 0)
        guard total > width else {
            text = line
            self.column = column
            return
        }
        var first = 0 // the column, from 0, that the part begins at
        if let column, column > width - 2 {
            // Two thirds of the width lie before the column, as far as there is room behind it, and more where the line ends soon.
            first = max(1, min(column - 1 - min(width * 2 / 3, width - 4), total - width + 1))
        }
        let hasMore = total - first > width - (first > 0 ? 1 : 0)
        let last = first + width - (first > 0 ? 1 : 0) - (hasMore ? 1 : 0)
        var part = ""
        var at = 0
        var begun: Int?
        for (character, size) in zip(line, sizes) {
            if at >= first, at + size <= last {
                part.append(character)
                begun = begun ?? at
            }
            at += size
        }
        text = (first > 0 ? Self.cut : "") + part + (hasMore ? Self.cut : "")
        // A character of two columns that is cut in half is missing.
        self.column = column.map { $0 - (begun ?? first) + (first > 0 ? 1 : 0) }
    }
}
