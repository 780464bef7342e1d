// Computes the width of text on a terminal, and cuts text to a width.

extension Unicode.Scalar {
    // Characters two columns wide: the wide and fullwidth ranges of Unicode's EastAsianWidth.txt, merged across gaps.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115f, 0x2e80...0x303e, 0x3041...0x4dbf, 0x4e00...0xa4cf, 0xa960...0xa97f, 0xac00...0xd7a3,
        0xf900...0xfaff, 0xfe30...0xfe6f, 0xff01...0xff60, 0xffe0...0xffe6, 0x1f300...0x1f64f, 0x1f900...0x1f9ff,
        0x20000...0x3fffd,
    ]

    /// Width in terminal columns: 0 for a character that combines with the preceding one.
    var columns: Int {
        if value < 0x300 { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        // Medial and final jamo of a Korean syllable combine with the initial one.
        if (0x1160...0x11ff).contains(value) { return 0 }
        return Self.wide.contains { $0.contains(value) } || properties.isEmojiPresentation ? 2 : 1
    }
}

extension Character {
    /// Width in terminal columns.
    var columns: Int { unicodeScalars.reduce(0) { max($0, $1.columns) } }
}

/// A part of a line that fits a width, and the position of the requested column in it.
public struct FittingText: Hashable, Sendable {
    /// The part; "…" marks missing text.
    public var text: String
    /// Terminal column of the requested column in ``text``, counted from 1; nil if none was requested.
    public var column: Int?

    static let cut = "…"

    init(whole text: String, column: Int?) {
        self.text = text
        self.column = column
    }

    /// Keeps a line of at most `width` columns unchanged. Otherwise takes the beginning of the line or, if the
    /// beginning does not contain `column`, a part around `column`; "…" marks missing text. `column` counts from 1 and
    /// may be right behind the line.
    ///
    /// - Parameters:
    ///   - line: a line without control characters.
    ///   - column: the column to show; nil for the beginning.
    ///   - width: maximum width of the part, at least 4.
    public init(_ line: String, column: Int? = nil, width: Int) {
        let width = max(4, width)
        let sizes = line.map(\.columns)
        let total = max(sizes.reduce(0, +), column ?? 0)
        guard total > width else {
            text = line
            self.column = column
            return
        }
        var first = 0 // first column of the part, counted from 0
        if let column, column > width - 2 {
            // Put two thirds of the width in front of the column, or more if the line ends shortly behind the column.
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
        // The part begins at column `begun`, which is behind `first` if a two-column character there would be cut in
        // half.
        self.column = column.map { $0 - (begun ?? first) + (first > 0 ? 1 : 0) }
    }
}
