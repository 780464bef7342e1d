// Looks up exported variables of a library in the memory of a process by name.

extension ProcessModules {
    private enum Tag { static let texts: UInt64 = 5, symbols: UInt64 = 6, textBytes: UInt64 = 10 }
    private static let symbolSize = 24, entrySize = 16, mostBytes = 4 << 20

    /// Address of an exported symbol of the image mapped at `start`; nil if the image does not export it.
    static func address(ofSymbol name: String, at start: UInt64, in memory: some MemoryReader) -> UInt64? {
        guard let headers = try? ELFImage(read: { memory.read(at: start &+ $0, upTo: $1) }),
            let first = headers.segments.first(where: { $0.type == ELFImage.SegmentType.load }),
            let dynamic = headers.segments.first(where: { $0.type == ELFImage.SegmentType.dynamic })
        else { return nil }
        let bias = start &- (first.address &- first.offset)
        var places: [UInt64: UInt64] = [:]
        let entries = memory.read(at: bias &+ dynamic.address, upTo: Int(min(dynamic.fileSize, 4096)))
        for at in stride(from: 0, through: entries.count - entrySize, by: entrySize) {
            places[entries.number(at: at)] = entries.number(at: at + 8)
        }
        // For most libraries, the loader has already added the bias to these addresses in place.
        func place(_ tag: UInt64) -> UInt64? { places[tag].map { $0 < bias ? $0 &+ bias : $0 } }
        guard let symbols = place(Tag.symbols), let texts = place(Tag.texts), let textBytes = places[Tag.textBytes],
            texts > symbols, texts - symbols <= mostBytes, textBytes <= mostBytes
        else { return nil }
        let table = memory.read(at: symbols, upTo: Int(texts - symbols))
        let names = memory.read(at: texts, upTo: Int(textBytes))
        let wanted = Array(name.utf8) + [0]
        for at in stride(from: 0, through: table.count - symbolSize, by: symbolSize) {
            let begin = Int(table.number(at: at) as UInt32)
            guard begin + wanted.count <= names.count, names[begin..<begin + wanted.count].elementsEqual(wanted) else {
                continue
            }
            let value: UInt64 = table.number(at: at + 8)
            return value == 0 ? nil : bias &+ value
        }
        return nil
    }
}

extension CoreFile {
    /// Address of an exported symbol of a library; `library` is a prefix of the library's file name.
    func address(ofSymbol name: String, in library: String) -> UInt64? {
        let first = mappings.first { mapping in
            mapping.fileOffset == 0 && (mapping.path.split(separator: "/").last?.hasPrefix(library) ?? false)
        }
        return first.flatMap { ProcessModules.address(ofSymbol: name, at: $0.start, in: self) }
    }
}
