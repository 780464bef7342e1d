// How large a terminal is.

import Glibc

/// Rows and columns of a terminal.
struct TerminalSize: Hashable {
    var columns: Int
    var rows: Int

    init(columns: Int, rows: Int) {
        self.columns = columns
        self.rows = rows
    }

    /// What the terminal says now; nil where the descriptor leads to none, or to one that does not know.
    init?(of descriptor: Int32) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
        self.init(columns: Int(size.ws_col), rows: Int(size.ws_row))
    }

    /// What the variable COLUMNS asks for where there is no terminal; nil where it does not say.
    static var askedColumns: Int? {
        Preload.environment("COLUMNS").flatMap { Int(digits: $0) }.flatMap { (1...10_000).contains($0) ? $0 : nil }
    }
}
