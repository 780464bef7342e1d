// Defines the style of text reports: colors, width, form of paths, and level of detail.

/// The style of a text report: colors, width, form of paths, and level of detail.
public struct TextStyle: Hashable, Sendable {
    /// Whether to use the colors and weights of ANSI terminals.
    public var usesColor: Bool
    /// Whether to show everything: all frames, registers, and retains with their releases. Otherwise each run of
    /// runtime frames is folded into one line.
    public var isFull: Bool
    /// Paths of source files below this directory are shown relative to it; nil shows full paths.
    public var directory: String?
    /// Width of the terminal, to which source lines are cut; nil leaves the lines of excerpts uncut.
    public var columns: Int?

    /// Creates a style. Each parameter sets the property of the same name.
    public init(usesColor: Bool = false, isFull: Bool = false, directory: String? = nil, columns: Int? = nil) {
        self.usesColor = usesColor
        self.isFull = isFull
        self.directory = directory
        self.columns = columns
    }

    /// Parts of a report with distinct styles; the raw value is the parameter of the ANSI escape sequence.
    enum Role: String {
        case mark = "2"
        case kind = "1;31"
        case sentence = "1"
        case title = "0;1"
        /// The program's own functions.
        case function = "1;32"
        case place = "36"
        /// Secondary information: runtime frames, line numbers.
        case faint = "0;2"
        /// The marker of the position in a source excerpt.
        case pointer = "1;33"
    }

    /// Returns the text in the style of its role.
    func paint(_ text: String, _ role: Role) -> String {
        usesColor && !text.isEmpty ? "\u{1b}[\(role.rawValue)m\(text)\u{1b}[0m" : text
    }

    /// Returns a path for display, safe to print. A path below ``directory`` becomes relative.
    func path(_ file: String) -> String {
        guard let directory, file.hasPrefix(directory + "/") else { return visible(file) }
        return visible(String(file.dropFirst(directory.utf8.count + 1)))
    }
}
