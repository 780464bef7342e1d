// Makes untrusted text safe to print.

/// Escapes everything that a terminal could interpret: control characters, line separators, and characters that change
/// the direction of writing. Names and paths in reports come from untrusted programs and files.
///
/// - Parameter text: any text.
/// - Returns: one line, safe to print.
public func visible(_ text: String) -> String {
    func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
    if text.isPrintableASCII || text.unicodeScalars.allSatisfy(isPlain) { return text }
    var escaped = ""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\n": escaped += "\\n"
        case "\t": escaped += "\\t"
        case _ where isPlain(scalar): escaped.unicodeScalars.append(scalar)
        default: escaped += "\\u{" + String(scalar.value, radix: 16) + "}"
        }
    }
    return escaped
}

extension String {
    /// Whether all characters are printable ASCII. A fast path, because most texts are.
    package var isPrintableASCII: Bool { hasOnly { $0 &- 0x20 < 0x5f } }

    /// Whether `isAllowed` is true for all bytes. Does not stop early, so that the loop can be vectorized.
    @inlinable @inline(__always)
    package func hasOnly(_ isAllowed: (UInt8) -> Bool) -> Bool {
        func isThroughout(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
            var others: UInt8 = 0
            for byte in bytes { others |= isAllowed(byte) ? 0 : 1 }
            return others == 0
        }
        return utf8.withContiguousStorageIfAvailable(isThroughout) ?? utf8.allSatisfy(isAllowed)
    }
}
