// Reads JSON in a single pass, straight into values: several times faster than `JSONDecoder`.

/// A scanner over one line of JSON (RFC 8259).
package struct JSONScanner {
    /// Why a value could not be read, and where.
    package struct Problem: Error {
        package enum Reason {
            /// The text is not JSON.
            case malformed
            /// The object has another schema.
            case otherSchema
            case wrongType
            case outOfRange
            case missing
        }

        package let reason: Reason
        /// Keys and indices ("[0]") that lead to the value, the innermost first.
        package var path: [String]

        package init(reason: Reason, path: [String] = []) { (self.reason, self.path) = (reason, path) }

        package func within(_ part: String) -> Problem { Problem(reason: reason, path: path + [part]) }
    }

    /// Maximum nesting depth of objects and arrays; `JSONDecoder` has the same limit.
    private static let deepest = 512

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Reads a text that is one value and nothing else.
    package static func read<Value>(
        _ text: inout String, _ value: (inout JSONScanner) throws(Problem) -> Value
    ) throws(Problem) -> Value {
        let result = text.withUTF8 { bytes -> Result<Value, Problem> in
            var scanner = JSONScanner(bytes)
            do throws(Problem) {
                scanner.skipBlanks()
                let value = try value(&scanner)
                scanner.skipBlanks()
                return scanner.position == bytes.count ? .success(value) : .failure(Problem(reason: .malformed))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    // MARK: Objects and arrays

    /// Reads an object. Keys that are not among the fields are skipped.
    package mutating func object<Root>(_ fields: JSONFields<Root>, into root: inout Root) throws(Problem) {
        guard take("{") else { throw Problem(reason: .wrongType) }
        var seen: UInt64 = 0
        var expected = 0
        if take("}") { return try fields.check(seen) }
        repeat {
            let key = try key()
            if let index = fields.index(of: key, from: expected) {
                let field = fields.all[index]
                do throws(Problem) {
                    try field.read(&self, &root)
                } catch {
                    throw error.within(field.key.description)
                }
                seen |= 1 << UInt64(index)
                expected = index + 1
            } else {
                try skipValue()
            }
        } while take(",")
        guard take("}") else { throw Problem(reason: .malformed) }
        try fields.check(seen)
    }

    /// Reads an object whose keys are arbitrary.
    package mutating func dictionary<Value>(
        _ value: (inout JSONScanner) throws(Problem) -> Value?
    ) throws(Problem) -> [String: Value] {
        var result: [String: Value] = [:]
        guard take("{") else { throw Problem(reason: .wrongType) }
        if take("}") { return result }
        repeat {
            skipBlanks()
            let key = try text()
            guard take(":") else { throw Problem(reason: .malformed) }
            skipBlanks()
            do throws(Problem) {
                result[key] = try value(&self)
            } catch {
                throw error.within(key)
            }
        } while take(",")
        guard take("}") else { throw Problem(reason: .malformed) }
        return result
    }

    /// Reads an array.
    package mutating func array<Value>(_ value: (inout JSONScanner) throws(Problem) -> Value) throws(Problem) -> [Value]
    {
        var result: [Value] = []
        guard take("[") else { throw Problem(reason: .wrongType) }
        if take("]") { return result }
        repeat {
            skipBlanks()
            do throws(Problem) {
                result.append(try value(&self))
            } catch {
                throw error.within("[\(result.count)]")
            }
        } while take(",")
        guard take("]") else { throw Problem(reason: .malformed) }
        return result
    }

    /// Reads a key and its colon. A key with escapes is no field's key: the result is empty.
    private mutating func key() throws(Problem) -> Slice<UnsafeBufferPointer<UInt8>> {
        skipBlanks()
        let start = position
        guard byte == UInt8(ascii: "\"") else { throw Problem(reason: .malformed) }
        position += 1
        while let next = byte, next != UInt8(ascii: "\""), next != UInt8(ascii: "\\"), next >= 0x20 { position += 1 }
        var key = bytes[start + 1..<position]
        if byte == UInt8(ascii: "\"") {
            position += 1
        } else {
            position = start
            _ = try text()
            key = bytes[start..<start]
        }
        guard take(":") else { throw Problem(reason: .malformed) }
        skipBlanks()
        return key
    }

    /// Skips any value.
    package mutating func skipValue(depth: Int = 0) throws(Problem) {
        guard depth < Self.deepest else { throw Problem(reason: .malformed) }
        switch byte {
        case UInt8(ascii: "{"):
            position += 1
            if take("}") { return }
            repeat {
                _ = try key()
                try skipValue(depth: depth + 1)
            } while take(",")
            guard take("}") else { throw Problem(reason: .malformed) }
        case UInt8(ascii: "["):
            position += 1
            if take("]") { return }
            repeat {
                skipBlanks()
                try skipValue(depth: depth + 1)
            } while take(",")
            guard take("]") else { throw Problem(reason: .malformed) }
        case UInt8(ascii: "\""): _ = try text()
        case UInt8(ascii: "t"), UInt8(ascii: "f"): _ = try flag()
        case UInt8(ascii: "n"): if !isNull() { throw Problem(reason: .malformed) }
        default: _ = try number()
        }
    }

    // MARK: Texts

    /// Reads a string.
    package mutating func text() throws(Problem) -> String {
        guard byte == UInt8(ascii: "\"") else { throw Problem(reason: .wrongType) }
        position += 1
        let start = position
        while let next = byte, next != UInt8(ascii: "\""), next != UInt8(ascii: "\\"), next >= 0x20 { position += 1 }
        if byte == UInt8(ascii: "\"") {
            position += 1
            return String(decoding: UnsafeBufferPointer(rebasing: bytes[start..<(position - 1)]), as: UTF8.self)
        }
        return try textWithEscapes(from: start)
    }

    private mutating func textWithEscapes(from start: Int) throws(Problem) -> String {
        var result = Array(bytes[start..<position])
        while let next = byte, next >= 0x20 {
            position += 1
            if next == UInt8(ascii: "\"") { return String(decoding: result, as: UTF8.self) }
            if next == UInt8(ascii: "\\") { try escaped(to: &result) } else { result.append(next) }
        }
        throw Problem(reason: .malformed)
    }

    private mutating func escaped(to result: inout [UInt8]) throws(Problem) {
        let escaped = byte
        position += 1
        switch escaped {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): result.append(escaped!)
        case UInt8(ascii: "b"): result.append(0x08)
        case UInt8(ascii: "f"): result.append(0x0c)
        case UInt8(ascii: "n"): result.append(0x0a)
        case UInt8(ascii: "r"): result.append(0x0d)
        case UInt8(ascii: "t"): result.append(0x09)
        case UInt8(ascii: "u"):
            var unit = try utf16Unit()
            if 0xd800..<0xdc00 ~= unit, skip("\\u") {
                let low = try utf16Unit()
                guard 0xdc00..<0xe000 ~= low else { throw Problem(reason: .malformed) }
                unit = 0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00)
            }
            // A lone surrogate is no scalar.
            guard let scalar = Unicode.Scalar(unit) else { throw Problem(reason: .malformed) }
            result += String(scalar).utf8
        default: throw Problem(reason: .malformed)
        }
    }

    private mutating func utf16Unit() throws(Problem) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let next = byte, let digit = Character(Unicode.Scalar(next)).hexDigitValue else {
                throw Problem(reason: .malformed)
            }
            position += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    // MARK: Numbers and words

    /// Reads a number that the type can hold.
    package mutating func integer<Value: FixedWidthInteger>(_: Value.Type) throws(Problem) -> Value {
        let isNegative = byte == UInt8(ascii: "-")
        let start = position + (isNegative ? 1 : 0)
        let digits = try number()
        if digits.isWhole {
            // Up to 18 digits always fit in 64 bits.
            if digits.bytes.count <= 18 {
                var value: Int64 = 0
                for digit in bytes[start..<position] { value = value * 10 + Int64(digit - 0x30) }
                if let exact = Value(exactly: isNegative ? -value : value) { return exact }
            } else if let value = Value(String(decoding: digits.bytes, as: UTF8.self)) {
                return value
            }
        } else if let value = Double(String(decoding: digits.bytes, as: UTF8.self)),
            let exact = Value(exactly: value)
        {
            return exact
        }
        throw Problem(reason: .outOfRange)
    }

    /// Skips a number; returns its text, and whether it has neither fraction nor exponent.
    private mutating func number() throws(Problem) -> (bytes: Slice<UnsafeBufferPointer<UInt8>>, isWhole: Bool) {
        let start = position
        if byte == UInt8(ascii: "-") { position += 1 }
        let first = position
        let count = skipDigits()
        if count == 0 {
            position = start
            throw Problem(reason: .wrongType)
        }
        if count > 1 && bytes[first] == 0x30 { throw Problem(reason: .malformed) }
        var isWhole = true
        if byte == UInt8(ascii: ".") {
            position += 1
            isWhole = false
            if skipDigits() == 0 { throw Problem(reason: .malformed) }
        }
        if byte == UInt8(ascii: "e") || byte == UInt8(ascii: "E") {
            position += 1
            isWhole = false
            if byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-") { position += 1 }
            if skipDigits() == 0 { throw Problem(reason: .malformed) }
        }
        return (bytes[start..<position], isWhole)
    }

    private mutating func skipDigits() -> Int {
        let start = position
        while let next = byte, 0x30...0x39 ~= next { position += 1 }
        return position - start
    }

    package mutating func flag() throws(Problem) -> Bool {
        if skip("true") { return true }
        if skip("false") { return false }
        throw Problem(reason: .wrongType)
    }

    /// Skips `null`; returns whether it was next.
    package mutating func isNull() -> Bool { skip("null") }

    /// Reads a string, number or boolean as text; skips any other value and returns nil.
    package mutating func anyText() throws(Problem) -> String? {
        switch byte {
        case UInt8(ascii: "\""): return try text()
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return String(try flag())
        case UInt8(ascii: "-"), .some(0x30...0x39):
            let digits = try number()
            let text = String(decoding: digits.bytes, as: UTF8.self)
            return digits.isWhole ? text : Double(text).map { String($0) }
        default:
            try skipValue()
            return nil
        }
    }

    private var byte: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipBlanks() {
        while let next = byte, next == 0x20 || next == 0x09 || next == 0x0d || next == 0x0a { position += 1 }
    }

    /// Skips whitespace and consumes the character if it is next.
    private mutating func take(_ sign: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard byte == UInt8(ascii: sign) else { return false }
        position += 1
        return true
    }

    private mutating func skip(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard position + count <= bytes.count else { return false }
        for index in 0..<count where bytes[position + index] != word.utf8Start[index] { return false }
        position += count
        return true
    }
}
