// Computes an upper bound of the length of a demangled name, before a demangler is called. C++ and Swift names contain
// back references, which demanglers expand each time: a symbol of 200 bytes can expand to gigabytes.

/// Computes the bound without a full parser: each back reference is assumed to denote the longest part completed so
/// far, and each letter with several meanings to expand to its longest text.
struct DemangledSize {
    /// Maximum length of the text that a demangler writes for one letter that is not a back reference.
    private static let word = 64
    private static let mostTimes = 4096

    private let name: [UInt8]
    private var at: Int
    private var total: Int
    /// Length of the longest part that a back reference can denote.
    private var longest: Int

    /// - Parameters:
    ///   - name: a mangled symbol.
    /// - Returns: the bound in bytes; `Int.max` on overflow.
    static func bound(_ name: String) -> Int {
        var size = DemangledSize(name)
        return name.hasPrefix("_Z") ? size.cxx() : size.swift()
    }

    private init(_ name: String) {
        self.name = Array(name.utf8)
        at = 2
        total = self.name.count
        longest = Self.word
    }

    private var next: UInt8 { at < name.count ? name[at] : 0 }
    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
    private static func isUpper(_ byte: UInt8) -> Bool { (0x41...0x5a).contains(byte) }
    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7a).contains(byte | 0x20) }

    private mutating func add(_ size: Int, times: Int = 1) {
        let (product, overflow) = size.multipliedReportingOverflow(by: times)
        total = total.addingSaturated(overflow ? .max : product)
    }

    private mutating func number() -> Int {
        var value = 0
        while Self.isDigit(next) {
            value = min(value * 10 + Int(next - 0x30), Self.mostTimes)
            at += 1
        }
        return value
    }

    // MARK: C++

    // Identifiers are read like operators: that can only increase the bound. Source: the Itanium C++ ABI.
    private mutating func cxx() -> Int {
        var times = 1
        var hasMemberPointer = false
        while at < name.count {
            let byte = name[at]
            let second = at + 1 < name.count ? name[at + 1] : 0
            let isReference = byte == UInt8(ascii: "S") || byte == UInt8(ascii: "T")
            if isReference, second == UInt8(ascii: "_") || Self.isDigit(second) || Self.isUpper(second) {
                add(longest, times: times)
                at += 2
                if hasMemberPointer { longest = max(longest, total) }
            } else if isPack(byte, second) {
                at += 2
                while "ORPKV".utf8.contains(next) { at += 1 }
                if next == UInt8(ascii: "T") {
                    // A whole pack is no longer than its arguments together.
                    add(longest.addingSaturated(name.count), times: times)
                    at += 1
                } else {
                    times = min(times * name.count, 1 << 40)
                }
            } else {
                add(Self.word, times: times)
                at += 1
                if byte == UInt8(ascii: "M") { hasMemberPointer = true }
                if byte == UInt8(ascii: "E") { longest = max(longest, total) }
            }
        }
        return total
    }

    private func isPack(_ first: UInt8, _ second: UInt8) -> Bool {
        first == UInt8(ascii: "D") && second == UInt8(ascii: "p")
            || first == UInt8(ascii: "s") && second == UInt8(ascii: "p")
    }

    // MARK: Swift

    // Source: Mangling.rst of the Swift compiler. Identifiers are skipped while it is certain where they end. That is
    // uncertain after a thunk, whose arguments are letters and digits, and after an "A" that may be part of another
    // operator.
    private mutating func swift() -> Int {
        let longestWord = name.split(whereSeparator: Self.isDigit).map(\.count).max() ?? 0
        var isCertain = true
        var previous: UInt8 = 0
        while at < name.count {
            let byte = name[at]
            at += 1
            switch byte {
            case UInt8(ascii: "A"):
                if "MWfvXwKQRIYLTBuo".utf8.contains(previous) { isCertain = false }
                references()
            case UInt8(ascii: "S"):
                add(Self.word, times: max(1, number()))
                at += 1
            case UInt8(ascii: "1")...UInt8(ascii: "9") where isCertain, UInt8(ascii: "0") where isCertain:
                identifier(byte, longestWord)
            case 0x30...0x39: add(longestWord, times: 4)
            default:
                add(Self.word)
                if byte == UInt8(ascii: "T") { isCertain = false }
                if Self.isLetter(byte) { longest = max(longest, total) }
            }
            previous = byte
        }
        return total
    }

    // Consumes back references behind "A", such as "AbC": each may have a repeat count, and a capital letter is the
    // last one.
    private mutating func references() {
        while at < name.count {
            let times = number()
            guard Self.isLetter(next) || next == UInt8(ascii: "_") else { return }
            let letter = next
            at += 1
            add(longest, times: max(1, times))
            if !(0x61...0x7a).contains(letter) { return }
        }
    }

    // Consumes an identifier, such as "5Hello". After "0", letters refer to words of earlier identifiers; "00"
    // introduces Punycode.
    private mutating func identifier(_ first: UInt8, _ longestWord: Int) {
        var hasWords = first == UInt8(ascii: "0")
        if !hasWords {
            at -= 1
        } else if next == UInt8(ascii: "0") {
            hasWords = false
            at += 1
        }
        repeat {
            while hasWords, Self.isLetter(next) {
                if Self.isUpper(next) { hasWords = false }
                at += 1
                add(longestWord)
            }
            if next == UInt8(ascii: "0") {
                at += 1
                return
            }
            let count = number()
            // The number does not belong to an identifier.
            if count == 0 || next == UInt8(ascii: "_") { return }
            at += count
        } while hasWords
    }
}
