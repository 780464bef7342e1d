// Class hierarchies, generics, existentials, casts, key paths, closures, errors and reflection.

import Foundation

protocol Shape: AnyObject {
    var area: Double { get }
    func scaled(by factor: Double) -> any Shape
    init()
}

extension Shape {
    var label: String { "\(type(of: self)) \(Int(area))" }
}

class Polygon: Tracked, Shape, @unchecked Sendable {
    var corners: Int { 0 }
    var side = 1.0
    private(set) lazy var names: [String] = (0..<corners).map { "corner \($0) of \(corners)" }

    required override init() { super.init() }

    var area: Double { side * side * Double(corners) / 4 }

    func scaled(by factor: Double) -> any Shape {
        let copy = type(of: self).init()
        copy.side = side * factor
        return copy
    }
}

class Triangle: Polygon, @unchecked Sendable {
    override var corners: Int { 3 }
    override var area: Double { super.area * 0.577 }
}

final class Square: Polygon, @unchecked Sendable {
    override var corners: Int { 4 }
}

final class Odd<Element: Hashable>: Triangle, @unchecked Sendable {
    var extra: Set<Element> = []
    override var area: Double { super.area + Double(extra.count) }
}

/// Aligned to 16 bytes, so that the Swift runtime uses another allocation function.
final class Vector: Tracked, Shape, @unchecked Sendable {
    var lanes = SIMD8<Float>(1, 2, 3, 4, 5, 6, 7, 8)

    required override init() { super.init() }

    var area: Double { Double(lanes.sum()) }

    func scaled(by factor: Double) -> any Shape {
        let copy = Vector()
        copy.lanes = lanes * Float(factor)
        return copy
    }
}

/// Instances of many sizes: each level adds 16 bytes.
class Sized<Payload>: Tracked, @unchecked Sendable {
    var payload: Payload
    init(_ payload: Payload) {
        self.payload = payload
        super.init()
    }
}

struct Pair<Half> {
    var left: Half
    var right: Half
}

func nested(_ depth: Int, _ leaf: Leaf) -> Tracked {
    func grow<Value>(_ value: Value, _ left: Int) -> Tracked {
        left == 0 ? Sized(value) : grow(Pair(left: value, right: value), left - 1)
    }
    return grow(leaf, depth)
}

enum Trouble: Error {
    case small(Int)
    case large(Leaf, String, [Int])
}

final class TroubleObject: Tracked, Error, @unchecked Sendable {
    let reason: String
    init(_ reason: String) {
        self.reason = reason
        super.init()
    }
}

@inline(never)
func mayThrow(_ number: Int) throws -> Int {
    switch number % 5 {
    case 0: throw Trouble.small(number)
    case 1: throw Trouble.large(Leaf(number), "number \(number) is large", [number])
    case 2: throw TroubleObject("object \(number)")
    case 3: throw NSError(domain: "exerciser", code: number, userInfo: ["leaf": Leaf(number)])
    default: return number
    }
}

func errors() -> Int {
    var sum = 0
    var kept: [any Error] = []
    for number in 0..<2000 {
        do {
            sum += try mayThrow(number)
        } catch Trouble.large(let leaf, let text, let list) {
            sum += leaf.value + text.count + list.count
        } catch let error as TroubleObject {
            sum += error.reason.count
            kept.append(error)
        } catch {
            if let leaf = (error as NSError).userInfo["leaf"] as? Leaf { sum += leaf.value }
            kept.append(error)
        }
        if kept.count > 50 { kept.removeFirst(25) }
        if case .failure(let error) = Result(catching: { try mayThrow(number + 1) }), error is TroubleObject { sum += 1 }
    }
    return sum + kept.count
}

func shapes(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    let kinds: [any Shape.Type] = [Triangle.self, Square.self, Odd<Int>.self, Odd<String>.self, Odd<[Int]>.self, Vector.self]
    var all: [any Shape] = []
    var sum = Checksum()
    for round in 0..<3000 {
        let shape = kinds[numbers.below(kinds.count)].init()
        all.append(shape.scaled(by: Double(1 + numbers.below(5))))
        if let odd = all[numbers.below(all.count)] as? Odd<Int> { odd.extra.insert(round % 50) }
        if let polygon = all[numbers.below(all.count)] as? Polygon { sum.add(polygon.names.count) }
        if all.count > 100 { all.remove(at: numbers.below(100)) }
        if round % 10 == 0 { sum.add(all[numbers.below(all.count)].label) }
        let any: Any = all[numbers.below(all.count)]
        switch any {
        case let odd as Odd<String>: sum.add(odd.corners)
        case let triangle as Triangle: sum.add(Int(triangle.area))
        case is Square: sum.add(4)
        default: sum.add((any as? Vector)?.isIntact == true ? 8 : 0)
        }
    }
    for depth in 0..<9 {
        let object = nested(depth, Leaf(depth))
        sum.add(String(describing: type(of: object)).count)
        sum.add(Mirror(reflecting: object).children.count)
        sum.add("\(Mirror(reflecting: object).children.first?.value ?? 0)".count % 100)
    }
    return Int(truncatingIfNeeded: sum.value)
}

struct Place {
    var name: String
    var leaf: Leaf
    var numbers: [Int]
    var inner: [String: Leaf]
}

func keyPaths(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var place = Place(name: "place", leaf: Leaf(3), numbers: Array(0..<20), inner: ["a": Leaf(1)])
    let row: WritableKeyPath<Place, [Int]> = opaque(\.numbers)
    var sum = 0
    for round in 0..<1500 {
        let at = numbers.below(20)
        let element: WritableKeyPath<[Int], Int> = \.[at]
        let path: WritableKeyPath<Place, Int> = row.appending(path: element)
        place[keyPath: path] += round
        sum += place[keyPath: path] + place[keyPath: \.leaf.value]
        let key = "key \(numbers.below(10))"
        let keyed: WritableKeyPath<Place, Leaf?> = \Place.inner[key]
        place[keyPath: keyed] = place[keyPath: keyed] == nil ? Leaf(round) : nil
        let partial: [PartialKeyPath<Place>] = [\.name, \.leaf, path, keyed]
        sum += partial.firstIndex(of: row.appending(path: element)) ?? -1
        sum += Set(partial).count
    }
    return sum + place.inner.count
}

func closures(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    var steps: [(Int) -> Int] = [{ $0 + 1 }]
    for round in 0..<2000 {
        let leaf = Leaf(round)
        var counter = 0
        let previous = steps[numbers.below(steps.count)]
        steps.append { [weak leaf] in
            counter += 1
            return (leaf?.value ?? $0) &+ counter
        }
        steps.append(round % 64 == 0 ? { _ in leaf.value } : { previous($0) &+ leaf.value })
        if steps.count > 60 { steps.removeSubrange(0..<40) }
        sum = steps[numbers.below(steps.count)](sum % 1_000_000)
    }
    let lazily = (0..<3000).lazy.map { Leaf($0) }.filter { $0.value % 7 == 0 }.flatMap { [$0, $0] }
    sum = lazily.prefix(300).reduce(sum) { $0 &+ $1.value }
    let sorted = (0..<2000).map { _ in AnyHashable(numbers.below(2) == 0 ? "\(numbers.below(99))" : "x") }.sorted { "\($0)" < "\($1)" }
    return sum &+ Set(sorted).count
}

func types(_ seed: Int) -> String {
    var sum = Checksum()
    sum.add(errors())
    sum.add(shapes(seed))
    sum.add(keyPaths(seed))
    sum.add(closures(seed))
    return sum.description
}
