// Reads the memory of a dead process from its ELF core file, and from the mapped files for pages that the core file
// omits.

import CZombie
import Glibc

/// An open ELF core file, written by the kernel or a debugger.
public final class CoreFile: MemoryReader {
    private let path: String
    private let file: Descriptor
    private let segments: [CoreNotes.Segment] // sorted by address
    private let files: MappedFiles
    /// Whether the file is truncated.
    package let isCutOff: Bool
    let mappings: [Mapping]
    /// Threads in the order of their notes: the thread that received the fatal signal first.
    package let threads: [CoreNotes.Thread]
    /// The fatal signal; nil if the file has no siginfo note.
    let signal: CoreNotes.Signal?
    /// Path of the program's executable; nil if the notes do not name it.
    let program: String?
    let processID: Int
    /// Whether a debugger wrote the file: see ``CoreNotes/isOfDebugger``.
    package let isOfDebugger: Bool
    /// Author of the file: its owner, or the process's user if this user or root owns the file. Files that the core
    /// file names are opened with no more rights than the author has.
    package let author: Author

    private static let headerSize = 64
    private static let elfMagic: [UInt8] = [0x7f, 0x45, 0x4c, 0x46]
    private static let programHeaderSize = 56
    private static let mostSegments = 1 << 20
    private static let mostNotes: UInt64 = 64 << 20
    private static let coreFile: UInt16 = 4

