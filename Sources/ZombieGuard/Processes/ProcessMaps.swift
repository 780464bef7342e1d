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
        // The path may contain spaces: split off the first five fields only.
        let fields = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
        guard fields.count >= 5 else { return nil }
        let range = fields[0].split(separator: "-")
        guard range.count == 2, let start = UInt64(digits: range[0], radix: 16),
            let end = UInt64(digits: range[1], radix: 16),
            let offset = UInt64(digits: fields[2], radix: 16), let inode = UInt64(digits: fields[4])
        else { return nil }
        self.start = start
        self.end = end
        permissions = String(fields[1])
        fileOffset = offset
        self.inode = inode
        device = Self.device(fields[3])
        path = fields.count > 5 ? String(fields[5].drop { $0 == " " }) : ""
    }

    // Parses "08:01" and encodes the numbers like gnu_dev_makedev.
    private static func device(_ text: some StringProtocol) -> UInt64 {
        let numbers = text.split(separator: ":").map { UInt64(digits: $0, radix: 16) }
        guard numbers.count == 2, let major = numbers[0], let minor = numbers[1] else { return 0 }
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
        text.split(separator: "\n").compactMap { Mapping(line: $0) }
    }

    /// The mappings of a process, sorted by address.
    package static func all(of process: Int) throws(SystemError) -> [Mapping] {
        try all(of: ProcessFolder(of: process))
    }

    static func all(of process: ProcessFolder) throws(SystemError) -> [Mapping] {
        parse(String(decoding: try process.contents(of: "maps"), as: UTF8.self))
    }
}
