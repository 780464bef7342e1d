// Lists, trees, graphs and buffers: how objects are linked and destroyed.

import Foundation

/// The deinit of a link recurses along the whole list.
final class Link: Tracked, @unchecked Sendable {
    var next: Link?
    let number: Int

    init(_ number: Int, _ next: Link?) {
        self.number = number
        self.next = next
        super.init()
    }
}

indirect enum Expression {
    case number(Int)
    case sum(Expression, Expression)
    case product(Expression, Expression)
    case named(Leaf, Expression)

    static func make(_ depth: Int, _ numbers: inout Numbers) -> Expression {
        if depth == 0 { return .number(numbers.below(10)) }
        switch numbers.below(3) {
        case 0: return .sum(make(depth - 1, &numbers), make(depth - 1, &numbers))
        case 1: return .product(make(depth - 1, &numbers), .number(numbers.below(5)))
        default: return .named(Leaf(numbers.below(7)), make(depth - 1, &numbers))
        }
    }

    var value: Int {
        switch self {
        case .number(let number): number
        case .sum(let left, let right): left.value &+ right.value
        case .product(let left, let right): left.value &* right.value
        case .named(let leaf, let inner): leaf.value &+ inner.value
        }
    }

    func doubled() -> Expression {
        switch self {
        case .number(let number): .number(number * 2)
        case .sum(let left, let right): .sum(left.doubled(), right)
        case .product(let left, let right): .product(left, right.doubled())
        case .named(let leaf, let inner): .named(leaf, inner.doubled())
        }
    }
}

/// A graph with many cycles, which are broken explicitly at the end.
final class Vertex: Tracked, @unchecked Sendable {
    var edges: [Vertex] = []
    var back: [ObjectIdentifier: WeakBox<Vertex>] = [:]
    var onVisit: (() -> Int)?
    let number: Int

    init(_ number: Int) {
        self.number = number
        super.init()
        onVisit = { [self] in self.edges.count }  // a cycle through a closure
    }

    func connect(_ other: Vertex) {
        edges.append(other)
        other.back[ObjectIdentifier(self)] = WeakBox(object: self)
    }

    func cut() {
        edges.removeAll()
        onVisit = nil
    }
}

/// Elements behind a header, in the class's own memory (tail allocation).
final class Buffer: ManagedBuffer<Buffer.Header, Leaf> {
    struct Header {
        var count: Int
        var name: String
    }

    static func make(_ count: Int) -> Buffer {
        let buffer = create(minimumCapacity: count) { _ in Header(count: count, name: "buffer of \(count) leaves") }
        let made = unsafeDowncast(buffer, to: Buffer.self)
        made.withUnsafeMutablePointerToElements { for at in 0..<count { ($0 + at).initialize(to: Leaf(at)) } }
        return made
    }

    var total: Int {
        withUnsafeMutablePointers { header, elements in
            (0..<header.pointee.count).reduce(header.pointee.name.count) { $0 + elements[$1].value }
        }
    }

    deinit {
        _ = withUnsafeMutablePointers { header, elements in elements.deinitialize(count: header.pointee.count) }
    }
}

/// A value type with its own copy on write.
struct Ledger {
    private final class Storage: Tracked, @unchecked Sendable {
        var entries: [Int: [Leaf]]
        init(_ entries: [Int: [Leaf]]) {
            self.entries = entries
            super.init()
        }
    }

    private var storage = Storage([:])
    private(set) var copies = 0

    mutating func add(_ value: Int, under key: Int) {
        if !isKnownUniquelyReferenced(&storage) {
            storage = Storage(storage.entries)
            copies += 1
        }
        storage.entries[key, default: []].append(Leaf(value))
    }

    var total: Int { storage.entries.values.joined().reduce(0) { $0 + $1.value } }
}

/// A noncopyable value with a deinit.
struct Ticket: ~Copyable {
    let leaf: Leaf
    let onEnd: Leaf

