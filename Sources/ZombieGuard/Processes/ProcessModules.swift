// Turns addresses of code in another process into frames: module, build-id, offset.

/// The executable and the libraries of a process.
struct ProcessModules {
    private struct Image {
        var bias: UInt64
        var buildID: String?
    }

    private let mappings: [Mapping]
    private let memory: ProcessMemory
    private var images: [UInt64: Image?] = [:] // by the address of the mapping that holds the file's beginning

    init(processID: Int, memory: ProcessMemory) throws(ProcessError) {
        self.memory = memory
        do throws(SystemError) {
            mappings = try Mapping.all(of: processID)
        } catch {
            throw ProcessError(processID, error)
        }
    }

    /// The frame of a return address.
    mutating func frame(returningTo address: UInt64) -> Finding.Frame {
        let pc = address &- 1 // inside the call
        var frame = Finding.Frame(pc: Address(pc))
        guard let index = mappings.lastIndex(where: { $0.start <= pc }), pc < mappings[index].end,
            !mappings[index].path.isEmpty
        else { return frame }
        let mapping = mappings[index]
        let deleted = " (deleted)"
        frame.module = mapping.path.hasSuffix(deleted) ? String(mapping.path.dropLast(deleted.count)) : mapping.path
        guard let first = mappings[...index].last(where: { $0.path == mapping.path && $0.fileOffset == 0 }),
            let image = image(at: first.start)
        else { return frame }
        frame.offset = Address(pc &- image.bias)
        frame.buildID = image.buildID
        return frame
    }

    // The headers come from the memory of the process: the file may have been replaced since it was loaded.
    private mutating func image(at start: UInt64) -> Image? {
        if let known = images[start] { return known }
        var image: Image?
        let memory = memory
        if let headers = try? ELFImage(read: { memory.read(at: start &+ $0, upTo: $1) }),
            let first = headers.segments.first(where: { $0.type == ELFImage.SegmentType.load })
        {
            let bias = start &- (first.address &- first.offset)
            image = Image(bias: bias, buildID: headers.buildID { memory.read(at: bias &+ $0, upTo: $1) })
        }
        images[start] = .some(image)
        return image
    }
}
