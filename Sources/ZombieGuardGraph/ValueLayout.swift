// Computes the layout of Swift values from reflection metadata, as the compiler does.

import ZombieGuard

/// The layout of a value. Bytes outside of all places are numbers or padding.
struct ValueLayout {
    /// A part of a value that may refer to something.
    struct Place {
        var range: Range<UInt64>
        var kind: ReferenceKind
    }

    /// Size in bytes; nil if unknown: then the last place extends to the end of the address space.
    var size: UInt64?
    var alignment: UInt64 = 1
    /// Number of bit patterns that are no value, with which an enum around the value encodes its other cases.
    var extraInhabitants: UInt64 = 0
    /// For each byte the bits that are the same in all values, with which an enum of several payloads encodes its case;
    /// nil if unknown.
    var spareBits: [UInt8]?
    var places: [Place] = []

    static let unknown = ValueLayout(size: nil, places: [Place(range: 0..<UInt64.max, kind: .unknown)])

    static func number(_ size: UInt64, extraInhabitants: UInt64 = 0) -> ValueLayout {
        ValueLayout(
            size: size, alignment: max(1, min(size, 16)), extraInhabitants: extraInhabitants,
            spareBits: Array(repeating: 0, count: Int(size)))
    }

    /// One word.
    static func reference(_ kind: ReferenceKind) -> ValueLayout {
        // Extra inhabitants are the addresses in the first page. A raw pointer has only null.
        let inhabitants: UInt64 = kind == .pointer ? 1 : kind == .weak || kind == .unknown ? 0 : 4096
        var spare: [UInt8]?
        if kind == .strong || kind == .unowned || kind == .unmanaged {
            // swift/ABI/System.h
            #if arch(x86_64)
            spare = [7, 0, 0, 0, 0, 0, 0, 0xff]
            #else
            spare = [7, 0, 0, 0, 0, 0, 0, 0xf0]
            #endif
        } else if kind == .pointer {
            spare = Array(repeating: 0, count: 8)
        }
        return ValueLayout(
            size: 8, alignment: 8, extraInhabitants: inhabitants, spareBits: spare,
            places: [Place(range: 0..<8, kind: kind)])
    }

    /// Size rounded up to the alignment; nil if unknown.
    var stride: UInt64? { size.map { max(1, ($0 + alignment - 1) / alignment * alignment) } }

    /// Appends a field, and returns its offset; nil if it is unknown.
    @discardableResult
    mutating func append(_ field: ValueLayout) -> UInt64? {
        guard let end = size else { return nil }
        let offset = (end + field.alignment - 1) / field.alignment * field.alignment
        guard let fieldSize = field.size, fieldSize < ValueLayout.largest, offset < ValueLayout.largest else {
            // The alignment is unknown as well, so that the field may begin here.
            places.append(Place(range: end..<UInt64.max, kind: .unknown))
            size = nil
            spareBits = nil
            return nil
        }
        places += field.places.map { $0.moved(by: offset) }
        size = offset + fieldSize
        alignment = max(alignment, field.alignment)
        extraInhabitants = max(extraInhabitants, field.extraInhabitants)
        if let own = spareBits, let other = field.spareBits {
            spareBits = own + Array(repeating: 0xff, count: Int(offset - end)) + other
        } else {
            spareBits = nil
        }
        return offset
    }

    static let largest: UInt64 = 1 << 20

    /// The layout with all strong references replaced by references of another kind.
    func with(_ kind: ReferenceKind) -> ValueLayout {
        var layout = self
        layout.places = places.map { $0.kind == .strong ? Place(range: $0.range, kind: kind) : $0 }
        return layout
    }
}

extension [ValueLayout.Place] {
    /// The place that contains the byte at an offset; nil if the byte belongs to a number or padding.
    func place(at offset: UInt64) -> ValueLayout.Place? {
        var found: ValueLayout.Place?
        for place in self where place.range.contains(offset) {
            // Payloads of an enum share their bytes. If one of them holds an owning reference, return its place.
            if place.kind == .strong || place.kind == .unknown { return place }
            if found?.kind != .erased { found = place }
        }
        return found
    }
}

