// Maps one ELF file and reads its sections, decompressed if needed, and its build-id.

import CDwarf
import Glibc

/// A 64-bit little-endian ELF file. The buffers it returns are valid as long as the object. Damaged files have fewer or
/// shorter sections; no byte outside the file is read.
final class ELFFile {
    enum Failure: Error, Hashable {
        case missing(SystemError)
        case unreadable
    }

    struct Section {
        var name: String
        var type: UInt32
        var flags: UInt64
        var address: UInt64
        var size: UInt64
        var link: Int
        /// Offset in the file.
        var offset: UInt64

        /// Whether the section has bytes in the file that are part of the loaded image.
        var isLoaded: Bool { type != SHT_NOBITS && flags & UInt64(SHF_ALLOC) != 0 }
    }

    /// Path of the file; the module's name if it has no file (vDSO).
    let path: String
    /// All sections except the null section at index 0: section number n of the file is at index n - 1.
    let sections: [Section]

    /// The whole file, not decompressed.
    private let rawFile: UnsafeRawBufferPointer
    private let isMapped: Bool
    private var contents: [Int: UnsafeRawBufferPointer] = [:]
    private var decompressed: [UnsafeMutableRawBufferPointer] = []
    private let budget: DecompressionBudget?

    private static let headerSize = 64
    // Limit for files of other users, which are copied into memory.
    private static let mostCopied = 128 << 20
    private static let mostSections = 1 << 20
    // Limits of decompression: the highest ratio of zlib, and the largest section. Zstandard can exceed that ratio, but
    // does not on the output of compilers.
    private static let mostCompression: UInt64 = 1040
    private static let mostDecompressed: UInt64 = 4 << 30

    /// Opens a regular file. Anything else is `unreadable`: a report may name a FIFO, on which reading would block.
    ///
    /// - Parameters:
    ///   - path: path of the file.
    ///   - author: author of the report that names the file. The file is opened with the author's rights.
    convenience init(path: String, author: Author = .own) throws(Failure) {
        let descriptor: Descriptor
        do throws(SystemError) {
            descriptor = try author.openModule(path)
        } catch { throw .missing(error) }
        try self.init(file: descriptor, path: path)
    }

    /// Reads an open file; anything but a regular file is `unreadable`. Sections that exceed `budget` are empty.
    init(file descriptor: Descriptor, path: String, budget: DecompressionBudget? = nil) throws(Failure) {
        guard let status = descriptor.status, status.st_mode & S_IFMT == S_IFREG, status.st_size >= Self.headerSize,
            let size = Int(exactly: status.st_size)
        else { throw .unreadable }
        // Copy files of other users: their owner can truncate them at any time, and access to a truncated mapping
        // raises SIGBUS.
        isMapped = status.st_uid == 0 || status.st_uid == geteuid()
        guard let file = isMapped ? Self.map(descriptor, size) : Self.copy(descriptor, size) else { throw .unreadable }
        guard let sections = Self.sections(of: file) else {
            Self.release(file, isMapped: isMapped)
            throw .unreadable
        }
        (self.path, self.sections, rawFile, self.budget) = (path, sections, file, budget)
        if isMapped { adviseRandom() }
    }

    private static func map(_ file: Descriptor, _ size: Int) -> UnsafeRawBufferPointer? {
        guard let start = mmap(nil, size, PROT_READ, MAP_PRIVATE, file.number, 0), start != MAP_FAILED else {
            return nil
        }
        return UnsafeRawBufferPointer(start: start, count: size)
    }

    // nil if the file is too large, or shorter than `size`.
    private static func copy(_ file: Descriptor, _ size: Int) -> UnsafeRawBufferPointer? {
        guard size <= mostCopied else { return nil }
        let image = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        var filled = 0
        while filled < size {
            let result = pread(file.number, image.baseAddress! + filled, size - filled, off_t(filled))
            if result < 0, errno == EINTR { continue }
            if result <= 0 {
                image.deallocate()
                return nil
            }
            filled += result
        }
        return UnsafeRawBufferPointer(image)
    }

    private static func release(_ file: UnsafeRawBufferPointer, isMapped: Bool) {
        if isMapped {
            munmap(UnsafeMutableRawPointer(mutating: file.baseAddress!), file.count)
        } else {
            file.deallocate()
        }
    }

