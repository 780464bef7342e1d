// Turns code addresses of another process into frames: module, build ID, offset.

/// The executable and shared libraries of a process.
package struct ProcessModules {
    /// A loaded ELF file.
    package struct Image {
        var bias: UInt64
        var buildID: String?
        /// Address of .eh_frame_hdr; nil if the image has none.
        var unwindTable: UInt64?
        /// Address behind the image, with the zeros of its last segment (.bss).
        var end: UInt64
        /// The image's thread-local variables; nil if it has none.
        var threadLocals: ELFImage.Segment?

        /// The image whose start is mapped at `start`; nil if there is none. Reads the headers from memory, because the
        /// file may have been replaced since it was loaded.
        init?(at start: UInt64, in memory: any MemoryReader) {
            guard let headers = try? ELFImage(read: { memory.read(at: start &+ $0, upTo: $1) }),
                let first = headers.segments.first(where: { $0.type == ELFImage.SegmentType.load })
            else { return nil }
            bias = start &- (first.address &- first.offset)
            let bias = bias
            let loaded = headers.segments.filter { $0.type == ELFImage.SegmentType.load }
            end = bias &+ (loaded.map { $0.address &+ $0.memorySize }.max() ?? 0)
            threadLocals = headers.segments.first { $0.type == ELFImage.SegmentType.threadLocal }
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

    /// Frame of a return address. The frame's pc is the last byte of the call instruction, which precedes the return
    /// address.
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

    /// Frame of the address of a global variable: module and offset. nil if the address is not in an image. Zeroed data
    /// (.bss) is anonymous memory behind the mappings of the image's file.
    package mutating func variable(at address: UInt64) -> Finding.Frame? {
        var index = mappings.partitionPoint { $0.start > address } - 1
        guard index >= 0, address < mappings[index].end else { return nil }
        while isZeroed(mappings[index]), index > 0, mappings[index - 1].end == mappings[index].start { index -= 1 }
        guard let image = image(of: mappings[index]), address < image.end else { return nil }
        return Finding.Frame(
            pc: Address(address), module: mappings[index].filePath, buildID: image.buildID,
            offset: Address(address &- image.bias))
    }

    // Whether a mapping may be a part of an image's zeroed data. In a test bundle, which links the runtime, the
    // statistics page is mapped over a part of the zeroed data.
    private func isZeroed(_ mapping: Mapping) -> Bool {
        mapping.path.isEmpty || mapping.path.hasPrefix("/memfd:zguard-stats")
    }

    /// Frame of a thread-local variable of the executable, with the offset in the image's thread-local data. nil if the
    /// address is not in the data of the thread with this thread pointer (x86-64: the data ends at the pointer).
    package mutating func threadLocal(
        at address: UInt64, threadPointer: UInt64, executable: String
    ) -> Finding.Frame? {
        guard let mapping = mappings.first(where: { $0.path == executable && $0.fileOffset == 0 }),
            let image = image(of: mapping), let data = image.threadLocals
        else { return nil }
        let alignment = max(data.alignment, 1)
        guard alignment & (alignment - 1) == 0, data.memorySize < 1 << 32 else { return nil }
        let start = (threadPointer &- data.memorySize) & ~(alignment - 1)
        guard address >= start, address &- start < data.memorySize else { return nil }
        return Finding.Frame(
            pc: Address(address), module: mapping.filePath, buildID: image.buildID, offset: Address(address &- start))
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