    /// Opens a core file and reads its headers and notes.
    ///
    /// - Parameters:
    ///   - path: path of a core file, possibly compressed.
    ///   - program: current path of the program's executable; nil if it has not moved.
    /// - Throws: ``CoreError`` if the file is unreadable, damaged, or not a core file.
    public init(opening path: String, program: String? = nil) throws(CoreError) {
        self.path = path
        let status: stat
        let stored: Descriptor
        do throws(SystemError) {
            stored = try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK)
            guard let known = stored.status else { throw SystemError.last }
            if known.st_mode & S_IFMT == S_IFDIR { throw SystemError(number: EISDIR) }
            status = known
        } catch {
            throw .unreadable(path, error)
        }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notCore(path, "a special file") }
        file = try Self.unpacked(stored, path)
        let headers = try Self.programHeaders(of: file, path)
        let size = UInt64(file.status?.st_size ?? 0)
        isCutOff = headers.contains { $0.fileSize > 0 && ($0.offset >= size || $0.fileSize > size - $0.offset) }
        var notes = CoreNotes()
        for header in headers where header.type == ELFImage.SegmentType.note {
            guard header.fileSize <= Self.mostNotes else { throw .damaged(path, "its notes are too long") }
            notes.read((try? file.read(at: header.offset, upTo: Int(header.fileSize))) ?? [])
        }
        if let program { notes.replaceProgram(by: program) }
        threads = notes.threads
        isOfDebugger = notes.isOfDebugger
        signal = notes.signal
        self.program = notes.program
        processID = notes.processID != 0 ? notes.processID : notes.threads.first?.id ?? 0
        segments = headers.filter { $0.type == ELFImage.SegmentType.load && $0.end > $0.address }
            .sorted { $0.address < $1.address }
        mappings = notes.mappings(of: segments)
        // With a pipe in core_pattern, root may own the core file of any user's process: use only the rights of that
        // process's user.
        author = Author(of: stored).limited(by: notes.user.map { Author(user: $0) } ?? .own)
        files = MappedFiles(mappings: notes.files, coreTime: status.st_mtim, author: author, program: program)
    }

    /// Whether a file is an ELF file by its magic number, after decompression if it is compressed.
    package static func mayBeCore(_ file: Descriptor) -> Bool {
        guard let start = try? file.read(at: 0, upTo: headerSize) else { return false }
        return (CompressionFormat(start: start)?.start(of: file, count: elfMagic.count) ?? start).starts(with: elfMagic)
    }

    private static func unpacked(_ file: Descriptor, _ path: String) throws(CoreError) -> Descriptor {
        guard let start = try? file.read(at: 0, upTo: headerSize), let packing = CompressionFormat(start: start) else {
            return file
        }
        do throws(SystemError) { return try packing.unpacked(file) } catch {
            throw error.number == ENOSYS
                ? .packed(path, by: "\(packing)", packing.library) : .notUnpacked(path, error)
        }
    }

    private static func programHeaders(of file: Descriptor, _ path: String) throws(CoreError) -> [CoreNotes.Segment] {
        func read(_ offset: UInt64, _ count: Int) throws(CoreError) -> [UInt8] {
            do throws(SystemError) { return try file.read(at: offset, upTo: count) } catch {
                throw .unreadable(path, error)
            }
        }
        let header = try read(0, headerSize)
        guard header.starts(with: elfMagic) else {
            let isMinidump = header.starts(with: "MDMP".utf8)
            throw .notCore(path, header.isEmpty ? "empty" : isMinidump ? "a minidump" : nil)
        }
        guard header.count == headerSize else { throw .damaged(path, "its header is cut off") }
        guard header[4] == 2, header[5] == 1, header.number(at: 18) as UInt16 == Processor.elfMachine else {
            throw .otherMachine(path)
        }
        guard header.number(at: 16) as UInt16 == coreFile else {
            throw .notCore(path, "an executable or a library")
        }
        let table: UInt64 = header.number(at: 32)
        let entrySize: UInt16 = header.number(at: 54)
        var count = Int(header.number(at: 56) as UInt16)
        if count == 0xffff {
            // PN_XNUM: with 0xffff segments or more, sh_info of section header 0 holds the count.
            let section = try read(header.number(at: 40), headerSize)
            guard section.count == headerSize else { throw .damaged(path, "its table of segments is cut off") }
            count = Int(section.number(at: 44) as UInt32)
        }
        guard Int(entrySize) == programHeaderSize, count <= mostSegments else {
            throw .damaged(path, "its program header table is malformed")
        }
        let bytes = try read(table, count * programHeaderSize)
        guard bytes.count == count * programHeaderSize else { throw .damaged(path, "its table of segments is cut off") }
        return (0..<count).map { CoreNotes.Segment(bytes, at: $0 * programHeaderSize) }
    }

    // MARK: Memory

    package func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        // The range may span adjacent segments: each read ends at the end of its segment.
        while bytes.count < count {
            let at = address &+ UInt64(bytes.count)
            let part = readPart(at: at, upTo: count - bytes.count)
            if part.isEmpty { break }
            bytes += part
        }
        return bytes
    }

    /// The parts of the range that the core file contains. All other pages are unmodified, or were never touched.
    package func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? {
        let end = start.addingReportingOverflow(UInt64(count)).overflow ? .max : start + UInt64(count)
        return segments.compactMap { segment in
            let low = max(segment.address, start)
            let high = min(segment.address.addingReportingOverflow(segment.fileSize).partialValue, segment.end, end)
            return low < high ? low..<high : nil
        }
    }

    private func readPart(at address: UInt64, upTo count: Int) -> [UInt8] {
        let behind = segments.partitionPoint { $0.address > address }
        guard behind > 0 else { return files.read(at: address, upTo: count, self) }
        let segment = segments[behind - 1]
        let inside = address - segment.address
        guard address < segment.end, inside < segment.fileSize else {
            // The core file omits this page: read the file mapped there, up to the next segment.
            let next = behind < segments.count ? segments[behind].address - address : UInt64.max
            return files.read(at: address, upTo: Int(min(UInt64(count), next)), self)
        }
        let wanted = Int(min(UInt64(count), segment.fileSize - inside))
        return (try? file.read(at: segment.offset &+ inside, upTo: wanted)) ?? []
    }

    /// Reasons why mapped files could not replace pages that the core file omits.
    var notes: [String] { files.notes }

    // MARK: The statistics page

    private static let mostSearched: UInt64 = 64 << 20

    /// Statistics of the page that names the core file's process, else of the first page. The child of a fork has its
    /// parent's page, too.
    func statistics() throws(CoreError) -> Statistics {
        var version: UInt32?
        var first: Statistics?
        for address in pageCandidates() {
            guard let page = record(zg_stats_page.self, at: address), page.magic == zg_stats_page.expectedMagic else {
                continue
            }
            guard page.version == ZG_STATS_VERSION, Int(page.bytes) == MemoryLayout<zg_stats_page>.size else {
                version = page.version
                continue
            }
            let statistics = Statistics(page: page, processID: Int(page.pid))
            guard statistics.heapLayout.isKnown else { continue }
            if statistics.processID == processID { return statistics }
            first = first ?? statistics
        }
        if let first { return first }
        if let version { throw .otherVersion(path, version) }
        let isNamed = mappings.contains { $0.path.hasPrefix(StatisticsPageFile.name) }
        if isNamed, !isCutOff { throw .withoutPage(path) }
        throw .notGuarded(path, isCutOff: isCutOff)
    }

    // Find the page by the name of its mapping. If the core file has no names, search the starts of pages for the magic
    // number.
    private func pageCandidates() -> [UInt64] {
        let named = mappings.filter { $0.path.hasPrefix(StatisticsPageFile.name) }.map(\.start)
        if !named.isEmpty { return named }
        let step: UInt64 = 1 << 20
        let pageSize = 4096
        var found: [UInt64] = []
        for segment in segments where segment.fileSize <= Self.mostSearched {
            for offset in stride(from: 0, to: segment.fileSize, by: Int(step)) {
                let part =
                    (try? file.read(at: segment.offset &+ offset, upTo: Int(min(step, segment.fileSize - offset))))
                guard let part, part.count >= pageSize else { break }
                for place in stride(from: 0, through: part.count - pageSize, by: pageSize)
                where part.number(at: place) as UInt64 == zg_stats_page.expectedMagic {
                    found.append(segment.address &+ offset &+ UInt64(place))
                }
            }
        }
        return found
    }
}

extension zg_stats_page {
    /// ZG_STATS_MAGIC: Swift does not import the macro.
    static let expectedMagic: UInt64 = 0x3144_5241_5547_475a
}

extension RandomAccessCollection where Index == Int {
    /// Binary search: index of the first element for which the predicate is true; `endIndex` if there is none. The
    /// collection must be partitioned by the predicate.
    package func partitionPoint(_ isInSecond: (Element) -> Bool) -> Int {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = (low + high) / 2
            if isInSecond(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
