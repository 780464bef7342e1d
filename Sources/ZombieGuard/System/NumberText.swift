// Formats numbers for people.

/// Formats a size of at least 1,024 bytes in binary units, rounded down: "1.5 KiB".
package func binarySizeText(_ bytes: UInt64) -> String {
    let units: [(String, UInt64)] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50), ("EiB", 60)]
    let (unit, shift) = units.last { bytes >> $0.1 > 0 } ?? units[0]
    let whole = bytes >> shift
    let tenths = bytes >> (shift - 4) & 15
    return tenths == 0 || whole >= 100 ? "\(whole) \(unit)" : "\(whole).\(tenths * 10 / 16) \(unit)"
}

/// Formats a count with a comma between thousands: "4,120".
package func groupedText(_ count: UInt64) -> String {
    let digits = Array(String(count))
    return String(digits.indices.flatMap { $0 > 0 && (digits.count - $0) % 3 == 0 ? [",", digits[$0]] : [digits[$0]] })
}