    consuming func redeem() -> Int {
        let value = leaf.value
        discardValue()
        return value
    }

    private consuming func discardValue() { _ = opaque(onEnd.value) }

    deinit { require(leaf.isIntact && onEnd.isIntact, "a ticket's leaves went before it") }
}

func lists() -> Int {
    var sum = 0
    for length in [1, 10, 1000, 12_000] {
        var list: Link?
        for number in 0..<length { list = Link(number, list) }
        var at = list
        while let link = at {
            sum += link.number
            at = link.next
        }
        at = nil
        list = nil  // recursive deinit of the whole list
    }
    return sum
}

func graphs(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    for _ in 0..<6 {
        var vertices = (0..<200).map { Vertex($0) }
        for _ in 0..<1500 { vertices[numbers.below(200)].connect(vertices[numbers.below(200)]) }
        var seen = Set<ObjectIdentifier>(), queue = [vertices[0]]
        while let vertex = queue.popLast() {
            guard seen.insert(ObjectIdentifier(vertex)).inserted else { continue }
            sum += vertex.number + (vertex.onVisit?() ?? 0) + vertex.back.values.compactMap(\.object).count
            queue.append(contentsOf: vertex.edges)
        }
        for vertex in vertices[100...] { vertex.cut() }
        vertices.removeSubrange(150...)
        for vertex in vertices { vertex.cut() }
    }
    return sum
}

func buffers(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    var kept: [Buffer] = []
    for round in 0..<300 {
        // Some buffers are larger than a slab's slot, or than ZG_RETIRE_LEAST, from which on free() releases pages.
        let count = round % 100 == 99 ? 150_000 : round % 20 == 19 ? 6000 : numbers.below(40)
        let buffer = Buffer.make(count)
        sum &+= buffer.total
        if count < 100 { kept.append(buffer) }
        if kept.count > 20 { kept.remove(at: numbers.below(kept.count)) }
    }
    return sum &+ kept.reduce(0) { $0 &+ $1.total }
}

func values(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    var ledgers = [Ledger()]
    for round in 0..<1500 {
        let at = numbers.below(ledgers.count)
        ledgers[at].add(round, under: numbers.below(9))
        if numbers.below(60) == 0 { ledgers.append(ledgers[at]) }
        if ledgers.count > 8 { ledgers.removeFirst(3) }
        let ticket = Ticket(leaf: Leaf(round), onEnd: Leaf(-round))
        sum &+= round % 2 == 0 ? ticket.redeem() : ticket.leaf.value
    }
    sum &+= ledgers.reduce(0) { $0 &+ $1.total &+ $1.copies }

    // Rows of 1 to 2048 numbers, which are shared until a write.
    let rows = (0..<60).map { Array(repeating: $0, count: 1 << ($0 % 12)) }
    var copy = rows
    for at in stride(from: 0, to: copy.count, by: 3) { copy[at][0] += 1 }
    copy.swapAt(0, 59)
    copy[5].append(contentsOf: copy[7] + copy[11])
    copy[9].removeAll(keepingCapacity: true)
    sum &+= zip(rows, copy).reduce(0) { $0 &+ $1.0.reduce(0, &+) &- $1.1.reduce(0, &+) }
    var growing: [Leaf] = []
    for number in 0..<20_000 { growing.append(Leaf(number)) }
    growing.reverse()
    growing.removeAll { $0.value % 3 == 0 }
    return growing.reduce(sum) { $0 &+ $1.value }
}

func structures(_ seed: Int) -> String {
    var numbers = Numbers(seed: seed)
    var sum = Checksum()
    sum.add(lists())
    for _ in 0..<20 {
        let expression = Expression.make(11, &numbers)
        sum.add(expression.value)
        sum.add(expression.doubled().value)
    }
    sum.add(graphs(seed))
    sum.add(buffers(seed))
    sum.add(values(seed))
    return sum.description
}
