// The notes and segments of a core file: which files were mapped where, and where the threads' stacks were.

/// What the notes of a core file say. Notes that make no sense are passed over.
struct CoreNotes {
    /// A program header of a core file.
    struct Segment {
        var type: UInt32
        var flags: UInt32
        var offset: UInt64
        var address: UInt64
        /// Behind the last address; never before `address`.
        var end: UInt64
        /// Bytes that the core file holds, from `address` on.
        var fileSize: UInt64

        init(_ bytes: [UInt8], at place: Int) {
            type = bytes.number(at: place)
            flags = bytes.number(at: place + 4)
            offset = bytes.number(at: place + 8)
            address = bytes.number(at: place + 16)
            fileSize = bytes.number(at: place + 32)
            let (end, isOver) = address.addingReportingOverflow(bytes.number(at: place + 40))
            self.end = isOver ? .max : end
        }
    }

    /// Mapped files, in the order of their addresses.
    private(set) var files: [Mapping] = []
    /// Stack pointers of the threads.
    private(set) var stackPointers: [UInt64] = []

    private enum NoteType { static let threadStatus: UInt32 = 1, files: UInt32 = 0x4649_4c45 }

    mutating func read(_ notes: [UInt8]) {
        for note in ELFNotes(notes) where note.name.elementsEqual("CORE\0".utf8) {
            let contents = Array(note.contents)
            if note.type == NoteType.files { readFiles(contents) }
            if note.type == NoteType.threadStatus, contents.count >= Processor.stackPointerPlace + 8 {
                stackPointers.append(contents.number(at: Processor.stackPointerPlace))
            }
        }
    }

    // Count and page size; start, end and offset in pages of each; then the paths, each with a NUL.
    private mutating func readFiles(_ note: [UInt8]) {
        guard note.count >= 16 else { return }
        let pageSize: UInt64 = note.number(at: 8)
        guard let count = Int(exactly: note.number(at: 0) as UInt64), count <= (note.count - 16) / 24 else { return }
        let paths = note[(16 + 24 * count)...].split(separator: 0, maxSplits: count, omittingEmptySubsequences: false)
        for (index, path) in paths.prefix(count).enumerated() {
            let at = 16 + 24 * index
            let start: UInt64 = note.number(at: at)
            let end: UInt64 = note.number(at: at + 8)
            let pages: UInt64 = note.number(at: at + 16)
            guard start < end else { continue }
            files.append(
                Mapping(
                    start: start, end: end, permissions: "", fileOffset: pages &* pageSize, inode: 0,
                    path: String(decoding: path, as: UTF8.self)))
        }
        files.sort { $0.start < $1.start }
    }

    /// What debuggers do not say of mappings that they leave out.
    static let unknownPermissions = "r-?-"

    /// The mappings that the segments were, with the files that lay behind them; and mapped files that no segment is for, as
    /// debuggers leave them out. In the order of their addresses.
    func mappings(of segments: [Segment]) -> [Mapping] {
        let known = described(segments)
        let leftOut = files.filter { file in
            let behind = known.partitionPoint { $0.start >= file.end }
            return behind == 0 || known[behind - 1].end <= file.start
        }
        let more = leftOut.map { file in
            var mapping = file
            mapping.permissions = Self.unknownPermissions
            return mapping
        }
        return (known + more).sorted { $0.start < $1.start }
    }

    private func described(_ segments: [Segment]) -> [Mapping] {
        segments.map { segment in
            let behind = files.partitionPoint { $0.start > segment.address }
            let file = behind > 0 && files[behind - 1].end > segment.address ? files[behind - 1] : nil
            let isStack = stackPointers.contains { $0 >= segment.address && $0 < segment.end }
            let permissions =
                (segment.flags & 4 != 0 ? "r" : "-") + (segment.flags & 2 != 0 ? "w" : "-")
                + (segment.flags & 1 != 0 ? "x" : "-") + "-"
            return Mapping(
                start: segment.address, end: segment.end, permissions: permissions,
                fileOffset: file.map { $0.fileOffset &+ (segment.address - $0.start) } ?? 0, inode: 0,
                path: file?.path ?? (isStack ? Mapping.stackPath : ""))
        }
    }
}
