// Numbers in untrusted text: every reader accepts digits and nothing else.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import ZombieGuardFleet

@Suite struct DigitsTests {
    /// Some function of Swift or C accepts each of these as a number.
    static let noNumbers = [
        "", "+5", "-5", "-0", " 5", "5 ", "\t5", "5\n", "0x5", "5.", ".5", "5e1", "1_000", "٥", "５", "5\0", "inf",
        "nan", "99999999999999999999",
    ]

    @Test(arguments: noNumbers) func isNoNumber(text: String) {
        #expect(UInt64(digits: text) == nil)
        #expect(Int(digits: text) == nil)
        if text != "-5" { #expect(Int64(signedDigits: text) == nil) }
        if text.utf8.count < 20 { #expect(Double(digits: text) == nil) }
    }

    @Test func numbersAreRead() {
        #expect(UInt64(digits: "0") == 0)
        #expect(UInt64(digits: "18446744073709551615") == .max)
        #expect(UInt64(digits: "18446744073709551616") == nil)
        #expect(UInt8(digits: "256") == nil)
        #expect(Int64(signedDigits: "-9223372036854775808") == .min)
        #expect(Int64(signedDigits: "-9223372036854775809") == nil)
        #expect(Int64(signedDigits: "--5") == nil)
        #expect(Int64(signedDigits: "-+5") == nil)
        #expect(Double(digits: "2.5") == 2.5)
        #expect(Double(digits: "2.5.1") == nil)
        #expect(Double(digits: "2.+1") == nil)
        #expect(UInt64(digits: "007f", radix: 16) == 0x7f)
    }

    @Test(arguments: ["+f", "-0", "f+", " f", "0x", "g0"]) func isNoByte(text: String) {
        #expect(UInt8(digits: text, radix: 16) == nil)
    }

    @Test(arguments: ["0x", "0x+1f", "0x-0", "0x 1", "0x1 ", "+0x1", "1f", "0x10000000000000000"]) func isNoAddress(
        text: String
    ) {
        #expect(Address(text) == nil)
    }

    @Test(arguments: ["\\u{+41}", "\\u{-0}", "\\u{ 41}", "\\u{}", "\\u{110000}"]) func isNoCharacter(pattern: String) {
        #expect(throws: Glob.Malformed.self) { try Glob(pattern[...]) }
    }

    @Test(arguments: ["+10%", "1e1%", "0x10%", "inf%", "nan%", "-0%"]) func isNoShare(text: String) {
        #expect(throws: ValueError.self) { try Sampling(text) }
    }

    @Test func numbersOfDatabasesAreRead() {
        let rows: [(String, Int64)] = [
            ("12", 12), ("-12", -12), ("99999999999999999999", .max), ("-99999999999999999999", .min), ("", 0),
            ("+12", 0), ("12x", 0),
            ("-0", 0), ("x", 0),
        ]
        for (text, number) in rows { #expect(SQLValue.text(text).integer == number) }
    }
}
