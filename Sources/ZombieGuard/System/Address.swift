// An address in a guarded process.

/// An address in a guarded process: a number to compare and print, never to follow.
public struct Address: RawRepresentable, Hashable, Comparable, Sendable {
    public var rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }
    /// Makes an address of its number.
    ///
    /// - Parameter value: the number.
    public init(_ value: UInt64) { rawValue = value }

    /// Parses `0x1f`; nil for anything else.
    ///
    /// - Parameter text: `0x` and hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        guard text.hasPrefix("0x") || text.hasPrefix("0X"),
            let value = UInt64(digits: text.dropFirst(2), radix: 16)
        else { return nil }
        rawValue = value
    }

    public static func < (a: Address, b: Address) -> Bool { a.rawValue < b.rawValue }

    /// The distance from `start`; nil where the address lies before it.
    ///
    /// - Parameter start: another address.
    /// - Returns: bytes.
    public func distance(from start: Address) -> UInt64? {
        rawValue >= start.rawValue ? rawValue - start.rawValue : nil
    }
}

extension Address: CustomStringConvertible {
    public var description: String { "0x" + String(rawValue, radix: 16) }
}

extension Address: Codable {
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let address = Address(text) else {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "'\(text)' is not an address"))
        }
        self = address
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
