// Reads the mangled types of Swift's reflection metadata, as far as a layout needs them.

import ZombieGuard

/// A type of a stored property, element or captured value.
indirect enum TypeNode {
    case unknown
    /// A struct or enum of the standard library by the letter of its substitution, such as `a` for Array: see
    /// Mangling.rst.
    case standard(UInt8, [TypeNode])
    /// A class, struct or enum by the address of its descriptor, with the generic arguments of all contexts.
    case nominal(UInt64, [TypeNode])
    case tuple([TypeNode])
    case function
    /// `tables`: number of witness tables.
    case existential(isClassBound: Bool, tables: UInt64)
    case errorExistential
    /// A generic parameter by its index.
    case parameter(Int)
    /// A type by the address of its runtime metadata.
    case metadata(UInt64)
    /// Bits without a reference.
    case number(bytes: UInt64)
    /// An owning reference to an object.
    case object
    case pointer
    /// A weak, unowned or unmanaged reference of this type.
    case storage(ReferenceKind, TypeNode)

    /// Whether the type has a generic parameter.
    var isGeneric: Bool {
        switch self {
        case .parameter: true
        case .standard(_, let types), .nominal(_, let types), .tuple(let types): types.contains(where: \.isGeneric)
        case .storage(_, let inner): inner.isGeneric
        default: false
        }
    }
}

/// What a word of an object refers to, and whether it keeps its target alive.
package enum ReferenceKind: Hashable {
    /// Nothing is known: taken for a reference that keeps its target alive.
    case unknown
    case strong, weak, unowned, unmanaged
    /// An unsafe pointer, whose memory the program manages.
    case pointer
    /// Not a reference.
    case number
    /// A word of the value in an existential, whose type follows from the metadata behind it. Only within layouts.
    case erased
}

/// Parses one mangled type. Symbolic references are a control byte and a relative address of four bytes.
struct TypeParser {
    private enum Item {
        case type(TypeNode)
        case protocolType(isClassBound: Bool, isError: Bool, hasTable: Bool)
        case empty // y
        case first // _, behind the first element of a list
        case name(String)
        case module(isSwift: Bool)
        case attribute // of a function
    }

    private let memory: any MemoryReader
    private let address: UInt64
    private let bytes: [UInt8]
    private var position = 0
    private var items: [Item] = []
    /// Types and protocols to which substitutions (A) refer by index. Only those of symbolic references are recorded,
    /// until another operator adds a substitution.
    private var substitutions: [Item] = []
    private var knowsSubstitutions = true

    private static let longestType = 512

    static func type(at address: UInt64, in memory: any MemoryReader) -> TypeNode {
        var parser = TypeParser(memory, address)
        return parser.parse() ?? .unknown
    }

    private init(_ memory: any MemoryReader, _ address: UInt64) {
        self.memory = memory
        self.address = address
        bytes = address == 0 ? [] : memory.read(at: address, upTo: Self.longestType)
    }

    private mutating func next() -> UInt8? {
        guard position < bytes.count else { return nil }
        position += 1
        return bytes[position - 1]
    }

    // Returns nil for a type that is not understood.
    private mutating func parse() -> TypeNode? {
        var start = 0
        while let byte = next() {
            if byte == 0 {
                guard items.count == 1, case .type(let type) = items[0] else { return nil }
                return type
            }
            guard byte < 0x20 ? symbol(byte) : step(byte) else { return isBox(from: start) ? .object : nil }
            start = position
        }
        return nil
    }

    // Whether the type ends in the operator for a box, which follows the box's fields and generic signature.
    private func isBox(from start: Int) -> Bool {
        var place = start
        var last: [UInt8] = []
        while place < bytes.count, bytes[place] != 0 {
            let isSymbol = bytes[place] < 0x20
            last = isSymbol ? [] : last.suffix(1) + [bytes[place]]
            place += isSymbol ? 5 : 1
        }
        return place < bytes.count && (last == Array("XX".utf8) || last == Array("Xx".utf8))
    }

    // MARK: Operators