    /// Reads an ELF file from memory; the bytes are copied.
    init(bytes: some Collection<UInt8>, path: String) throws(Failure) {
        let image = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 16)
        image.copyBytes(from: bytes)
        let file = UnsafeRawBufferPointer(rebasing: image[..<bytes.count])
        guard let sections = Self.sections(of: file) else {
            image.deallocate()
            throw .unreadable
        }
        (self.path, self.sections, rawFile, isMapped, budget) = (path, sections, file, false, nil)
    }

    deinit {
        for bytes in decompressed {
            budget?.release(UInt64(bytes.count))
            bytes.deallocate()
        }
        Self.release(rawFile, isMapped: isMapped)
    }

    /// nil if the bytes do not start with the header of a 64-bit little-endian ELF file.
    private static func sections(of file: UnsafeRawBufferPointer) -> [Section]? {
        guard file.count >= headerSize, file.starts(with: [0x7f, 0x45, 0x4c, 0x46]), Int32(file[4]) == ELFCLASS64,
            Int32(file[5]) == ELFDATA2LSB
        else { return nil }
        var header = ByteCursor(file, at: 40)
        let table: UInt64 = header.number()
        header.skip(10)
        let entrySize = UInt64(header.number(UInt16.self))
        var count = UInt64(header.number(UInt16.self))
        var names = Int(header.number(UInt16.self))
        guard table != 0, entrySize >= 64, let first = section(in: file, at: table) else { return [] }
        // If the numbers do not fit in the header (65,280 sections or more), section 0 contains them.
        if count == 0 { count = first.section.size }
        if names == SHN_XINDEX { names = first.section.link }
        var found: [(section: Section, name: UInt32)] = []
        for index in 1..<max(1, min(count, UInt64(mostSections))) {
            let (place, overflows) = (index * entrySize).addingReportingOverflow(table)
            // Stop at the first unreadable header instead of skipping it: a section's number is its position in the
            // table.
            guard !overflows, let next = section(in: file, at: place) else { break }
            found.append(next)
        }
        let texts = found.indices.contains(names - 1) ? bytes(of: found[names - 1].section, in: file) : nil
        return found.map { entry in
            var section = entry.section
            if let texts {
                var text = ByteCursor(texts, at: UInt64(entry.name))
                let name = text.text()
                if !text.failed { section.name = name }
            }
            return section
        }
    }

    /// Reads a section header. `name` is an offset in the section name table. nil at the end of the file.
    private static func section(in file: UnsafeRawBufferPointer, at offset: UInt64) -> (section: Section, name: UInt32)?
    {
        var cursor = ByteCursor(file, at: offset)
        let name: UInt32 = cursor.number()
        let type: UInt32 = cursor.number()
        let flags: UInt64 = cursor.number()
        let address: UInt64 = cursor.number()
        let place: UInt64 = cursor.number()
        let size: UInt64 = cursor.number()
        let link: UInt32 = cursor.number()
        cursor.skip(20)
        if cursor.failed { return nil }
        let section = Section(
            name: "", type: type, flags: flags, address: address, size: size, link: Int(link), offset: place)
        return (section, name)
    }

    /// The stored bytes of a section; nil if they are not all in the file.
    private static func bytes(of section: Section, in file: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard section.type != SHT_NOBITS, section.offset <= UInt64(file.count),
            section.size <= UInt64(file.count) - section.offset
        else { return nil }
        let start = Int(section.offset)
        return UnsafeRawBufferPointer(rebasing: file[start..<(start + Int(section.size))])
    }

    // Disables readahead by default: debug information is large, and little of it is read.
    private func adviseRandom() { Self.advise(rawFile, MADV_RANDOM) }

    /// Starts reading bytes from disk in the background.
    static func prefetch(_ bytes: UnsafeRawBufferPointer) { advise(bytes, MADV_WILLNEED) }

    // Number of bytes that a disk reads sequentially in the time of a few seeks.
    private static let smallSection = 16 << 20

    /// Starts reading a section of which parts will be needed, if the section is small: reading all of it is then
    /// cheaper than seeking to the parts.
    static func prefetchIfSmall(_ section: UnsafeRawBufferPointer) {
        if section.count <= smallSection { prefetch(section) }
    }

    /// Starts reading a string or header at an offset. Many such reads in parallel take no longer than one.
    static func prefetch(_ section: UnsafeRawBufferPointer, at offset: UInt64) {
        let usual: UInt64 = 128
        guard offset < UInt64(section.count) else { return }
        prefetch(
            UnsafeRawBufferPointer(rebasing: section[Int(offset)..<Int(min(offset + usual, UInt64(section.count)))]))
    }

    /// Reads, in one call, bytes that will all be needed. Otherwise a page fault would read every few pages.
    static func fetch(_ bytes: UnsafeRawBufferPointer) {
        let populateForReading: Int32 = 22 // MADV_POPULATE_READ, Linux 5.14; older kernels return EINVAL
        prefetch(bytes)
        advise(bytes, populateForReading)
    }

    private static func advise(_ bytes: UnsafeRawBufferPointer, _ advice: Int32) {
        guard let base = bytes.baseAddress else { return }
        let page = UInt(sysconf(Int32(_SC_PAGESIZE)))
        let start = UInt(bitPattern: base) & ~(page - 1)
        let end = UInt(bitPattern: base) + UInt(bytes.count)
        madvise(UnsafeMutableRawPointer(bitPattern: start), Int(end - start), advice)
    }

    // MARK: Sections

    /// The decompressed contents of a section, by name; empty if there is none. `.debug_…` also finds `.zdebug_…`.
    func contents(_ name: String) -> UnsafeRawBufferPointer {
        let old = name.hasPrefix(".debug_") ? ".z" + name.dropFirst() : name
        guard let index = sections.firstIndex(where: { $0.name == name || $0.name == old }) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return contents(at: index)
    }

    /// The decompressed contents of a section, by its index in ``sections``.
    func contents(at index: Int) -> UnsafeRawBufferPointer {
        if let known = contents[index] { return known }
        let bytes = read(sections[index])
        contents[index] = bytes
        return bytes
    }

    /// Total size in bytes of the compressed sections after decompression, according to their headers.
    var unpackedBytes: UInt64 {
        sections.reduce(0) { sum, section in
            guard let stored = Self.bytes(of: section, in: rawFile) else { return sum }
            var header = ByteCursor(stored)
            var size: UInt64 = 0
            if section.flags & UInt64(SHF_COMPRESSED) != 0 {
                header.skip(8)
                size = header.number()
            } else if section.name.hasPrefix(".zdebug_") {
                header.skip(4)
                size = header.number(UInt64.self).byteSwapped
            }
            let (total, overflows) = sum.addingReportingOverflow(header.failed ? 0 : size)
            return overflows ? .max : total
        }
    }

    private func read(_ section: Section) -> UnsafeRawBufferPointer {
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        guard let stored = Self.bytes(of: section, in: rawFile) else { return empty }
        var header = ByteCursor(stored)
        var method = Decompression.Method.zlib
        var size: UInt64 = 0
        if section.flags & UInt64(SHF_COMPRESSED) != 0 {
            let zlib: UInt32 = 1
            let zstandard: UInt32 = 2
            let kind: UInt32 = header.number()
            header.skip(4)
            size = header.number()
            header.skip(8)
            guard [zlib, zstandard].contains(kind) else { return empty }
            if kind == zstandard { method = .zstandard }
        } else if section.name.hasPrefix(".zdebug_") {
            guard stored.starts(with: "ZLIB".utf8) else { return empty }
            header.skip(4)
            size = header.number(UInt64.self).byteSwapped
        } else {
            return stored
        }
        // Check the claimed size before allocating: a damaged header can claim any size.
        guard !header.failed, size <= UInt64(stored.count) * Self.mostCompression, size <= Self.mostDecompressed,
            budget?.take(size) ?? true
        else { return empty }
        let packed = UnsafeRawBufferPointer(rebasing: stored[header.offset...])
        guard let bytes = Decompression.bytes(method, of: packed, size: Int(size)) else {
            budget?.release(size)
            return empty
        }
        decompressed.append(bytes)
        return UnsafeRawBufferPointer(bytes)
    }

    /// Up to `count` bytes at an address, within one section.
    func bytes(at address: Address, count: Int) -> [UInt8] {
        for (index, section) in sections.enumerated() where section.isLoaded {
            let bytes = contents(at: index)
            guard let start = address.distance(from: Address(section.address)), start < bytes.count else { continue }
            return Array(bytes.dropFirst(Int(start)).prefix(count))
        }
        return []
    }

    /// Whether all section headers, and all sections with contents, lie within the file.
    var isWhole: Bool {
        var header = ByteCursor(rawFile, at: 40)
        let table: UInt64 = header.number()
        header.skip(12)
        let count = Int(header.number(UInt16.self))
        // A file with more sections than fit in the header has their number in section 0.
        if table != 0, sections.count + 1 < count || sections.isEmpty { return false }
        return sections.allSatisfy { $0.type == SHT_NOBITS || Self.bytes(of: $0, in: rawFile) != nil }
    }

    // MARK: Identity

    /// The build-id as lower-case hexadecimal digits; nil if the file has none.
    private(set) lazy var buildID: String? = {
        for (index, section) in sections.enumerated() where section.type == SHT_NOTE {
            if let id = ELFImage.buildID(inNotes: Array(contents(at: index).prefix(1 << 16))) { return id }
        }
        let file = rawFile
        func read(_ offset: UInt64, _ count: Int) -> [UInt8] {
            offset < file.count ? Array(file.dropFirst(Int(offset)).prefix(count)) : []
        }
        guard let segments = try? ELFImage(read: read).segments else { return nil }
        for segment in segments where segment.type == ELFImage.SegmentType.note {
            let notes = read(segment.offset, Int(min(segment.fileSize, 1 << 16)))
            if let id = ELFImage.buildID(inNotes: notes) { return id }
        }
        return nil
    }()

    /// Whether the file itself has debug information.
    var hasDebugInformation: Bool {
        sections.contains {
            [".debug_info", ".zdebug_info", ".debug_info.dwo"].contains($0.name) && $0.type != SHT_NOBITS && $0.size > 0
        }
    }

    /// CRC-32 of the whole file, as used by .gnu_debuglink.
    var checksum: UInt32 {
        let table = (0..<UInt32(256)).map { index in
            (0..<8).reduce(index) { value, _ in value & 1 != 0 ? value >> 1 ^ 0xedb8_8320 : value >> 1 }
        }
        return table.withUnsafeBufferPointer { table in
            ~rawFile.reduce(~0) { $0 >> 8 ^ table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] }
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