extension ValueLayout.Place {
    func moved(by offset: UInt64) -> ValueLayout.Place {
        let end = range.upperBound.addingReportingOverflow(offset)
        return ValueLayout.Place(
            range: range.lowerBound + offset..<(end.overflow ? .max : end.partialValue), kind: kind)
    }
}

/// Reads layouts of types of another process or a core file. Not thread-safe.
final class LayoutReader {
    let memory: any MemoryReader
    private var types: [UInt64: TypeNode] = [:]
    private var fields: [UInt64: [Field]] = [:]
    /// Layouts of values in existentials, by metadata.
    private var values: [UInt64: ValueLayout] = [:]
    /// Layouts of closure contexts by their metadata and bindings.
    var contexts: [[UInt64]: ObjectLayout] = [:]
    /// Number of types that may still be visited for the current class. Limited, because metadata may be damaged.
    private var remaining = 0

    private static let mostTypes = 10_000, deepest = 16
    private static let mostFields: UInt32 = 1024, mostArguments: UInt16 = 16

    struct Field {
        var isIndirect: Bool
        /// Address of the mangled type; 0 for a case without a payload.
        var type: UInt64
    }

    init(_ memory: any MemoryReader) { self.memory = memory }

    /// Resets the number of types that may be visited. Types beyond the limit are unknown.
    func beginClass() { remaining = Self.mostTypes }

    /// The layout of a type.
    func layout(of type: TypeNode) -> ValueLayout { layout(type, 0) }

    /// A type with generic parameters replaced; ``TypeNode/unknown`` for a parameter without an argument.
    func substituted(_ type: TypeNode, _ arguments: [TypeNode]) -> TypeNode {
        remaining -= 1
        guard remaining > 0 else { return .unknown }
        func each(_ types: [TypeNode]) -> [TypeNode] { types.map { substituted($0, arguments) } }
        return switch type {
        case .parameter(let index): arguments.indices.contains(index) ? arguments[index] : .unknown
        case .standard(let letter, let own): .standard(letter, each(own))
        case .nominal(let descriptor, let own): .nominal(descriptor, each(own))
        case .tuple(let elements): .tuple(each(elements))
        case .storage(let kind, let inner): .storage(kind, substituted(inner, arguments))
        default: type
        }
    }

    // MARK: Reading

    func word(_ address: UInt64) -> UInt64 { memory.record(UInt64.self, at: address) ?? 0 }
    func half(_ address: UInt64) -> UInt32 { memory.record(UInt32.self, at: address) ?? 0 }

    /// The target of a relative pointer; 0 if it is null.
    func relative(_ address: UInt64) -> UInt64 {
        let distance = Int32(bitPattern: half(address))
        return distance == 0 ? 0 : address &+ UInt64(bitPattern: Int64(distance))
    }

    /// The type whose mangled bytes are at an address.
    func type(at address: UInt64) -> TypeNode {
        if let known = types[address] { return known }
        let type = TypeParser.type(at: address, in: memory)
        types[address] = type
        return type
    }

    /// The stored properties or cases of a type descriptor; empty if unknown. Field descriptor: mangled name,
    /// superclass, kind and size of a record, count; then the records: flags, type, name.
    func fields(of descriptor: UInt64) -> [Field] {
        if let known = fields[descriptor] { return known }
        var read: [Field] = []
        let start = relative(descriptor &+ 16)
        let header = start == 0 ? [] : memory.records(UInt32.self, at: start, count: 4)
        if header.count == 4, header[2] >> 16 == 12, header[3] <= Self.mostFields {
            let words = memory.records(UInt32.self, at: start &+ 16, count: Int(header[3]) * 3)
            for index in 0..<words.count / 3 {
                let distance = Int32(bitPattern: words[index * 3 + 1])
                let place = start &+ 16 &+ UInt64(index) * 12 &+ 4
                read.append(
                    Field(
                        isIndirect: words[index * 3] & 1 != 0,
                        type: distance == 0 ? 0 : place &+ UInt64(bitPattern: Int64(distance))))
            }
        }
        fields[descriptor] = read
        return read
    }