    private mutating func step(_ byte: UInt8) -> Bool {
        switch UnicodeScalar(byte) {
        case "y": items.append(.empty)
        case "_": items.append(.first)
        case "s": items.append(.module(isSwift: true))
        case "x": items.append(.type(.parameter(0)))
        case "K": items.append(.attribute)
        case "n", "h", "d": break // conventions of parameters
        case "z": return replaceType { _ in .pointer }
        case "q": return parameter()
        case "t": return tuple()
        case "G": return boundGeneric()
        case "c": return function(.function)
        case "p": return existential(isClassBound: false)
        case "C", "V", "O": return named(byte)
        case "B": return builtin()
        case "S": return standard()
        case "A": return substitution()
        case "I": return lowered()
        case "m": return metatype()
        case "X": return extended()
        case "Y": return functionAttribute()
        case "1"..."9": return name(byte)
        default: return false
        }
        return true
    }

    private mutating func symbol(_ kind: UInt8) -> Bool {
        guard kind == 1 || kind == 2, position + 4 <= bytes.count else { return false }
        let distance = bytes[position..<position + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        var target = address &+ UInt64(position) &+ UInt64(bitPattern: Int64(Int32(bitPattern: distance)))
        position += 4
        if kind == 2 { target = memory.record(UInt64.self, at: target) ?? 0 }
        guard let flags = memory.record(UInt32.self, at: target) else { return false }
        switch flags & 0x1f {
        case ContextKind.protocolType:
            // Flags of a protocol descriptor, counted from bit 16: 0 not class-bound, 2 to 7 special protocol (1:
            // Error).
            items.append(
                .protocolType(
                    isClassBound: flags >> 16 & 1 == 0, isError: flags >> 18 & 0x3f == 1, hasTable: true))
        case ContextKind.classType, ContextKind.structType, ContextKind.enumType:
            items.append(.type(.nominal(target, [])))
        default: return false
        }
        if knowsSubstitutions, let item = items.last { substitutions.append(item) }
        return true
    }

    // Each letter is an index, lower case if another one follows. A number in front of a letter is a repeat count.
    private mutating func substitution() -> Bool {
        while let (letter, count) = nextRepeated() {
            let isLast = (0x41...0x5a).contains(letter)
            guard isLast || (0x61...0x7a).contains(letter) else { return false }
            let index = Int(letter) - (isLast ? 0x41 : 0x61)
            guard index < substitutions.count else { return false }
            for _ in 0..<count { items.append(substitutions[index]) }
            if isLast { return true }
        }
        return false
    }

    // A function type as closures capture it, such as "Ieg_", which follows its parameter and result types. Returns
    // false unless it is the last operator.
    private mutating func lowered() -> Bool {
        var attributes = bytes[position...].prefix { $0 != UInt8(ascii: "_") && $0 != 0 }
        position = attributes.endIndex + 1
        guard position < bytes.count, bytes[position - 1] == UInt8(ascii: "_"), bytes[position] == 0 else {
            return false
        }
        for optional in ["e", "A"] where attributes.first == optional.utf8.first { attributes.removeFirst() }
        // Thick functions guarantee (g), consume (x) or do not own (y) their context. Reject C functions, blocks and
        // methods.
        guard let convention = attributes.popFirst(), "gxy".utf8.contains(convention),
            !(attributes.first.map { "BCzMJKW".utf8.contains($0) } ?? false)
        else { return false }
        items = [.type(.function)]
        return true
    }

    private mutating func metatype() -> Bool {
        guard case .type(let type) = items.popLast() else { return false }
        switch type {
        case .object: items.append(.type(.number(bytes: 8)))
        case .nominal(let descriptor, _)
        where memory.record(UInt32.self, at: descriptor).map { $0 & 0x1f } == ContextKind.classType:
            items.append(.type(.number(bytes: 8)))
        default: items.append(.type(.unknown)) // takes no bytes if the metatype has only one value
        }
        return true
    }

    // Reads a letter, and the repeat count in front of it, if any.
    private mutating func nextRepeated() -> (letter: UInt8, count: Int)? {
        var count = 0
        while let byte = next() {
            guard (0x30...0x39).contains(byte), count < 100 else { return (byte, max(1, count)) }
            count = count * 10 + Int(byte - 0x30)
        }
        return nil
    }

    private mutating func standard() -> Bool {
        guard let (letter, count) = nextRepeated() else { return false }
        switch UnicodeScalar(letter) {
        case "g":
            knowsSubstitutions = false
            return replaceType { .standard(UInt8(ascii: "q"), [$0]) }
        case "o", "C": items.append(.module(isSwift: false))
        case "c": return concurrency()
        case "B", "E", "e", "F", "G", "H", "j", "K", "k", "L", "l", "M", "m", "Q", "T", "t", "U", "X", "x", "Y", "y",
            "Z", "z":
            items.append(.protocolType(isClassBound: false, isError: false, hasTable: true))
        case "a"..."z", "A"..."Z":
            for _ in 0..<count { items.append(.type(.standard(letter, []))) }
        default: return false
        }
        return true
    }

    private mutating func concurrency() -> Bool {
        switch next().map(UnicodeScalar.init) {
        // Task, UnsafeCurrentTask, MainActor, and structs of one object: streams and continuations. A task that waits
        // for its continuation has no other owner.
        case "T", "t", "M", "S", "s", "C", "c": items.append(.type(.object))
        // Task groups, UnownedJob.
        case "G", "g", "J": items.append(.type(.pointer))
        case "P": items.append(.type(.number(bytes: 1))) // TaskPriority
        case "E": items.append(.type(.tuple([]))) // CancellationError
        // Actor and executors, then asynchronous sequences.
        case "A", "F", "f", "h": items.append(.protocolType(isClassBound: true, isError: false, hasTable: true))
        case "I", "i": items.append(.protocolType(isClassBound: false, isError: false, hasTable: true))
        case nil: return false
        default: items.append(.type(.unknown))
        }
        return true
    }

    private mutating func builtin() -> Bool {
        switch next().map(UnicodeScalar.init) {
        case "o", "O", "b": items.append(.type(.object))
        case "p": items.append(.type(.pointer))
        case "w": items.append(.type(.number(bytes: 8)))
        case "i", "f":
            guard let bits = number(), bits > 0 else { return false }
            // Round the size up to a power of two, at least one byte: Bool is a Builtin.Int1, of one bit.
            var bytes: UInt64 = 1
            while bytes * 8 < UInt64(bits), bytes < 64 { bytes *= 2 }
            items.append(.type(.number(bytes: bytes)))
        default: return false
        }
        return true
    }

    private mutating func extended() -> Bool {
        switch next().map(UnicodeScalar.init) {
        case "w": return replaceType { .storage(.weak, $0) }
        case "o": return replaceType { .storage(.unowned, $0) }
        case "u": return replaceType { .storage(.unmanaged, $0) }
        case "b": return replaceType { _ in .object } // a box
        case "p":
            guard case .type(.existential(_, let tables)) = items.popLast() else { return false }
            let words = Array(repeating: TypeNode.number(bytes: 8), count: Int(min(tables, 16)) + 1)
            items.append(.type(.tuple(words)))
            return true
        case "l": return existential(isClassBound: true)
        case "c":
            guard case .type = items.popLast() else { return false } // the superclass
            return existential(isClassBound: true)
        case "E": return function(.function)
        case "B": return function(.object) // a block
        case "f", "C": return function(.number(bytes: 8))
        default: return false
        }
    }

    // MARK: Parts

    // A decimal number and "_".
    private mutating func number() -> Int? {
        var number = 0
        while let byte = next(), number < 1 << 20 {
            if byte == UInt8(ascii: "_") { return number }
            guard (0x30...0x39).contains(byte) else { return nil }
            number = number * 10 + Int(byte - 0x30)
        }
        return nil
    }

    private mutating func name(_ first: UInt8) -> Bool {
        knowsSubstitutions = false
        var count = Int(first - 0x30)
        while position < bytes.count, (0x30...0x39).contains(bytes[position]), count < bytes.count {
            count = count * 10 + Int(bytes[position] - 0x30)
            position += 1
        }
        guard position + count <= bytes.count else { return false }
        items.append(.name(String(decoding: bytes[position..<position + count], as: UTF8.self)))
        position += count
        return true
    }

    // The first parameter is x, the second q_, the third q0_. Returns false for parameters of inner contexts (qd).
    private mutating func parameter() -> Bool {
        guard position < bytes.count, bytes[position] != UInt8(ascii: "d") else { return false }
        if bytes[position] == UInt8(ascii: "_") {
            position += 1
            items.append(.type(.parameter(1)))
            return true
        }
        guard let index = number() else { return false }
        items.append(.type(.parameter(index + 2)))
        return true
    }

    private mutating func replaceType(_ body: (TypeNode) -> TypeNode) -> Bool {
        guard case .type(let type) = items.popLast() else { return false }
        items.append(.type(body(type)))
        return true
    }

    // A type or protocol by its name in a module or in another type.
    private mutating func named(_ kind: UInt8) -> Bool {
        guard case .name(let name) = items.popLast(), let context = items.popLast() else { return false }
        if kind == UInt8(ascii: "C") {
            items.append(.type(.object))
            return true
        }
        guard case .module(isSwift: true) = context else {
            items.append(.type(.unknown))
            return true
        }
        let sizes: [String: UInt64] = [
            "Int8": 1, "UInt8": 1, "Int16": 2, "UInt16": 2, "Int32": 4, "UInt32": 4, "Int64": 8, "UInt64": 8,
        ]
        items.append(.type(sizes[name].map { .number(bytes: $0) } ?? .unknown))
        return true
    }

    private mutating func popFirst() -> Bool {
        guard case .first? = items.last else { return false }
        items.removeLast()
        return true
    }

    private mutating func tuple() -> Bool {
        var elements: [TypeNode] = []
        if case .empty? = items.last {
            items.removeLast()
        } else {
            while true {
                let isFirst = popFirst()
                if case .name? = items.last { items.removeLast() }
                guard case .type(let type)? = items.popLast() else { return false }
                elements.append(type)
                if isFirst { break }
            }
        }
        items.append(.type(.tuple(elements.reversed())))
        return true
    }

    private mutating func boundGeneric() -> Bool {
        knowsSubstitutions = false
        var arguments: [TypeNode] = []
        lists: while let item = items.popLast() {
            switch item {
            case .type(let type): arguments.append(type)
            case .empty: break lists
            case .first: continue
            default: return false
            }
        }
        let own = Array(arguments.reversed())
        switch items.popLast() {
        case .type(.nominal(let descriptor, _)): items.append(.type(.nominal(descriptor, own)))
        case .type(.standard(let letter, _)): items.append(.type(.standard(letter, own)))
        case .type(.object): items.append(.type(.object))
        case .type(.pointer): items.append(.type(.pointer))
        case .type: items.append(.type(.unknown))
        default: return false
        }
        return true
    }

    private mutating func function(_ type: TypeNode) -> Bool {
        knowsSubstitutions = false
        while case .attribute? = items.last { items.removeLast() }
        // Pop the parameters, then the result.
        for _ in 0..<2 {
            switch items.popLast() {
            case .type, .empty: continue
            default: return false
            }
        }
        items.append(.type(type))
        return true
    }

    private mutating func functionAttribute() -> Bool {
        switch next().map(UnicodeScalar.init) {
        case "a", "b", "A", "T": break // async, sendable, isolated to any, sending
        case "c", "K": // a global actor, and a type that is thrown
            guard case .type = items.popLast() else { return false }
        default: return false
        }
        items.append(.attribute)
        return true
    }

    // Pops a list of protocols.
    private mutating func existential(isClassBound: Bool) -> Bool {
        var isClassBound = isClassBound
        var isError = false
        var tables: UInt64 = 0
        var count = 0
        if case .empty? = items.last {
            items.removeLast()
        } else {
            while true {
                let isFirst = popFirst()
                guard let item = popProtocol() else { return false }
                isClassBound = isClassBound || item.isClassBound
                isError = isError || item.isError
                tables += item.hasTable ? 1 : 0
                count += item.hasTable ? 1 : 0
                if isFirst { break }
            }
        }
        let isErrorAlone = isError && count == 1 && !isClassBound
        items.append(
            .type(isErrorAlone ? .errorExistential : .existential(isClassBound: isClassBound, tables: tables)))
        return true
    }

    private static let markers: Set<String> = ["Sendable", "Copyable", "Escapable", "BitwiseCopyable"]

    private mutating func popProtocol() -> (isClassBound: Bool, isError: Bool, hasTable: Bool)? {
        switch items.popLast() {
        case .protocolType(let isClassBound, let isError, let hasTable): return (isClassBound, isError, hasTable)
        case .name(let name):
            guard case .module(isSwift: true)? = items.popLast() else { return nil }
            return (false, name == "Error", !Self.markers.contains(name))
        default: return nil
        }
    }
}

/// Kinds of context descriptors (ContextDescriptorKind of the Swift runtime).
enum ContextKind {
    static let module: UInt32 = 0
    static let protocolType: UInt32 = 3
    static let classType: UInt32 = 16
    static let structType: UInt32 = 17
    static let enumType: UInt32 = 18
}
