// The type of an address in a guarded process.

/// An address in a guarded process, to compare and print. Never dereferenced in this process.
public struct Address: RawRepresentable, Hashable, Comparable, Sendable {
    public var rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }
    /// Creates an address from a number.
    ///
    /// - Parameter value: the number.
    public init(_ value: UInt64) { rawValue = value }

    /// Parses an address such as `0x1f`; nil for anything else.
    ///
    /// - Parameter text: `0x` followed by hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        guard text.hasPrefix("0x") || text.hasPrefix("0X"),
            let value = UInt64(digits: text.dropFirst(2), radix: 16)
        else { return nil }
        rawValue = value
    }

    public static func < (a: Address, b: Address) -> Bool { a.rawValue < b.rawValue }

    /// The distance from `start`; nil if the address is below it.
    ///
    /// - Parameter start: another address.
    /// - Returns: the distance in bytes.
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
