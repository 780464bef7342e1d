// A hash for identities that are stored in files, so it never changes.

/// 64-bit FNV-1a: simple enough to stay unchanged forever.
struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        for byte in text.utf8 { add(byte: byte) }
        add(byte: 0) // distinguishes "ab" + "c" from "a" + "bc"
    }

    /// Adds the eight bytes of a number, least significant first.
    mutating func add(_ number: UInt64) {
        for shift in stride(from: 0 as UInt64, to: 64, by: 8) { add(byte: UInt8(truncatingIfNeeded: number >> shift)) }
    }

    private mutating func add(byte: UInt8) {
        value ^= UInt64(byte)
        value = value &* 0x100_0000_01b3
    }

    var digits: String { Finding.Stacks.digits(ofIdentity: value) }
}