    /// The generic arguments at an address; nil if some of them are not types.
    func arguments(of descriptor: UInt64, at address: UInt64) -> [TypeNode]? {
        let flags = half(descriptor)
        guard flags & 0x80 != 0 else { return [] }
        // The fixed part of the descriptor is followed by two words of 32 bits, the numbers of parameters, requirements
        // and key arguments, and flags.
        let fixed: UInt64 = flags & 0x1f == ContextKind.classType ? 44 : 28
        let header = memory.records(UInt16.self, at: descriptor &+ fixed &+ 8, count: 4)
        guard header.count == 4, header[0] <= Self.mostArguments, header[2] >= header[0], header[3] & 1 == 0 else {
            return nil
        }
        return memory.records(UInt64.self, at: address, count: Int(header[0])).map { .metadata($0) }
    }

    // MARK: Types

    private func layout(_ type: TypeNode, _ depth: Int) -> ValueLayout {
        remaining -= 1
        guard remaining > 0, depth < Self.deepest else { return .unknown }
        switch type {
        case .unknown, .parameter: return .unknown
        case .number(let bytes): return .number(bytes)
        case .object: return .reference(.strong)
        case .pointer: return .reference(.pointer)
        case .function: return Self.function
        case .errorExistential: return .reference(.strong)
        case .existential(let isClassBound, let tables): return Self.existential(isClassBound, tables)
        case .storage(let kind, let inner): return storage(kind, inner, depth)
        case .tuple(let elements): return sequence(elements, depth)
        case .standard(let letter, let arguments): return standard(letter, arguments, depth)
        case .nominal(let descriptor, let arguments): return nominal(descriptor, arguments, depth)
        case .metadata(let address): return layout(metadata: address, depth)
        }
    }

    private static let function: ValueLayout = {
        var layout = ValueLayout.number(8, extraInhabitants: 4096)
        layout.append(.reference(.strong))
        layout.spareBits = nil
        return layout
    }()

    private static func existential(_ isClassBound: Bool, _ tables: UInt64) -> ValueLayout {
        if isClassBound {
            var layout = ValueLayout.reference(.strong)
            for _ in 0..<min(tables, 16) { layout.append(.number(8)) }
            layout.spareBits = nil
            return layout
        }
        // Three words for the value, or one for a box that holds it; then its metadata and the witness tables.
        return ValueLayout(
            size: 32 + 8 * tables, alignment: 8, extraInhabitants: 4096,
            places: [ValueLayout.Place(range: 0..<existentialBuffer, kind: .erased)])
    }

    /// Bytes in front of the metadata in an existential.
    static let existentialBuffer: UInt64 = 24

    /// What a word of the value in an existential refers to.
    ///
    /// - Parameters:
    ///   - metadata: the type of the value; 0 if there is none.
    ///   - offset: offset of the word in the existential, in bytes.
    func erased(_ metadata: UInt64, at offset: UInt64) -> ReferenceKind {
        if metadata == 0 { return .number }
        let layout: ValueLayout
        if let known = values[metadata] {
            layout = known
        } else {
            beginClass()
            let flags = half(word(metadata &- 8) &+ 80)
            let isBoxed = flags & Self.isNotInline != 0
            layout = isBoxed ? .reference(.strong) : self.layout(of: .metadata(metadata))
            values[metadata] = layout
        }
        let kind = layout.places.place(at: offset)?.kind ?? .number
        return kind == .erased ? .unknown : kind
    }

    /// Bit in the flags of value witnesses: an existential stores the value in a box.
    private static let isNotInline: UInt32 = 0x2_0000

