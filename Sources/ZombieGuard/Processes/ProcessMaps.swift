// The mappings of a process, as /proc/PID/maps lists them.

/// One line of /proc/PID/maps.
struct Mapping: Hashable {
    var start: UInt64
    var end: UInt64
    var permissions: String
    var fileOffset: UInt64
    var inode: UInt64
    /// Of the file system that the file is on, as `stat` has it; 0: not known.
    var device: UInt64 = 0
    /// Path or name in brackets; empty for anonymous memory.
    var path: String

    /// What the kernel calls the main thread's stack, and the heap that libc's malloc serves from.
    static let stackPath = "[stack]"
    static let programBreakPath = "[heap]"

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

    /// Parses one line; nil where it is none.
    init?(line: some StringProtocol) {
        // The path may hold blanks: only the first five fields are split off.
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

    // "08:01", as gnu_dev_makedev makes a number of it.
    private static func device(_ text: some StringProtocol) -> UInt64 {
        let numbers = text.split(separator: ":").map { UInt64(digits: $0, radix: 16) }
        guard numbers.count == 2, let major = numbers[0], let minor = numbers[1] else { return 0 }
        return (major & 0xfff) << 8 | (major & ~0xfff) << 32 | minor & 0xff | (minor & ~0xff) << 12
    }

    /// The path without what the kernel appends where the file is gone.
    var filePath: String {
        let deleted = " (deleted)"
        return path.hasSuffix(deleted) ? String(path.dropLast(deleted.count)) : path
    }

    /// It can be executed, as far as is known.
    var mayBeCode: Bool { permissions.contains("x") || permissions == CoreNotes.unknownPermissions }

    static func parse(_ text: String) -> [Mapping] {
        text.split(separator: "\n").compactMap { Mapping(line: $0) }
    }

    /// The mappings of a process, in the order of their addresses.
    static func all(of process: Int) throws(SystemError) -> [Mapping] { try all(of: ProcessFolder(of: process)) }

    static func all(of process: ProcessFolder) throws(SystemError) -> [Mapping] {
        parse(String(decoding: try process.contents(of: "maps"), as: UTF8.self))
    }
}
