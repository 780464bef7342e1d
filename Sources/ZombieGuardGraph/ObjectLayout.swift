// Says what each word of a Swift object refers to: stored properties, elements, captured values.

import ZombieGuard

/// The words of an object.
package protocol ObjectWords {
    /// The word with an index; nil if it cannot be read.
    func word(_ index: Int) -> UInt64?
}

extension [UInt64]: ObjectWords {
    package func word(_ index: Int) -> UInt64? { index < count ? self[index] : nil }
}

/// Words that are read when they are needed: a layout needs a few words of an object of any size.
struct RemoteWords: ObjectWords {
    let memory: any MemoryReader
    let start: UInt64, size: UInt64

    func word(_ index: Int) -> UInt64? {
        let offset = UInt64(index) &* 8
        return size >= 8 && offset <= size - 8 ? memory.record(UInt64.self, at: start &+ offset) : nil
    }
}

/// Determines what each word in an object of one class refers to.
package struct ObjectLayout {
    /// End of the stored properties or captured values, in bytes.
    package let fixedSize: UInt64
    private let places: [ValueLayout.Place]
    private let tail: Tail
    private let reader: LayoutReader?
    private let bindings: CaptureBindings?

    /// Captured values whose types depend on generic arguments. Each closure context has its own arguments, in its
    /// bindings.
    struct CaptureBindings {
        /// Metadata of the closure context.
        var metadata: UInt64
        /// Offset of the bindings in the object, in bytes.
        var start: UInt64
        var count: Int
    }

    /// What follows the stored properties.
    enum Tail {
        case unknown
        /// Elements of one size, from an offset on.
        case elements(start: UInt64, layout: ValueLayout)
        /// Storage of a dictionary or set: bits, then keys, then values.
        case hashed(keys: ValueLayout, values: ValueLayout?)
    }

    init(
        fixedSize: UInt64, places: [ValueLayout.Place], tail: Tail, reader: LayoutReader? = nil,
        bindings: CaptureBindings? = nil
    ) {
        self.reader = reader
        self.bindings = bindings
        self.fixedSize = fixedSize
        self.places = places
        self.tail = tail
    }

    static var unknown: ObjectLayout { ObjectLayout(fixedSize: 0, places: [], tail: .unknown) }

    /// What a word refers to.
    ///
    /// - Parameters:
    ///   - offset: offset of the word in the object, in bytes.
    ///   - start: address of the object.
    ///   - words: the words of the object.
    package func kind(at offset: UInt64, of start: UInt64, _ words: some ObjectWords) -> ReferenceKind {
        if let bindings, let reader {
            let first = Int(bindings.start / 8)
            let metadata = (first..<first + bindings.count).compactMap { words.word($0) }
            guard metadata.count == bindings.count else { return .unknown }
            return reader.contexts(of: bindings.metadata, bound: metadata).kind(at: offset, of: start, words)
        }
        if offset < fixedSize { return kind(at: offset, of: places, from: 0, words) }
        switch tail {
        case .unknown: return .unknown
        case .elements(let first, let layout): return kind(at: offset, in: layout, from: first, words)
        case .hashed(let keys, let values):
            // The lowest byte is _scale: the storage has 2^_scale buckets.
            guard let scale = words.word(HashedStorage.scale), scale & 0xff < 48,
                words.word(HashedStorage.values) != nil
            else { return .unknown }
            let count: UInt64 = 1 << (scale & 0xff)
            for (layout, word) in [(keys, HashedStorage.keys), (values, HashedStorage.values)] {
                guard let layout, let stride = layout.stride, let address = words.word(word), address >= start
                else { continue }
                let first = address - start
                if offset >= first, offset - first < stride &* count {
                    return kind(at: offset, in: layout, from: first, words)
                }
            }
            return .number
        }
    }

    private func kind(
        at offset: UInt64, in layout: ValueLayout, from first: UInt64, _ words: some ObjectWords
    ) -> ReferenceKind {
        guard let stride = layout.stride else { return .unknown }
        return offset < first
            ? .number : kind(at: offset, of: layout.places, from: offset - (offset - first) % stride, words)
    }

    // `base`: offset of the value in the object.
    private func kind(
        at offset: UInt64, of places: [ValueLayout.Place], from base: UInt64, _ words: some ObjectWords
    ) -> ReferenceKind {
        guard let place = places.place(at: offset - base) else { return .number }
        guard place.kind == .erased else { return place.kind }
        let start = base + place.range.lowerBound
        let behind = (start + LayoutReader.existentialBuffer) / 8
        guard let reader, start % 8 == 0, let metadata = words.word(Int(clamping: behind)) else { return .unknown }
        return reader.erased(metadata, at: offset - start)
    }

    /// Indexes of words in the storage of dictionaries and sets (__RawDictionaryStorage).
    private enum HashedStorage {
        static let scale = 4, keys = 6, values = 7
    }
}

