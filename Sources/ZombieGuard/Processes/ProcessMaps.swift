// Parses /proc/PID/maps.

/// One line of /proc/PID/maps.
package struct Mapping: Hashable {
    package var start: UInt64
    package var end: UInt64
    package var permissions: String
    package var fileOffset: UInt64
    package var inode: UInt64
    /// Device of the file system, encoded as in `stat`; 0 if unknown.
    package var device: UInt64 = 0
    /// Path, or a name in brackets; empty for anonymous memory.
    package var path: String

    /// The kernel's names of the main thread's stack and of the brk heap, which libc's malloc uses.
    package static let stackPath = "[stack]"
    package static let programBreakPath = "[heap]"

    init(
        start: UInt64, end: UInt64, permissions: String, fileOffset: UInt64, inode: UInt64, path: String
    ) {
        self.start = start
        self.end = end
        self.permissions = permissions
        self.fileOffset = fileOffset
        self.inode = inode
        self.path = path
    }

    /// Parses one line; nil if malformed.
    init?(line: some StringProtocol) {
        var line = String(line)
        guard let mapping = line.withUTF8({ Mapping(bytes: $0[...]) }) else { return nil }
        self = mapping
    }

    // Parses bytes: parsing strings takes ten times as long, and guarded processes have thousands of mappings.
    private init?(bytes: Slice<UnsafeBufferPointer<UInt8>>) {
        var fields = MapsFields(rest: bytes)
        guard let start = fields.number(radix: 16, endsWith: "-"), let end = fields.number(radix: 16),
            let permissions = fields.text(), let offset = fields.number(radix: 16), let device = fields.text(),
            let inode = fields.number(radix: 10)
        else { return nil }
        self.init(
            start: start, end: end, permissions: String(decoding: permissions, as: UTF8.self), fileOffset: offset,
            inode: inode, path: String(decoding: fields.last, as: UTF8.self))
        self.device = Self.device(device)
    }

    // Parses "08:01" and encodes the numbers like gnu_dev_makedev.
    private static func device(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> UInt64 {
        var fields = MapsFields(rest: text)
        guard let major = fields.number(radix: 16, endsWith: ":"), let minor = fields.number(radix: 16) else {
            return 0
        }
        return (major & 0xfff) << 8 | (major & ~0xfff) << 32 | minor & 0xff | (minor & ~0xff) << 12
    }

    /// The path without the suffix that the kernel appends for deleted files.
    package var filePath: String {
        let deleted = " (deleted)"
        return path.hasSuffix(deleted) ? String(path.dropLast(deleted.count)) : path
    }

    /// Whether the mapping is executable, or its permissions are unknown.
    var mayBeCode: Bool { permissions.contains("x") || permissions == CoreNotes.unknownPermissions }

    static func parse(_ text: String) -> [Mapping] {
        var text = text
        return text.withUTF8 { parse($0) }
    }

    private static func parse(_ bytes: UnsafeBufferPointer<UInt8>) -> [Mapping] {
        bytes.split(separator: UInt8(ascii: "\n")).compactMap { Mapping(bytes: $0) }
    }

    /// The mappings of a process, sorted by address.
    package static func all(of process: Int) throws(SystemError) -> [Mapping] {
        try all(of: ProcessFolder(of: process))
    }

    static func all(of process: ProcessFolder) throws(SystemError) -> [Mapping] {
        try process.contents(of: "maps").withUnsafeBufferPointer { parse($0) }
    }
}

/// Fields of a line, with spaces between them.
private struct MapsFields {
    var rest: Slice<UnsafeBufferPointer<UInt8>>

    /// The next field.
    mutating func text() -> Slice<UnsafeBufferPointer<UInt8>>? {
        skipSpaces()
        let field = rest.prefix { $0 != UInt8(ascii: " ") }
        rest = rest[field.endIndex...]
        return field.isEmpty ? nil : field
    }

    /// The path, which may contain spaces.
    var last: Slice<UnsafeBufferPointer<UInt8>> { rest.drop { $0 == UInt8(ascii: " ") } }

    /// The next field, of digits only; nil if it is no number, or does not fit. `end`: the byte behind the digits.
    mutating func number(radix: UInt64, endsWith end: Unicode.Scalar = " ") -> UInt64? {
        skipSpaces()
        var number: UInt64 = 0
        var index = rest.startIndex
        while index < rest.endIndex, rest[index] != UInt8(ascii: end) {
            let digit =
                switch rest[index] {
                case 0x30...0x39: UInt64(rest[index] - 0x30)
                case 0x61...0x66: UInt64(rest[index] - 0x61 + 10)
                case 0x41...0x46: UInt64(rest[index] - 0x41 + 10)
                default: UInt64.max
                }
            let (product, overflows) = number.multipliedReportingOverflow(by: radix)
            guard digit < radix, !overflows, case (let sum, let carries) = product.addingReportingOverflow(digit),
                !carries
            else { return nil }
            number = sum
            index += 1
        }
        guard index > rest.startIndex, index < rest.endIndex || end == " " else { return nil }
        rest = rest[min(index + 1, rest.endIndex)...]
        return number
    }

    private mutating func skipSpaces() { rest = rest.drop { $0 == UInt8(ascii: " ") } }
}
