// Reads the headers of an ELF file, from a file or from the memory of a process.

/// The file header and program headers of an ELF file.
package struct ELFImage {
    package enum Failure: Error, Hashable {
        case notELF
        /// A header is truncated or invalid.
        case damaged
        /// A 32-bit or big-endian file.
        case foreign(is32Bit: Bool)
    }

    package struct Segment: Hashable {
        package var type: UInt32
        package var offset: UInt64
        package var address: UInt64
        package var fileSize: UInt64
        /// Size in memory, with the zeros behind the file's contents.
        package var memorySize: UInt64
        package var alignment: UInt64
    }

    package enum FileType { package static let executable: UInt16 = 2, shared: UInt16 = 3 }
    package enum SegmentType {
        package static let load: UInt32 = 1, dynamic: UInt32 = 2, interpreter: UInt32 = 3, note: UInt32 = 4
        package static let threadLocal: UInt32 = 7 // PT_TLS
        package static let unwindTable: UInt32 = 0x6474_e550 // PT_GNU_EH_FRAME
    }

    package var type: UInt16
    package var machine: UInt16
    package var segments: [Segment]

    private static let headerSize = 64
    private static let programHeaderSize = 56
    private static let mostProgramHeaders = 256

    /// Reads the headers with `read(offset, count)`, which may return fewer bytes at the end.
    package init(read: (UInt64, Int) -> [UInt8]) throws(Failure) {
        let header = read(0, Self.headerSize)
        guard header.starts(with: [0x7f, 0x45, 0x4c, 0x46]) else { throw .notELF }
        guard header.count > 20 else { throw .damaged }
        let is64Bit = header[4] == 2
        guard is64Bit, header[5] == 1 else { throw .foreign(is32Bit: !is64Bit) }
        guard header.count == Self.headerSize else { throw .damaged }
        type = header.number(at: 16)
        machine = header.number(at: 18)
        let table: UInt64 = header.number(at: 32)
        let entrySize: UInt16 = header.number(at: 54)
        let count: UInt16 = header.number(at: 56)
        guard count == 0 || Int(entrySize) == Self.programHeaderSize, count <= Self.mostProgramHeaders else {
            throw .damaged
        }
        let bytes = read(table, Int(count) * Self.programHeaderSize)
        guard bytes.count == Int(count) * Self.programHeaderSize else { throw .damaged }
        segments = (0..<Int(count)).map { index in
            let at = index * Self.programHeaderSize
            return Segment(
                type: bytes.number(at: at), offset: bytes.number(at: at + 8), address: bytes.number(at: at + 16),
                fileSize: bytes.number(at: at + 32), memorySize: bytes.number(at: at + 40),
                alignment: bytes.number(at: at + 48))
        }
    }

    /// The path of the program interpreter (the dynamic loader); nil if there is none.
    package func interpreter(read: (UInt64, Int) -> [UInt8]) -> String? {
        guard let segment = segments.first(where: { $0.type == SegmentType.interpreter }) else { return nil }
        let bytes = read(segment.offset, Int(min(segment.fileSize, 4096)))
        return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }

    /// The build-id in the notes of the loaded image; nil if there is none. `read` takes the file's virtual addresses.
    package func buildID(read: (UInt64, Int) -> [UInt8]) -> String? {
        for segment in segments where segment.type == SegmentType.note {
            let notes = read(segment.address, Int(min(segment.fileSize, 1 << 16)))
            if let id = Self.buildID(inNotes: notes) { return id }
        }
        return nil
    }

    static func buildID(inNotes notes: [UInt8]) -> String? {
        let buildIDNote: UInt32 = 3
        for note in ELFNotes(notes) where note.type == buildIDNote && note.name.elementsEqual("GNU\0".utf8) {
            return hexadecimal(note.contents)
        }
        return nil
    }
}

/// Iterates over the notes of a segment or section, up to the first truncated note.
package struct ELFNotes: Sequence, IteratorProtocol {
    package struct Note {
        /// Includes the terminating NUL.
        package var name: ArraySlice<UInt8>
        package var type: UInt32
        package var contents: ArraySlice<UInt8>
    }

    private let bytes: [UInt8]
    private var at = 0

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package mutating func next() -> Note? {
        let headerSize = 12
        guard at + headerSize <= bytes.count else { return nil }
        let nameSize = Int(bytes.number(at: at) as UInt32)
        let size = Int(bytes.number(at: at + 4) as UInt32)
        let type: UInt32 = bytes.number(at: at + 8)
        let name = at + headerSize
        let contents = name + (nameSize + 3) & ~3
        guard contents + size <= bytes.count else { return nil }
        at = contents + (size + 3) & ~3
        return Note(name: bytes[name..<(name + nameSize)], type: type, contents: bytes[contents..<(contents + size)])
    }
}

extension [UInt8] {
    /// Reads a little-endian integer; traps if the bytes are not there.
    package func number<Number: FixedWidthInteger>(at offset: Int) -> Number {
        precondition(offset >= 0 && offset + MemoryLayout<Number>.size <= count)
        return withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }
}