extension LayoutReader {
    private enum MetadataKind {
        static let context: UInt64 = 0x400, box: UInt64 = 0x500
    }

    private static let header: UInt64 = 16
    private static let mostSuperclasses = 32

    /// The layout of objects whose first word is the metadata.
    func objects(of metadata: UInt64) -> ObjectLayout {
        beginClass()
        switch word(metadata) {
        case 0: return instances(of: metadata)
        case MetadataKind.context: return contexts(of: metadata)
        case MetadataKind.box:
            let content = layout(of: .metadata(word(metadata &+ 16)))
            let offset = UInt64(half(metadata &+ 8))
            return object([content], from: offset)
        default: return .unknown
        }
    }

    // MARK: Captured values

    // Capture descriptor: numbers of captured values, metadata sources and bindings; then the mangled types; then the
    // sources, each a generic parameter and the place of its metadata. The object begins with the bindings.
    private func contexts(of metadata: UInt64) -> ObjectLayout {
        guard let captures = captures(of: metadata) else { return .unknown }
        let bindings = Array(repeating: ValueLayout.number(8), count: captures.bindings)
        if captures.parameters.isEmpty || !captures.types.contains(where: \.isGeneric) {
            return object(bindings + captures.types.map { layout(of: $0) }, from: captures.start)
        }
        return ObjectLayout(
            fixedSize: .max, places: [], tail: .unknown, reader: self,
            bindings: ObjectLayout.CaptureBindings(
                metadata: metadata, start: captures.start, count: captures.bindings))
    }

    /// The layout of closure contexts whose bindings have these values.
    fileprivate func contexts(of metadata: UInt64, bound values: [UInt64]) -> ObjectLayout {
        let key = [metadata] + values
        if let known = contexts[key] { return known }
        beginClass()
        var layout = ObjectLayout.unknown
        if let captures = captures(of: metadata) {
            var arguments = Array(repeating: TypeNode.unknown, count: (captures.parameters.keys.max() ?? -1) + 1)
            for (parameter, binding) in captures.parameters where binding < values.count {
                arguments[parameter] = .metadata(values[binding])
            }
            let types = captures.types.map { self.layout(of: substituted($0, arguments)) }
            layout = object(Array(repeating: .number(8), count: captures.bindings) + types, from: captures.start)
        }
        contexts[key] = layout
        return layout
    }

    private struct Captures {
        /// Offset of the first binding or captured value, in bytes.
        var start: UInt64
        var types: [TypeNode]
        var bindings: Int
        /// Indexes of bindings that are the metadata of a generic parameter, by the parameter's index.
        var parameters: [Int: Int]
    }

    private static let mostCaptures: UInt32 = 256

    private func captures(of metadata: UInt64) -> Captures? {
        let descriptor = word(metadata &+ 16)
        let counts = descriptor == 0 ? [] : memory.records(UInt32.self, at: descriptor, count: 3)
        guard counts.count == 3, counts.allSatisfy({ $0 <= Self.mostCaptures }) else { return nil }
        let types = descriptor &+ 12
        let sources = types &+ 4 &* UInt64(counts[0])
        var parameters: [Int: Int] = [:]
        for source in (0..<UInt64(counts[1])).map({ sources &+ 8 &* $0 }) {
            // "B" and an index denote a binding. Other sources are in captured values; their parameters stay unknown.
            guard case .parameter(let index) = type(at: relative(source)), index < counts[2] else { continue }
            let place = text(relative(source &+ 4))
            if place.first == "B", let binding = Int(place.dropFirst()), binding >= 0, binding < counts[2] {
                parameters[index] = binding
            }
        }
        return Captures(
            start: UInt64(half(metadata &+ 8)),
            types: (0..<UInt64(counts[0])).map { type(at: relative(types &+ 4 &* $0)) },
            bindings: Int(counts[2]), parameters: parameters)
    }

    // Lays out values one after the other. A value of unknown size extends to the end of the object.
    private func object(_ values: [ValueLayout], from offset: UInt64) -> ObjectLayout {
        guard (Self.header..<65536).contains(offset) else { return .unknown }
        var whole = ValueLayout(size: offset, alignment: 8)
        for value in values { whole.append(value) }
        guard let end = whole.size else {
            return ObjectLayout(fixedSize: .max, places: whole.places, tail: .unknown, reader: self)
        }
        return ObjectLayout(fixedSize: end, places: whole.places, tail: .unknown, reader: self)
    }

