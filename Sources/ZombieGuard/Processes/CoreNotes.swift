// Parses the notes and program headers of a core file: mapped files, registers of the threads, the fatal signal.

import CUnwind

/// Decoded notes of a core file. Malformed notes are skipped.
package struct CoreNotes {
    /// A program header of a core file.
    struct Segment {
        var type: UInt32
        var flags: UInt32
        var offset: UInt64
        var address: UInt64
        /// End address, exclusive; at least `address`.
        var end: UInt64
        /// Bytes from `address` on that the core file contains.
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

    /// Mapped files, sorted by address.
    private(set) var files: [Mapping] = []
    /// Stack pointers of the threads.
    private(set) var stackPointers: [UInt64] = []
    /// Threads in the order of their notes: the thread that received the fatal signal first.
    private(set) var threads: [Thread] = []
    /// The fatal signal; nil without a siginfo note.
    private(set) var signal: Signal?
    /// Entry point of the executable (AT_ENTRY); 0 without an auxiliary vector.
    private(set) var entry: UInt64 = 0
    /// Process ID; 0 without an NT_PRPSINFO note.
    private(set) var processID = 0
    /// Whether gdb wrote the file. If gdb cannot read a page, it writes zeros for the part of memory that contains the
    /// page.
    private(set) var isOfDebugger = false
    /// User ID of the process; nil without an NT_PRPSINFO note.
    private(set) var user: UInt32?

    /// A thread: its ID and its registers by DWARF number.
    package struct Thread {
        package var id: Int
        package var registers: [UInt64]
    }

    /// A signal as in the kernel's siginfo_t.
    struct Signal {
        var number: Int32
        var code: Int32
        /// Fault address; meaningful for faults only.
        var address: UInt64
        /// Process ID of the sender; 0 if the kernel raised the signal.
        var sender: Int
    }

    private enum NoteType {
        static let threadStatus: UInt32 = 1, processInfo: UInt32 = 3, auxiliary: UInt32 = 6,
            signal: UInt32 = 0x5349_4749
        static let files: UInt32 = 0x4649_4c45
    }
    // Byte offsets in `struct elf_prstatus` and `struct elf_prpsinfo` of 64-bit processors.
    private enum Place { static let threadID = 32, registers = 112, processID = 24, user = 16 }

    mutating func read(_ notes: [UInt8]) {
        for note in ELFNotes(notes) {
            if note.name.elementsEqual("GDB\0".utf8) { isOfDebugger = true }
            guard note.name.elementsEqual("CORE\0".utf8) else { continue }
            let contents = Array(note.contents)
            if note.type == NoteType.files { readFiles(contents) }
            if note.type == NoteType.threadStatus, contents.count >= Processor.stackPointerPlace + 8 {
                stackPointers.append(contents.number(at: Processor.stackPointerPlace))
                readThread(contents)
            }
            if note.type == NoteType.signal, signal == nil, contents.count >= 24 {
                let code: Int32 = contents.number(at: 8)
                signal = Signal(
                    number: contents.number(at: 0), code: code, address: contents.number(at: 16),
                    sender: code > 0 ? 0 : Int(contents.number(at: 16) as Int32))
            }
            if note.type == NoteType.processInfo, contents.count >= Place.processID + 4 {
                processID = Int(contents.number(at: Place.processID) as Int32)
                user = contents.number(at: Place.user)
            }
            if note.type == NoteType.auxiliary { readAuxiliary(contents) }
        }
    }

    private mutating func readThread(_ status: [UInt8]) {
        var registers = [UInt64](repeating: 0, count: Int(ZG_THREAD_REGISTERS))
        let isKnown = status[Place.registers...].withUnsafeBytes {
            zg_thread_registers_of($0.baseAddress, $0.count, &registers)
        }
        if isKnown { threads.append(Thread(id: Int(status.number(at: Place.threadID) as Int32), registers: registers)) }
    }

    // The auxiliary vector consists of pairs of words: type, value.
    private mutating func readAuxiliary(_ words: [UInt8]) {
        let entryType: UInt64 = 9 // AT_ENTRY
        for at in stride(from: 0, through: words.count - 16, by: 16) where words.number(at: at) as UInt64 == entryType {
            entry = words.number(at: at + 8)
        }
    }

    // NT_FILE: count and page size; start, end and offset (in pages) of each mapping; then the paths, NUL-terminated.
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

    /// Replaces the path of the executable (the file mapped at the entry point) by `path`, where it is now.
    mutating func replaceProgram(by path: String) {
        guard let old = program else { return }
        for index in files.indices where files[index].path == old { files[index].path = path }
    }

    /// Path of the program's executable: the file mapped at the entry point.
    var program: String? { files.first { $0.start <= entry && entry < $0.end }?.path }

    /// Permissions of mappings that a debugger omitted from the core file. The notes do not contain the real
    /// permissions.
    static let unknownPermissions = "r-?-"

    /// The mappings, sorted by address: the segments with the files that were mapped there, and mapped files without a
    /// segment, whose contents debuggers omit.
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