    private func storage(_ kind: ReferenceKind, _ inner: TypeNode, _ depth: Int) -> ValueLayout {
        var inner = inner
        while case .standard(UInt8(ascii: "q"), let arguments) = inner, arguments.count == 1 { inner = arguments[0] }
        let layout = layout(inner, depth + 1)
        guard layout.size != nil, layout.places.first?.kind == .strong else { return .unknown }
        var result = layout.with(kind)
        if kind == .weak {
            result.extraInhabitants = 0
            result.spareBits = nil
        }
        return result
    }

    private func sequence(_ types: [TypeNode], _ depth: Int) -> ValueLayout {
        var result = ValueLayout(size: 0, spareBits: [])
        for type in types { result.append(layout(type, depth + 1)) }
        return result
    }

    private func standard(_ letter: UInt8, _ arguments: [TypeNode], _ depth: Int) -> ValueLayout {
        switch UnicodeScalar(letter) {
        case "i", "u", "d": return .number(8)
        case "f": return .number(4)
        case "b":
            var layout = ValueLayout.number(1, extraInhabitants: 254)
            layout.spareBits = [0xfe]
            return layout
        case "S", "J": return Self.string(at: 8)
        case "s": return Self.string(at: 24)
        case "a", "D", "h": return .reference(.strong)
        case "P", "p", "V", "v", "O": return .reference(.pointer)
        case "R", "r", "W", "w":
            // The second word of a buffer pointer is a count; that of a raw buffer pointer, a pointer to the end of the
            // buffer.
            let isRaw = letter == UInt8(ascii: "W") || letter == UInt8(ascii: "w")
            var layout = ValueLayout.reference(.pointer)
            layout.append(isRaw ? .reference(.pointer) : .number(8))
            layout.extraInhabitants = 0
            return layout
        case "n", "N": return arguments.count == 1 ? sequence([arguments[0], arguments[0]], depth) : .unknown
        case "q":
            guard arguments.count == 1 else { return .unknown }
            return Self.singlePayload(layout(arguments[0], depth + 1), otherCases: 1)
        default: return .unknown
        }
    }

    // A string's storage is behind the flags; a small string has its characters there.
    private static func string(at offset: UInt64) -> ValueLayout {
        ValueLayout(
            size: offset + 8, alignment: 8, extraInhabitants: 4096,
            spareBits: Array(repeating: 0, count: Int(offset) + 8),
            places: [ValueLayout.Place(range: offset..<offset + 8, kind: .strong)])
    }

    private func nominal(_ descriptor: UInt64, _ arguments: [TypeNode], _ depth: Int) -> ValueLayout {
        switch half(descriptor) & 0x1f {
        case ContextKind.classType: return .reference(.strong)
        case ContextKind.structType:
            let fields = fields(of: descriptor)
            // A struct without fields may be a C struct, whose descriptor may lack fields, or have the layout of
            // another type (@_rawLayout).
            guard !fields.isEmpty, isSwift(descriptor), !fields.contains(where: { $0.type == 0 }) else {
                return .unknown
            }
            return sequence(fields.map { substituted(type(at: $0.type), arguments) }, depth)
        case ContextKind.enumType: return enumeration(descriptor, arguments, depth)
        default: return .unknown
        }
    }

    // False for types of C, whose descriptors may lack fields.
    private func isSwift(_ descriptor: UInt64) -> Bool { module(of: descriptor) != "__C" }

    /// The module that directly contains a type; nil if the type is nested in another type.
    func module(of descriptor: UInt64) -> String? {
        let place = descriptor &+ 4
        let distance = Int32(bitPattern: half(place))
        // If the low bit is set, the relative pointer leads to a pointer to the parent.
        var parent = place &+ UInt64(bitPattern: Int64(distance & ~1))
        if distance & 1 != 0 { parent = word(parent) }
        return distance != 0 && half(parent) & 0x1f == ContextKind.module ? text(relative(parent &+ 8)) : nil
    }

    func text(_ address: UInt64) -> String {
        String(decoding: memory.read(at: address, upTo: 64).prefix { $0 != 0 }, as: UTF8.self)
    }

