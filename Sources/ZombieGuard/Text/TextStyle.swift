// How text reports look: colours, and how much of a stack they show.

/// The looks of a text report. What it says does not depend on them, but for frames that are folded.
public struct TextStyle: Hashable, Sendable {
    /// Whether to use the colours and weights of ANSI terminals.
    public var usesColor: Bool
    /// Whether every frame is shown; otherwise runs of runtime frames are one line each.
    public var isFull: Bool
    /// The directory that paths of source files are shown from, where they lie below it; nil: paths are shown whole.
    public var directory: String?
    /// Columns of the terminal, which lines of source are cut to; nil: lines are as long as excerpts have them.
    public var columns: Int?

    /// Makes a style. Each parameter is the property of its name.
    public init(usesColor: Bool = false, isFull: Bool = false, directory: String? = nil, columns: Int? = nil) {
        self.usesColor = usesColor
        self.isFull = isFull
        self.directory = directory
        self.columns = columns
    }

    /// Parts of a report that look different from each other.
    enum Role: String {
        case mark = "2"
        case kind = "1;31"
        case sentence = "1"
        case title = "0;1"
        /// The program's own functions, and where they are.
        case function = "1;32"
        case place = "36"
        /// What is there for completeness: frames of the runtime, numbers of lines.
        case faint = "0;2"
        /// The place in an excerpt of the source.
        case pointer = "1;33"
    }

    /// The text, in the colour of its role.
    func paint(_ text: String, _ role: Role) -> String {
        usesColor && !text.isEmpty ? "\u{1b}[\(role.rawValue)m\(text)\u{1b}[0m" : text
    }

    /// A path as it is shown: from ``directory`` on, safe to print.
    func path(_ file: String) -> String {
        guard let directory, file.hasPrefix(directory + "/") else { return visible(file) }
        return visible(String(file.dropFirst(directory.utf8.count + 1)))
    }
}
