// Reads numbers from text that others wrote: digits, and nothing but digits. Swift's own initializers also take a plus sign, a minus sign in
// front of 0, and of fractions exponents, hexadecimal digits, "inf" and "nan".

extension FixedWidthInteger {
    /// The number that a text of digits is; nil where the text is empty, has anything but digits or does not fit.
    ///
    /// - Parameters:
    ///   - text: digits alone.
    ///   - radix: 10 or 16; digits beyond 9 are letters of either case.
    package init?(digits text: some StringProtocol, radix: Int = 10) {
        guard !text.isEmpty, text.utf8.allSatisfy({ isDigit($0, radix: radix) }) else { return nil }
        self.init(text, radix: radix)
    }
}

extension FixedWidthInteger where Self: SignedInteger {
    /// The number that digits are, with or without a minus sign in front of them; nil for anything else, for "-0", and where it does not fit.
    ///
    /// - Parameter text: such as "-12".
    package init?(signedDigits text: some StringProtocol) {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0)
        guard !digits.isEmpty, digits.allSatisfy({ isDigit($0, radix: 10) }) else { return nil }
        self.init(text, radix: 10)
        if isNegative, self == 0 { return nil }
    }
}

extension Double {
    /// The number that digits are, with or without a point and more digits behind it, such as "2.5"; nil for anything else.
    ///
    /// - Parameter text: such as "2.5".
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
