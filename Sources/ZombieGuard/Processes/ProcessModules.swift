// Turns addresses of code in another process into frames: module, build-id, offset.

/// The executable and the libraries of a process.
struct ProcessModules {
    /// An ELF file as it lies in memory.
    struct Image {
        var bias: UInt64
        var buildID: String?
        /// Where its unwind information is (.eh_frame_hdr); nil where it has none.
        var unwindTable: UInt64?

        /// The one whose beginning is mapped at `start`; nil where none is. The headers come from the memory of the process:
        /// the file may have been replaced since it was loaded.
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
    private var images: [UInt64: Image?] = [:] // by the address of the mapping that holds the file's beginning

    init(mappings: [Mapping], memory: any MemoryReader) {
        self.mappings = mappings
        self.memory = memory
    }

    /// The mapping that holds an address.
    func mapping(at address: UInt64) -> Mapping? {
        let behind = mappings.partitionPoint { $0.start > address }
        guard behind > 0, address < mappings[behind - 1].end else { return nil }
        return mappings[behind - 1]
    }

    /// The image that holds an address, as far as it comes from its file.
    mutating func image(at address: UInt64) -> Image? { mapping(at: address).flatMap { image(of: $0) } }

    /// The address lies in code of an image.
    mutating func isCode(_ address: UInt64) -> Bool {
        guard let mapping = mapping(at: address), mapping.mayBeCode else { return false }
        return image(of: mapping) != nil
    }

    /// The frame of a return address.
    mutating func frame(returningTo address: UInt64) -> Finding.Frame { frame(at: address &- 1) } // inside the call

    /// The frame of an address itself.
    mutating func frame(at pc: UInt64) -> Finding.Frame {
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
