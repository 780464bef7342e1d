// Escapes text for HTML, and formats numbers and sizes.

/// Escapes untrusted text for use between tags and in quoted attributes. Text of more than `limit` Unicode scalars is
/// truncated; names of C++ functions can be enormous.
package func htmlText(_ text: String, cutAt limit: Int = 300) -> String {
    var shown = visible(text)
    if shown.utf8.count > limit, shown.unicodeScalars.count > limit {
        shown = String(shown.unicodeScalars.prefix(limit)) + "…"
    }
    if !shown.utf8.contains(where: { "&<>\"'".utf8.contains($0) }) { return shown }
    var escaped = ""
    for character in shown.unicodeScalars {
        if let entity = markupEntity(character) {
            escaped += entity
        } else {
            escaped.unicodeScalars.append(character)
        }
    }
    return escaped
}

/// A sentence without the addresses of blocks, for a group of equal findings: "a freed block of 48 bytes at 0x7f10 was
/// read" becomes "a freed block of 48 bytes was read".
package func withoutAddresses(_ sentence: String) -> String {
    var text = ""
    var rest = sentence[...]
    while let range = rest.firstRange(of: " at 0x") {
        let digits = rest[range.upperBound...].prefix { $0.isHexDigit }
        text += digits.isEmpty ? rest[..<range.upperBound] : rest[..<range.lowerBound]
        rest = rest[digits.endIndex...]
    }
    return text + rest
}

/// Formats an SVG length with at most one decimal. Returns "0" for values that are not finite or too large.
package func points(_ value: Double) -> String {
    guard abs(value) < 1e9 else { return "0" }
    let tenths = Int((value * 10).rounded())
    return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10)"
}

/// Formats a size: "48 bytes", "12.5 KiB". Sizes below 4 KiB, and sizes below 10,000 bytes that are not a multiple of 1
/// KiB, are exact.
func sizeText(_ bytes: UInt64) -> String {
    if bytes < 10_000, bytes < 4096 || bytes % 1024 != 0 { return "\(bytes) byte\(bytes == 1 ? "" : "s")" }
    return binarySizeText(bytes)
}
