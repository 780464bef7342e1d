// Parses numbers from untrusted text: digits only. Swift's own initializers also accept a plus sign, and a minus sign
// in front of 0. Those of Double also accept exponents, hexadecimal digits, "inf" and "nan".

extension FixedWidthInteger {
    /// Parses digits; nil if the text is empty, has other characters, or the number does not fit.
    ///
    /// - Parameters:
    ///   - text: digits only.
    ///   - radix: 10 or 16; the digits above 9 are letters of either case.
    package init?(digits text: some StringProtocol, radix: Int = 10) {
        guard !text.isEmpty, text.utf8.allSatisfy({ isDigit($0, radix: radix) }) else { return nil }
        self.init(text, radix: radix)
    }
}

extension FixedWidthInteger where Self: SignedInteger {
    /// Parses digits with an optional minus sign; nil for anything else, for "-0", and if the number does not fit.
    ///
    /// - Parameter text: a text such as "-12".
    package init?(signedDigits text: some StringProtocol) {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0)
        guard !digits.isEmpty, digits.allSatisfy({ isDigit($0, radix: 10) }) else { return nil }
        self.init(text, radix: 10)
        if isNegative, self == 0 { return nil }
    }
}

extension Double {
    /// Parses digits, optionally followed by a point and more digits; nil for anything else.
    ///
    /// - Parameter text: a text such as "2.5".
    package init?(digits text: some StringProtocol) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { isDigit($0, radix: 10) } }) else { return nil }
        self.init(String(text))
    }
}

private func isDigit(_ byte: UInt8, radix: Int) -> Bool {
    switch byte {
    case 0x30...0x39: true
    case 0x41...0x46, 0x61...0x66: radix == 16
    default: false
    }
}
