// Writes to standard output and standard error without buffering, so that zguard's lines precede later output of the
// program.

import Glibc
import Synchronization
import ZombieGuard

/// The two standard streams. A write to a closed or broken stream has no effect; ``failure`` has the first error of
/// standard output.
enum Output {
    private static let outFailure = Mutex<SystemError?>(nil)

    /// The first error of writing to standard output, such as a full disk.
    static var failure: SystemError? { outFailure.withLock { $0 } }

    static func out(_ text: String) {
        if let error = write(text, to: STDOUT_FILENO) { outFailure.withLock { $0 = $0 ?? error } }
    }

    static func error(_ text: String) { _ = write(text, to: STDERR_FILENO) }

    static func print(_ failure: Failure) {
        error("zguard: error: \(failure.message)\n" + (failure.hint.map { "hint: \($0)\n" } ?? ""))
    }

    static func warn(_ message: String, hint: String? = nil) {
        error("zguard: warning: \(message)\n" + (hint.map { "hint: \($0)\n" } ?? ""))
    }

    private static func write(_ text: String, to descriptor: Int32) -> SystemError? {
        var text = text
        return text.withUTF8 { bytes in
            var written = 0
            while written < bytes.count {
                let result = Glibc.write(descriptor, bytes.baseAddress! + written, bytes.count - written)
                if result >= 0 {
                    written += result
                } else if errno == EAGAIN {
                    var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&ready, 1, 1000)
                } else if errno != EINTR {
                    return .last
                }
            }
            return nil
        }
    }
}

/// Formats rows as columns, each as wide as its widest cell. Columns in `rightAligned`, such as numbers, are
/// right-aligned.
func table(_ rows: [[String]], rightAligned: Set<Int> = []) -> String {
    var widths: [Int] = []
    for row in rows {
        for (column, cell) in row.enumerated() {
            if column == widths.count { widths.append(0) }
            widths[column] = max(widths[column], cell.count)
        }
    }
    return rows.map { row in
        let cells = row.enumerated().map { column, cell in
            let padding = String(repeating: " ", count: widths[column] - cell.count)
            return rightAligned.contains(column) ? padding + cell : cell + padding
        }
        var line = cells.joined(separator: "  ")
        while line.last == " " { line.removeLast() }
        return line + "\n"
    }.joined()
}

/// A count with its noun, such as "1 finding" or "2 findings".
func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

/// A size with its binary unit, such as "8.0 MiB".
func byteText(_ bytes: UInt64) -> String {
    var value = Double(bytes)
    var unit = 0
    let units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024, unit + 1 < units.count {
        value /= 1024
        unit += 1
    }
    if unit == 0 { return "\(bytes) B" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(units[unit])"
}

/// A change of a count, such as "+5,000".
func signedText(_ number: Int) -> String { (number < 0 ? "-" : "+") + groupedText(UInt64(number.magnitude)) }

/// A change of a size, such as "+8.0 MiB".
func signedByteText(_ number: Int64) -> String { (number < 0 ? "-" : "+") + byteText(number.magnitude) }
