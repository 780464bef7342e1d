// Queries the size of a terminal.

import Glibc

/// Rows and columns of a terminal.
struct TerminalSize: Hashable {
    var columns: Int
    var rows: Int

    init(columns: Int, rows: Int) {
        self.columns = columns
        self.rows = rows
    }

    /// The current size of the terminal; nil if the descriptor is not a terminal or the size is unknown.
    init?(of descriptor: Int32) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
        self.init(columns: Int(size.ws_col), rows: Int(size.ws_row))
    }

    /// The width given by the variable COLUMNS, for output that is not a terminal; nil if unset or invalid.
    static var askedColumns: Int? {
        Preload.environment("COLUMNS").flatMap { Int(digits: $0) }.flatMap { (1...10_000).contains($0) ? $0 : nil }
    }
}
