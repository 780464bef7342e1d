// Ordinary Swift: generics, protocols, classes with cycles broken by weak references, dictionaries, closures, Codable,
// errors, concurrency. It prints only checksums, so that its output is the same everywhere.

import Foundation

// MARK: - A random generator with a seed, for equal runs

struct Sequencer: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ (state >> 29)
    }

    mutating func below(_ limit: Int) -> Int { Int(next() >> 33) % limit }
}

struct Checksum: CustomStringConvertible {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: some StringProtocol) {
        for byte in text.utf8 { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    mutating func add(_ number: Int) { add(String(number)) }

    var description: String { String(value, radix: 16) }
}

// MARK: - Protocols with associated types, and generic containers

protocol Weighted {
    var weight: Double { get }
}

protocol Store<Element> {
    associatedtype Element
    mutating func insert(_ element: Element)
    mutating func removeFirst() -> Element?
    var count: Int { get }
}

struct Heap<Element>: Store {
    private var elements: [Element] = []
    private let precedes: (Element, Element) -> Bool

    init(by precedes: @escaping (Element, Element) -> Bool) { self.precedes = precedes }

    var count: Int { elements.count }

    mutating func insert(_ element: Element) {
        elements.append(element)
        var child = elements.count - 1
        while child > 0, precedes(elements[child], elements[(child - 1) / 2]) {
            elements.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() -> Element? {
        guard let first = elements.first else { return nil }
        elements.swapAt(0, elements.count - 1)
        elements.removeLast()
        var parent = 0
        while true {
            var best = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < elements.count && precedes(elements[child], elements[best]) {
                best = child
            }
            if best == parent { return first }
            elements.swapAt(parent, best)
            parent = best
        }
    }
}

final class Cache<Key: Hashable, Value> {
    private final class Entry {
        let key: Key
        var value: Value
        var next: Entry?
        weak var previous: Entry?

        init(_ key: Key, _ value: Value) {
            self.key = key
            self.value = value
        }
    }

    private var entries: [Key: Entry] = [:]
    private var newest: Entry?
    private weak var oldest: Entry?
    private let capacity: Int
    private(set) var evicted = 0

    init(capacity: Int) { self.capacity = capacity }

    subscript(key: Key) -> Value? {
        get {
            guard let entry = entries[key] else { return nil }
            unlink(entry)
            pushFront(entry)
            return entry.value
        }
        set {
            if let old = entries.removeValue(forKey: key) { unlink(old) }
            guard let newValue else { return }
            let entry = Entry(key, newValue)
            entries[key] = entry
            pushFront(entry)
            if entries.count > capacity, let last = oldest {
                unlink(last)
                entries[last.key] = nil
                evicted += 1
            }
        }
    }

    private func pushFront(_ entry: Entry) {
        entry.next = newest
        newest?.previous = entry
        newest = entry
        if oldest == nil { oldest = entry }
    }

    private func unlink(_ entry: Entry) {
        let (previous, next) = (entry.previous, entry.next)
        if oldest === entry { oldest = previous }
        if newest === entry { newest = next }
        previous?.next = next
        next?.previous = previous
        entry.next = nil
        entry.previous = nil
    }

    deinit {
        while let entry = newest { newest = entry.next }  // avoids a recursive release of the chain
    }
}

// MARK: - A model with Codable, enumerations and errors

enum Kind: String, Codable, CaseIterable {
    case tool, part, supply

    var factor: Double {
        switch self {
        case .tool: 1.5
        case .part: 1
        case .supply: 0.25
        }
    }
}

enum Measure: Codable, Equatable {
    case pieces(Int)
    case litres(Double)
    indirect case box(Measure, count: Int)

    var total: Double {
        switch self {
        case .pieces(let number): Double(number)
        case .litres(let amount): amount
        case .box(let inner, let count): inner.total * Double(count)
        }
    }
}

struct Item: Codable, Equatable, Weighted {
    var id: Int
    var name: String
    var kind: Kind
    var measure: Measure
    var tags: Set<String>
    var notes: [String: [Int]]

    var weight: Double { measure.total * kind.factor }
}

enum InventoryError: Error, Equatable {
    case unknown(id: Int)
    case tooHeavy(name: String, weight: Double)
}

final class Shelf {
    let label: String
    private(set) var items: [Item] = []
    weak var room: Room?
    var onChange: ((Shelf, Int) -> Void)?

    init(label: String) { self.label = label }

    func add(_ item: Item) throws {
        guard item.weight < 4000 else { throw InventoryError.tooHeavy(name: item.name, weight: item.weight) }
        items.append(item)
        onChange?(self, items.count)
    }

    func take(id: Int) throws -> Item {
        guard let index = items.firstIndex(where: { $0.id == id }) else { throw InventoryError.unknown(id: id) }
        defer { onChange?(self, items.count) }
        return items.remove(at: index)
    }
}

final class Room {
    nonisolated(unsafe) static var alive = 0
    private(set) var shelves: [String: Shelf] = [:]
    private(set) var changes = 0

    init() { Room.alive += 1 }
    deinit { Room.alive -= 1 }

    func shelf(_ label: String) -> Shelf {
        if let known = shelves[label] { return known }
        let shelf = Shelf(label: label)
        shelf.room = self
        shelf.onChange = { [weak self] _, _ in self?.changes += 1 }
        shelves[label] = shelf
        return shelf
    }
}

extension Collection where Element: Weighted {
    var totalWeight: Double { reduce(0) { $0 + $1.weight } }
}

func makeItem(_ id: Int, _ numbers: inout Sequencer) -> Item {
    let measure: Measure =
        switch numbers.below(3) {
        case 0: .pieces(numbers.below(100))
        case 1: .litres(Double(numbers.below(1000)) / 8)
        default: .box(.box(.pieces(numbers.below(20)), count: 3), count: numbers.below(100))
        }
    return Item(
        id: id, name: "item \(id) \(String(repeating: "ö", count: numbers.below(12)))", kind: Kind.allCases[numbers.below(3)],
        measure: measure, tags: Set((0..<numbers.below(5)).map { _ in "tag\(numbers.below(40))" }),
        notes: ["sizes": (0..<numbers.below(6)).map { _ in numbers.below(99) }])
}

// MARK: - The work

func fillRoom(seed: UInt64, count: Int) -> String {
    var numbers = Sequencer(seed: seed)
    var sum = Checksum()
    let room = Room()
    var refused = 0
    for id in 0..<count {
        let item = makeItem(id, &numbers)
        do {
            try room.shelf("shelf \(numbers.below(20))").add(item)
        } catch InventoryError.tooHeavy(let name, _) {
            refused += name.count
        } catch {
            refused += 1
        }
        if id % 3 == 0, let taken = try? room.shelf("shelf \(numbers.below(20))").take(id: id / 2) { sum.add(taken.name) }
    }
    for (label, shelf) in room.shelves.sorted(by: { $0.key < $1.key }) {
        sum.add("\(label) \(shelf.items.count) \(shelf.items.totalWeight) \(shelf.room === room)")
    }
    return "\(sum) refused \(refused) changes \(room.changes)"
}

func encodeAndDecode(count: Int) throws -> String {
    var numbers = Sequencer(seed: 5)
    let items = (0..<count).map { makeItem($0, &numbers) }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys]
    let data = try encoder.encode(items)
    let back = try JSONDecoder().decode([Item].self, from: data)
    let properties = try PropertyListEncoder().encode(items.prefix(200).map(\.notes))
    var refused = 0
    for cut in stride(from: 1, to: 40, by: 3) {
        do { _ = try JSONDecoder().decode([Item].self, from: data.prefix(data.count / cut - 1)) } catch { refused += 1 }
    }
    return "\(back == items) \(properties.count > 100) \(refused)"
}

func order(count: Int) -> String {
    var numbers = Sequencer(seed: 9)
    var heap = Heap<Item> { ($0.weight, $0.id) < ($1.weight, $1.id) }
    for id in 0..<count { heap.insert(makeItem(id, &numbers)) }
    var sum = Checksum()
    while let item = heap.removeFirst() { sum.add(item.id) }
    let cache = Cache<String, [Int]>(capacity: 500)
    var hits = 0
    for _ in 0..<count * 5 {
        let key = "key \(numbers.below(900))"
        if cache[key] != nil { hits += 1 } else { cache[key] = Array(0..<numbers.below(30)) }
    }
    return "\(sum) hits \(hits) evicted \(cache.evicted)"
}

func texts() -> String {
    var sum = Checksum()
    let text = (0..<4000).map { "line \($0): naïve café № \($0 * 7 % 101)" }.joined(separator: "\n")
    for line in text.split(separator: "\n") {
        let words = line.split(whereSeparator: { !$0.isLetter && !$0.isNumber })
        sum.add(words.map { $0.uppercased() }.sorted().joined(separator: "-"))
    }
    sum.add(text.replacing("café", with: "thé").components(separatedBy: "№").count)
    let counted = Dictionary(grouping: text, by: { $0 }).mapValues(\.count).sorted { $0.key < $1.key }
    for (character, count) in counted { sum.add("\(character)\(count)") }
    return sum.description
}

actor Ledger {
    private var totals: [Int: Int] = [:]
    func record(_ task: Int, _ value: Int) { totals[task % 5, default: 0] += value }
    var summary: String { totals.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ") }
}

@main
struct Program {
    /// The first argument is the number of rounds, one if absent.
    static func main() async throws {
        let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1
        for _ in 0..<rounds { try await work() }
    }

    static func work() async throws {
        print("room", fillRoom(seed: 1, count: 20000))
        print("codable", try encodeAndDecode(count: 1500))
        print("order", order(count: 8000))
        print("texts", texts())
        let ledger = Ledger()
        let answers = await withTaskGroup(of: (Int, String).self) { group in
            for task in 0..<8 {
                group.addTask {
                    for step in 0..<500 { await ledger.record(task, step) }
                    var numbers = Sequencer(seed: UInt64(task))
                    let items = (0..<2000).map { makeItem($0, &numbers) }
                    return (task, "\(items.totalWeight) \(Set(items.flatMap(\.tags)).count)")
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        for (task, answer) in answers.sorted(by: { $0.key < $1.key }) { print("task", task, answer) }
        print("ledger", await ledger.summary)
        print("rooms alive", Room.alive)
    }
}
