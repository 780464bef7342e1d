// Reads integers and strings from untrusted bytes, with bounds checks.

/// A read position in a section. Reading past the end returns zeros and sets `failed`; no byte outside the section is
/// read.
struct ByteCursor {
    let bytes: UnsafeRawBufferPointer
    /// Offset of the next read.
    private(set) var offset: Int
    /// Offset behind the last readable byte.
    let end: Int
    private(set) var failed: Bool

    /// Reads from `offset` up to `end`, or up to the end of `bytes` if that is nearer.
    init(_ bytes: UnsafeRawBufferPointer, at offset: UInt64 = 0, end: UInt64 = .max) {
        self.bytes = bytes
        self.end = Int(min(end, UInt64(bytes.count)))
        failed = offset > UInt64(self.end)
        self.offset = failed ? self.end : Int(offset)
    }

    var isAtEnd: Bool { offset >= end }
    var position: UInt64 { UInt64(offset) }

    @inline(__always)
    private mutating func fail() {
        offset = end
        failed = true
    }

    @inline(__always)
    mutating func number<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) -> Number {
        let size = MemoryLayout<Number>.size
        guard end &- offset >= size, let base = bytes.baseAddress else {
            fail()
            return 0
        }
        let value = base.loadUnaligned(fromByteOffset: offset, as: Number.self)
        offset &+= size
        return Number(littleEndian: value)
    }

    /// Reads an integer of 1, 2, 3, 4 or 8 bytes.
    mutating func number(bytes count: Int) -> UInt64 {
        switch count {
        case 1: return UInt64(number(UInt8.self))
        case 2: return UInt64(number(UInt16.self))
        case 3: return UInt64(number(UInt16.self)) | UInt64(number(UInt8.self)) << 16
        case 4: return UInt64(number(UInt32.self))
        case 8: return number(UInt64.self)
        default:
            fail()
            return 0
        }
    }

    /// Reads an unsigned LEB128 integer.
    @inline(__always)
    mutating func variableNumber() -> UInt64 {
        guard offset < end, let base = bytes.baseAddress else {
            fail()
            return 0
        }
        let first = base.load(fromByteOffset: offset, as: UInt8.self)
        offset &+= 1
        return first < 0x80 ? UInt64(first) : longNumber(UInt64(first & 0x7f))
    }

    private mutating func longNumber(_ low: UInt64) -> UInt64 {
        var value = low
        var shift: UInt64 = 7
        while true {
            let byte: UInt8 = number()
            if shift < 64 { value |= UInt64(byte & 0x7f) << shift }
            if byte < 0x80 { return value }
            shift &+= 7
        }
    }

    /// Reads a signed LEB128 integer.
    @inline(__always)
    mutating func signedNumber() -> Int64 {
        if offset < end, let base = bytes.baseAddress {
            let byte = base.load(fromByteOffset: offset, as: Int8.self)
            if byte >= 0 {
                offset &+= 1
                return Int64((byte << 1) >> 1) // bit 6 is the sign
            }
        }
        return longSignedNumber()
    }

    private mutating func longSignedNumber() -> Int64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let byte: UInt8 = number()
            if shift < 64 { value |= UInt64(byte & 0x7f) << shift }
            shift &+= 7
            if byte < 0x80 {
                if byte & 0x40 != 0, shift < 64 { value |= ~0 << shift }
                return Int64(bitPattern: value)
            }
        }
    }

    @inline(__always)
    mutating func skip(_ count: UInt64) {
        guard count <= UInt64(end &- offset) else { return fail() }
        offset &+= Int(count)
    }

    mutating func skipText() {
        while offset < end {
            offset &+= 1
            if bytes[offset &- 1] == 0 { return }
        }
        fail()
    }

    /// Reads a NUL-terminated string.
    mutating func text() -> String {
        let start = offset
        skipText()
        return String(decoding: bytes[start..<(failed ? offset : offset - 1)], as: UTF8.self)
    }
}
