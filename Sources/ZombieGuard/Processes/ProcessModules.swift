// Turns code addresses of another process into frames: module, build ID, offset.

/// The executable and shared libraries of a process.
package struct ProcessModules {
    /// A loaded ELF file.
    package struct Image {
        var bias: UInt64
        var buildID: String?
        /// Address of .eh_frame_hdr; nil if the image has none.
        var unwindTable: UInt64?

        /// The image whose start is mapped at `start`; nil if there is none. Reads the headers from memory, because the
        /// file may have been replaced since it was loaded.
        init?(at start: UInt64, in memory: any MemoryReader) {
            guard let headers = try? ELFImage(read: { memory.read(at: start &+ $0, upTo: $1) }),
                let first = headers.segments.first(where: { $0.type == ELFImage.SegmentType.load })
            else { return nil }
            bias = start &- (first.address &- first.offset)
            let bias = bias
            buildID = headers.buildID { memory.read(at: bias &+ $0, upTo: $1) }
            unwindTable = headers.segments.first { $0.type == ELFImage.SegmentType.unwindTable }.map {
                bias &+ $0.address
            }
        }
    }

    private let mappings: [Mapping]
    private let memory: any MemoryReader
    private var images: [UInt64: Image?] = [:] // by the address of the mapping of file offset 0

    package init(mappings: [Mapping], memory: any MemoryReader) {
        self.mappings = mappings
        self.memory = memory
    }

    /// The mapping that contains an address.
    package func mapping(at address: UInt64) -> Mapping? {
        let behind = mappings.partitionPoint { $0.start > address }
        guard behind > 0, address < mappings[behind - 1].end else { return nil }
        return mappings[behind - 1]
    }

    /// The image whose file is mapped at an address; nil for anonymous memory.
    package mutating func image(at address: UInt64) -> Image? { mapping(at: address).flatMap { image(of: $0) } }

    /// Whether the address is in code of an image.
    package mutating func isCode(_ address: UInt64) -> Bool {
        guard let mapping = mapping(at: address), mapping.mayBeCode else { return false }
        return image(of: mapping) != nil
    }

    /// Frame of a return address. Its address is in the call instruction, whose last byte precedes the return address.
    package mutating func frame(returningTo address: UInt64) -> Finding.Frame { frame(at: address &- 1) }

    /// Frame of the exact address of an instruction.
    package mutating func frame(at pc: UInt64) -> Finding.Frame {
        var frame = Finding.Frame(pc: Address(pc))
        guard let mapping = mapping(at: pc), !mapping.path.isEmpty else { return frame }
        frame.module = mapping.filePath
        guard let image = image(of: mapping) else { return frame }
        frame.offset = Address(pc &- image.bias)
        frame.buildID = image.buildID
        return frame
    }

    private mutating func image(of mapping: Mapping) -> Image? {
        let behind = mappings.partitionPoint { $0.start > mapping.start }
        guard !mapping.path.isEmpty,
            let first = mappings[..<behind].last(where: { $0.path == mapping.path && $0.fileOffset == 0 })
        else { return nil }
        if let known = images[first.start] { return known }
        let image = Image(at: first.start, in: memory)
        images[first.start] = .some(image)
        return image
    }
}