    // MARK: Enums

    private func enumeration(_ descriptor: UInt64, _ arguments: [TypeNode], _ depth: Int) -> ValueLayout {
        let cases = fields(of: descriptor)
        guard !cases.isEmpty, isSwift(descriptor) else { return .unknown }
        var payloads: [ValueLayout] = []
        // If the type of a payload depends on a generic parameter, the enum's layout does not use spare bits.
        var isDependent = false
        for one in cases where one.type != 0 {
            let type = type(at: one.type)
            let payload: ValueLayout =
                one.isIndirect ? .reference(.strong) : layout(substituted(type, arguments), depth + 1)
            let depends = !one.isIndirect && type.isGeneric
            // A case whose payload is always empty counts as a case without a payload.
            if payload.size == 0, !depends { continue }
            isDependent = isDependent || depends
            payloads.append(payload)
        }
        let others = UInt64(cases.count - payloads.count)
        switch payloads.count {
        case 0:
            if others == 1 { return ValueLayout(size: 0, spareBits: []) }
            if others > 256 { return .number(2, extraInhabitants: 65536 - others) }
            // If a case has an empty payload, the enum formally takes the extra inhabitants of the payload, which has
            // none.
            let isPlain = cases.allSatisfy { $0.type == 0 }
            var layout = ValueLayout.number(1, extraInhabitants: isPlain ? 256 - others : 0)
            layout.spareBits = [UInt8(truncatingIfNeeded: 0xff << Self.bits(others))]
            return layout
        case 1: return Self.singlePayload(payloads[0], otherCases: others)
        default: return Self.severalPayloads(payloads, otherCases: others, isDependent: isDependent)
        }
    }

    // The number of bits that distinguish `count` cases.
    private static func bits(_ count: UInt64) -> Int {
        count <= 1 ? 0 : UInt64.bitWidth - (count - 1).leadingZeroBitCount
    }

    // As SinglePayloadEnumImplStrategy of the Swift compiler (GenEnum.cpp).
    static func singlePayload(_ payload: ValueLayout, otherCases: UInt64) -> ValueLayout {
        guard otherCases > 0, let size = payload.size else { return payload }
        var layout = payload
        layout.spareBits = Array(repeating: 0, count: Int(size))
        if payload.extraInhabitants >= otherCases {
            layout.extraInhabitants -= otherCases
        } else {
            // Add a tag byte. Cases with the same tag are distinguished by bit patterns of the payload.
            let remaining = otherCases - payload.extraInhabitants
            let perTag: UInt64 = size >= 4 ? .max : 1 << (8 * size)
            let tags = 1 + remaining / perTag + (remaining % perTag > 0 ? 1 : 0)
            layout.size = size + 1
            layout.extraInhabitants = 0
            layout.spareBits?.append(UInt8(truncatingIfNeeded: 0xff << bits(tags)))
        }
        return layout
    }