    // MARK: Instances

    private struct Property {
        var offset: UInt64
        var type: TypeNode
    }

    private func instances(of metadata: UInt64) -> ObjectLayout {
        let size = UInt64(half(metadata &+ 24))
        var properties: [Property] = []
        var place = metadata
        for _ in 0..<Self.mostSuperclasses where place != 0 {
            // If the properties of a class or superclass are unknown, so is the layout of the objects.
            guard let own = self.properties(of: place) else { return .unknown }
            properties += own
            place = word(place &+ 8)
        }
        properties.sort { $0.offset < $1.offset }
        var places: [ValueLayout.Place] = []
        for (index, property) in properties.enumerated() {
            let end = min(size, index + 1 < properties.count ? properties[index + 1].offset : size)
            guard property.offset >= Self.header, property.offset < end else { continue }
            let value = layout(of: property.type)
            let fits = value.size.map { $0 <= end - property.offset } ?? true
            let known = fits ? value.places : ValueLayout.unknown.places
            for part in known.map({ $0.moved(by: property.offset) }) where part.range.lowerBound < end {
                places.append(
                    ValueLayout.Place(range: part.range.lowerBound..<min(end, part.range.upperBound), kind: part.kind))
            }
        }
        return ObjectLayout(fixedSize: size, places: places, tail: tail(of: metadata, size), reader: self)
    }

    // Byte offsets in a class descriptor: 16 field descriptor, 24 and 28 bounds of the metadata, 32 number of immediate
    // members, 36 number of properties, 40 place of the properties' offsets. Returns nil if the descriptor is
    // unreadable.
    private func properties(of metadata: UInt64) -> [Property]? {
        let descriptor = word(metadata &+ 40)
        let parts = memory.records(UInt32.self, at: descriptor, count: 11)
        guard parts.count == 11, parts[0] & 0x1f == ContextKind.classType else { return nil }
        let count = parts[9]
        if count == 0 { return [] }
        let own = fields(of: descriptor)
        let members = immediateMembers(of: metadata, descriptor, parts)
        let offsets = (parts[0] >> 29 & 1 != 0 ? members : metadata) &+ 8 &* UInt64(parts[10])
        guard own.count == Int(count), parts[10] != 0 else { return nil }
        let words = memory.records(UInt64.self, at: offsets, count: own.count)
        guard words.count == own.count else { return nil }
        let arguments = arguments(of: descriptor, at: members) ?? []
        return zip(words, own).map { offset, field in
            Property(offset: offset, type: substituted(type(at: field.type), arguments))
        }
    }

    // Address of the immediate members of a class in its metadata. Flags of a class descriptor, counted from bit 16: 13
    // resilient superclass, 12 immediate members in front of the address point.
    private func immediateMembers(of metadata: UInt64, _ descriptor: UInt64, _ parts: [UInt32]) -> UInt64 {
        if parts[0] >> 29 & 1 != 0 { return metadata &+ word(relative(descriptor &+ 24)) }
        if parts[0] >> 28 & 1 != 0 { return metadata &- 8 &* UInt64(parts[6]) }
        return metadata &+ 8 &* (UInt64(parts[7]) &- UInt64(parts[8]))
    }

    // What follows the properties in arrays, dictionaries and sets of the standard library; unknown for other classes.
    private func tail(of metadata: UInt64, _ size: UInt64) -> ObjectLayout.Tail {
        let descriptor = word(metadata &+ 40)
        let parts = memory.records(UInt32.self, at: descriptor, count: 11)
        guard parts.count == 11, let name = name(of: descriptor) else { return .unknown }
        let members = immediateMembers(of: metadata, descriptor, parts)
        guard let arguments = arguments(of: descriptor, at: members) else { return .unknown }
        switch (name, arguments.count) {
        case ("_ContiguousArrayStorage", 1):
            let element = layout(of: arguments[0])
            let start = (size + element.alignment - 1) / element.alignment * element.alignment
            return .elements(start: start, layout: element)
        case ("_DictionaryStorage", 2):
            return .hashed(keys: layout(of: arguments[0]), values: layout(of: arguments[1]))
        case ("_SetStorage", 1): return .hashed(keys: layout(of: arguments[0]), values: nil)
        default: return .unknown
        }
    }

    // The name of a class of the standard library; nil for other classes.
    private func name(of descriptor: UInt64) -> String? {
        module(of: descriptor) == "Swift" ? text(relative(descriptor &+ 8)) : nil
    }
}
