// One ELF file in memory: its sections, decompressed where they have to be, and its build-id. Through elfutils' libelf.

import CDwarf
import Glibc

/// An ELF file of 64 bits, least significant byte first. What it hands out lives as long as the file object.
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
        /// What libelf calls the section.
        var handle: OpaquePointer

        /// Whether the bytes are in the file, and in memory once it is loaded.
        var isLoaded: Bool { type != SHT_NOBITS && flags & UInt64(SHF_ALLOC) != 0 }
    }

    /// Where the file was found; the module's name where it is none.
    let path: String
    /// libelf's handle.
    let handle: OpaquePointer
    let sections: [Section]

    private let descriptor: Descriptor?
    private let image: UnsafeMutableRawBufferPointer?
    private var contents: [Int: UnsafeRawBufferPointer] = [:]

    private static let mostSections = 1 << 20
    // What zlib makes of a byte at most, and what is decompressed at most.
    private static let mostCompression: UInt64 = 1040
    private static let mostDecompressed: UInt64 = 4 << 30

    /// Opens a file. Anything but a regular file is unreadable: a report may name a pipe, which would be waited for.
    init(path: String) throws(Failure) {
        let descriptor: Descriptor
        do throws(SystemError) {
            descriptor = try Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK)
        } catch { throw .missing(error) }
        guard let status = descriptor.status, status.st_mode & S_IFMT == S_IFREG else { throw .unreadable }
        elf_version(UInt32(EV_CURRENT))
        guard let handle = elf_begin(descriptor.number, ELF_C_READ_MMAP, nil) else { throw .unreadable }
        guard let sections = Self.sections(of: handle) else {
            elf_end(handle)
            throw .unreadable
        }
        (self.path, self.handle, self.sections, self.descriptor, image) = (path, handle, sections, descriptor, nil)
        adviseRandom()
    }

    /// Reads a file that is in memory; the bytes are copied.
    init(bytes: some Collection<UInt8>, path: String) throws(Failure) {
        let image = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 64), alignment: 16)
        image.initializeMemory(as: UInt8.self, repeating: 0)
        image.copyBytes(from: bytes)
        elf_version(UInt32(EV_CURRENT))
        let handle = elf_memory(image.baseAddress!.assumingMemoryBound(to: CChar.self), bytes.count)
        guard let handle, let sections = Self.sections(of: handle) else {
            elf_end(handle)
            image.deallocate()
            throw .unreadable
        }
        (self.path, self.handle, self.sections, descriptor, self.image) = (path, handle, sections, nil, image)
    }

    deinit {
        elf_end(handle)
        image?.deallocate()
    }

    private static func sections(of handle: OpaquePointer) -> [Section]? {
        var header = GElf_Ehdr()
        guard elf_kind(handle) == ELF_K_ELF, gelf_getclass(handle) == ELFCLASS64, gelf_getehdr(handle, &header) != nil,
            header.e_ident.5 == ELFDATA2LSB
        else { return nil }
        var names = 0
        guard elf_getshdrstrndx(handle, &names) == 0 else { return [] }
        var sections: [Section] = []
        var last: OpaquePointer?
        while sections.count < mostSections, let next = elf_nextscn(handle, last) {
            last = next
            var header = GElf_Shdr()
            guard gelf_getshdr(next, &header) != nil else { break } // their order is their number
            let name = elf_strptr(handle, names, Int(header.sh_name)).map { String(cString: $0) } ?? ""
            sections.append(
                Section(
                    name: name, type: header.sh_type, flags: header.sh_flags, address: header.sh_addr,
                    size: header.sh_size, link: Int(header.sh_link), handle: next))
        }
        return sections
    }

    /// All bytes of the file as they are.
    private var rawFile: UnsafeRawBufferPointer {
        var size = 0
        guard let start = elf_rawfile(handle, &size) else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(start: start, count: size)
    }

    // Debug information is large, and little of it is read: no page is fetched but those that are, unless it is said.
    private func adviseRandom() { Self.advise(rawFile, MADV_RANDOM) }

    /// Has bytes of a section fetched while other work is done.
    static func willRead(_ bytes: UnsafeRawBufferPointer) { advise(bytes, MADV_WILLNEED) }

    // What a disk reads in the time in which it finds a few places.
    private static let smallSection = 16 << 20

    /// Has a section fetched of which some is going to be read, if it is small: reading all of it is then cheaper than
    /// going from place to place.
    static func mayRead(_ section: UnsafeRawBufferPointer) {
        if section.count <= smallSection { willRead(section) }
    }

    /// Has the place of a text or of a header fetched. Many places that are fetched at once take no longer than one.
    static func willRead(_ section: UnsafeRawBufferPointer, at offset: UInt64) {
        let usual: UInt64 = 128
        guard offset < UInt64(section.count) else { return }
        willRead(
            UnsafeRawBufferPointer(rebasing: section[Int(offset)..<Int(min(offset + usual, UInt64(section.count)))]))
    }

    /// Fetches bytes that are all going to be read, in one go instead of a fault for every few pages.
    static func fetch(_ bytes: UnsafeRawBufferPointer) {
        let populateForReading: Int32 = 22 // MADV_POPULATE_READ, Linux 5.14; refused by older ones
        willRead(bytes)
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

    /// The contents of a section by its name, which may also be stored compressed; empty where there is none.
    func contents(_ name: String) -> UnsafeRawBufferPointer {
        let old = name.hasPrefix(".debug_") ? ".z" + name.dropFirst() : name
        guard let index = sections.firstIndex(where: { $0.name == name || $0.name == old }) else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return contents(at: index)
    }

    /// The contents of a section by its place among ``sections``.
    func contents(at index: Int) -> UnsafeRawBufferPointer {
        if let known = contents[index] { return known }
        let bytes = read(sections[index])
        contents[index] = bytes
        return bytes
    }

    private func read(_ section: Section) -> UnsafeRawBufferPointer {
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        guard section.type != SHT_NOBITS, let stored = raw(section.handle) else { return empty }
        let isOldStyle = section.name.hasPrefix(".zdebug_")
        var size: UInt64 = 0
        if section.flags & UInt64(SHF_COMPRESSED) != 0 {
            var header = GElf_Chdr()
            guard gelf_getchdr(section.handle, &header) != nil else { return empty }
            size = header.ch_size
        } else if isOldStyle {
            guard stored.count >= 12, stored.starts(with: "ZLIB".utf8) else { return empty }
            size = stored[4..<12].reduce(0) { $0 << 8 | UInt64($1) }
        } else {
            return stored
        }
        // A size that the contents cannot have would be allocated all the same.
        guard size <= UInt64(stored.count) * Self.mostCompression, size <= Self.mostDecompressed,
            isOldStyle ? elf_compress_gnu(section.handle, 0, 0) == 1 : elf_compress(section.handle, 0, 0) == 1
        else { return empty }
        return raw(section.handle) ?? empty
    }

    private func raw(_ section: OpaquePointer) -> UnsafeRawBufferPointer? {
        guard let data = elf_rawdata(section, nil), let buffer = data.pointee.d_buf else { return nil }
        return UnsafeRawBufferPointer(start: buffer, count: data.pointee.d_size)
    }

    /// The bytes of the file at an address, as far as one section holds them.
    func bytes(at address: Address, count: Int) -> [UInt8] {
        for (index, section) in sections.enumerated() where section.isLoaded {
            let bytes = contents(at: index)
            guard let start = address.distance(from: Address(section.address)), start < bytes.count else { continue }
            return Array(bytes.dropFirst(Int(start)).prefix(count))
        }
        return []
    }

    // MARK: Identity

    /// The build-id as lower-case hexadecimal digits; nil where the file has none.
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

    /// Whether there is debug information in the file itself.
    var hasDebugInformation: Bool {
        sections.contains {
            [".debug_info", ".zdebug_info", ".debug_info.dwo"].contains($0.name) && $0.type != SHT_NOBITS && $0.size > 0
        }
    }

    /// CRC-32 of the whole file, as .gnu_debuglink counts it.
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