    // As MultiPayloadEnumImplStrategy of the Swift compiler (GenEnum.cpp).
    private static func severalPayloads(
        _ payloads: [ValueLayout], otherCases: UInt64, isDependent: Bool
    ) -> ValueLayout {
        var layout = ValueLayout(size: 0)
        layout.places = payloads.flatMap(\.places)
        layout.alignment = payloads.map(\.alignment).max() ?? 1
        let sizes = payloads.compactMap(\.size)
        guard sizes.count == payloads.count, let largest = sizes.max() else {
            layout.size = nil
            layout.places.append(ValueLayout.Place(range: 0..<UInt64.max, kind: .unknown))
            return layout
        }
        let spare = payloads.compactMap(\.spareBits)
        guard isDependent || spare.count == payloads.count else {
            layout.size = nil
            layout.places.append(ValueLayout.Place(range: largest..<UInt64.max, kind: .unknown))
            return layout
        }
        // All bits after a shorter payload are spare as well.
        var common = (0..<Int(largest)).map { byte in
            isDependent ? 0 : spare.reduce(UInt8.max) { $0 & (byte < $1.count ? $1[byte] : 0xff) }
        }
        let count = common.reduce(0) { $0 + $1.nonzeroBitCount }
        let used = 8 * largest - UInt64(count)
        // The cases without payload share tags, and are distinguished by the bits that payloads use.
        let perTag: UInt64 = used >= 32 ? .max : 1 << used
        let tags = UInt64(payloads.count) + otherCases / perTag + (otherCases % perTag > 0 ? 1 : 0)
        let extra = max(0, bits(tags) - count)
        layout.size = largest + (extra > 0 ? 1 : 0)
        let values: UInt64 = 1 << UInt64(min(count + (extra > 0 ? 8 : 0), 32))
        layout.extraInhabitants = min(values, 1 << 31) - min(tags, values)
        if isDependent { return layout }
        // Tags take the most significant of the spare bits.
        var taken = min(bits(tags), count)
        for byte in common.indices.reversed() where taken > 0 {
            while taken > 0, common[byte] != 0 {
                common[byte] &= ~(1 << UInt8(7 - common[byte].leadingZeroBitCount))
                taken -= 1
            }
        }
        layout.spareBits = extra > 0 ? common + [UInt8(truncatingIfNeeded: 0xff << extra)] : common
        return layout
    }

    // MARK: Metadata

    private enum Kind {
        static let classType: UInt64 = 0, structType: UInt64 = 0x200, enumType: UInt64 = 0x201
        static let optional: UInt64 = 0x202, foreignClass: UInt64 = 0x203, tuple: UInt64 = 0x301
        static let function: UInt64 = 0x302, existential: UInt64 = 0x303, metatype: UInt64 = 0x304
    }

    // Value witnesses: size, stride, flags (the low byte is the alignment's mask) and the number of extra inhabitants.
    private func layout(metadata: UInt64, _ depth: Int) -> ValueLayout {
        let kind = word(metadata)
        if kind == Kind.classType || kind == Kind.foreignClass { return .reference(.strong) }
        let witnesses = memory.records(UInt64.self, at: word(metadata &- 8) &+ 64, count: 3)
        guard metadata & 7 == 0, witnesses.count == 3, witnesses[0] < ValueLayout.largest else { return .unknown }
        let known = layout(metadata, kind: kind, depth)
        let extra = witnesses[2] >> 32
        if known.size == witnesses[0] {
            var result = known
            result.alignment = (witnesses[2] & 0xff) + 1
            result.extraInhabitants = extra
            return result
        }
        return ValueLayout(
            size: witnesses[0], alignment: (witnesses[2] & 0xff) + 1, extraInhabitants: extra,
            places: [ValueLayout.Place(range: 0..<witnesses[0], kind: .unknown)])
    }

    private func layout(_ metadata: UInt64, kind: UInt64, _ depth: Int) -> ValueLayout {
        switch kind {
        case Kind.structType, Kind.enumType, Kind.optional:
            let descriptor = word(metadata &+ 8)
            guard let arguments = arguments(of: descriptor, at: metadata &+ 16) else { return .unknown }
            return nominal(descriptor, arguments, depth + 1)
        case Kind.tuple:
            let count = word(metadata &+ 8)
            guard count <= UInt64(Self.mostArguments) else { return .unknown }
            let elements = memory.records(UInt64.self, at: metadata &+ 24, count: Int(count) * 2)
            return sequence((0..<elements.count / 2).map { .metadata(elements[$0 * 2]) }, depth)
        case Kind.function: return Self.function
        case Kind.metatype: return .number(8)
        case Kind.existential:
            // Flags: number of witness tables, bits 24 to 29 special protocol (1: Error), bit 31 not class-bound.
            let flags = half(metadata &+ 8)
            if flags >> 24 & 0x3f == 1 { return .reference(.strong) }
            return Self.existential(flags >> 31 == 0, UInt64(flags & 0xff_ffff))
        default: return .unknown
        }
    }
}
