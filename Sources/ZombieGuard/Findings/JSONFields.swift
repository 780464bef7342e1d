// Describes how a type is read from and written as a JSON object: one table of fields serves both directions.

/// A type that is a JSON value.
package protocol JSONValue: Sendable {
    static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Self
    var json: JSONText { get }
}

/// A type that is a JSON object. ``fields`` reads and writes the object's keys.
package protocol JSONObject: JSONValue {
    /// The value of an object whose keys are all missing.
    static var blank: Self { get }
    static var fields: JSONFields<Self> { get }
}

extension JSONObject {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Self {
        var value = blank
        try scanner.object(fields, into: &value)
        return value
    }

    /// The value as JSON; the keys are in the order of the documentation.
    package var json: JSONText { Self.fields.json(self) }
}

/// One key of an object.
package struct JSONField<Root>: Sendable {
    package typealias Read = @Sendable (inout JSONScanner, inout Root) throws(JSONScanner.Problem) -> Void
    package typealias Write = @Sendable (Root) -> JSONText?

    package let key: StaticString
    /// Whether an object without the key is an error.
    package var isNeeded = false
    package let read: Read
    /// Returns the value to write; nil leaves the key out. `write` itself is nil if only the runtime writes the key.
    package let write: Write?

    package init(_ key: StaticString, isNeeded: Bool = false, read: @escaping Read, write: Write?) {
        (self.key, self.isNeeded, self.read, self.write) = (key, isNeeded, read, write)
    }
}

package typealias JSONPath<Root, Value> = WritableKeyPath<Root, Value> & Sendable

extension JSONField {
    /// A key that every object has.
    package static func needed<Value: JSONValue>(_ key: StaticString, _ path: JSONPath<Root, Value>) -> Self {
        Self(
            key, isNeeded: true,
            read: { (scanner, root) throws(JSONScanner.Problem) in root[keyPath: path] = try Value.read(&scanner) },
            write: { $0[keyPath: path].json })
    }

    /// A key that is always written; if it is missing or null, the value remains that of a blank object.
    package static func value<Value: JSONValue>(_ key: StaticString, _ path: JSONPath<Root, Value>) -> Self {
        Self(
            key,
            read: { (scanner, root) throws(JSONScanner.Problem) in
                if !scanner.isNull() { root[keyPath: path] = try Value.read(&scanner) }
            }, write: { $0[keyPath: path].json })
    }

    /// A key that is left out if the value is nil. `isRaw`: only the runtime writes the key.
    package static func optional<Value: JSONValue>(
        _ key: StaticString, _ path: JSONPath<Root, Value?>, isRaw: Bool = false
    ) -> Self {
        let write: Write = { $0[keyPath: path]?.json }
        return Self(
            key,
            read: { (scanner, root) throws(JSONScanner.Problem) in
                root[keyPath: path] = scanner.isNull() ? nil : try Value.read(&scanner)
            }, write: isRaw ? nil : write)
    }

    /// A text. The key is left out if the text is nil; an empty text is read as nil.
    package static func name(_ key: StaticString, _ path: JSONPath<Root, String?>) -> Self {
        Self(
            key,
            read: { (scanner, root) throws(JSONScanner.Problem) in
                let text = scanner.isNull() ? "" : try scanner.text()
                root[keyPath: path] = text.isEmpty ? nil : text
            }, write: { $0[keyPath: path]?.json })
    }

    /// A list or dictionary. The key is left out if the value is empty. `isRaw`: only the runtime writes the key.
    package static func list<Value: JSONValue & Collection>(
        _ key: StaticString, _ path: JSONPath<Root, Value>, isRaw: Bool = false
    ) -> Self {
        let write: Write = { $0[keyPath: path].isEmpty ? nil : $0[keyPath: path].json }
        return Self(key, read: value(key, path).read, write: isRaw ? nil : write)
    }
}

extension JSONField {
    /// This field as a field of an outer value. `path` leads to the inner value, which this field reads and writes.
    package func within<Outer>(_ path: JSONPath<Outer, Root>) -> JSONField<Outer> {
        let inner = self
        let write: JSONField<Outer>.Write = { inner.write?($0[keyPath: path]) }
        return JSONField<Outer>(
            key, isNeeded: isNeeded,
            read: { (scanner, outer) throws(JSONScanner.Problem) in
                try inner.read(&scanner, &outer[keyPath: path])
            }, write: inner.write == nil ? nil : write)
    }
}

/// The fields of an object, at most 64, in the order of the documentation.
package struct JSONFields<Root>: Sendable {
    package let all: [JSONField<Root>]
    private let needed: UInt64

    package init(_ all: [JSONField<Root>]) {
        precondition(all.count <= UInt64.bitWidth, "more fields than bits")
        self.all = all
        needed = all.indices.reduce(0) { $0 | (all[$1].isNeeded ? 1 << UInt64($1) : 0) }
    }

    /// Index of a key; nil if there is no such field. Writers write keys in the order of the table, so the search
    /// begins at `start`, the field after the last one that was found.
    package func index(of key: Slice<UnsafeBufferPointer<UInt8>>, from start: Int) -> Int? {
        for index in start..<all.count where all[index].key == key { return index }
        for index in 0..<min(start, all.count) where all[index].key == key { return index }
        return nil
    }

    /// Throws if a needed key is missing.
    ///
    /// - Parameter seen: bit N is set if field N was read.
    package func check(_ seen: UInt64) throws(JSONScanner.Problem) {
        let missing = needed & ~seen
        if missing == 0 { return }
        throw JSONScanner.Problem(reason: .missing, path: [all[missing.trailingZeroBitCount].key.description])
    }

    package func json(_ root: Root) -> JSONText {
        .object(all.compactMap { field in field.write.map { (field.key.description, $0(root)) } })
    }
}

private func == (key: StaticString, bytes: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
    guard key.utf8CodeUnitCount == bytes.count else { return false }
    for index in 0..<bytes.count where key.utf8Start[index] != bytes[bytes.startIndex + index] { return false }
    return true
}

// MARK: Plain values

extension String: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> String { try scanner.text() }
    package var json: JSONText { .string(self) }
}

extension Bool: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Bool { try scanner.flag() }
    package var json: JSONText { .bool(self) }
}

extension Int: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Int {
        try scanner.integer(Int.self)
    }
    package var json: JSONText { .integer(Int64(self)) }
}

extension Int64: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Int64 {
        try scanner.integer(Int64.self)
    }
    package var json: JSONText { .integer(self) }
}

extension UInt64: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> UInt64 {
        try scanner.integer(UInt64.self)
    }
    package var json: JSONText { .natural(self) }
}

extension Address: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Address {
        guard let address = Address(try scanner.text()) else { throw JSONScanner.Problem(reason: .wrongType) }
        return address
    }
    package var json: JSONText { .string(description) }
}

extension Array: JSONValue where Element: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> [Element] {
        try scanner.array(Element.read)
    }
    package var json: JSONText { .array(map(\.json)) }
}

extension Dictionary: JSONValue where Key == String, Value: JSONValue {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> [String: Value] {
        try scanner.dictionary(Value.read)
    }
    package var json: JSONText { .object(sorted { $0.key < $1.key }.map { ($0.key, $0.value.json) }) }
}

/// Reads any word, because later versions may know more words.
extension JSONValue where Self: RawRepresentable, RawValue == String {
    package static func read(_ scanner: inout JSONScanner) throws(JSONScanner.Problem) -> Self {
        guard let word = Self(rawValue: try scanner.text()) else { throw JSONScanner.Problem(reason: .wrongType) }
        return word
    }
    package var json: JSONText { .string(rawValue) }
}
