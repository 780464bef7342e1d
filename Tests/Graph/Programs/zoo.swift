// Objects with stored properties and captured values of all kinds of types, for Tests/Graph/edges.py. Prints "ready"
// and waits for the end of standard input.

import Dispatch
import Foundation
import Glibc
import Synchronization

protocol Plain { var plain: Int { get } }
protocol Other {}
protocol Bound: AnyObject {}
protocol Refined: Bound {}
class Thing: Plain, Bound, Other {
    var plain = 1
}
final class Fine: Thing, Refined, @unchecked Sendable {
    var more: Thing?
}
struct Small { var byte: UInt8 = 1 }
struct Padded {
    var byte: UInt8 = 1
    var thing: Thing?
    var flag = true
    var word: Int32 = 2
    var last = Small()
}
struct Nested {
    var flag = false
    var padded = Padded()
    var text = "text"
    weak var seen: Thing?
    unowned var holder: Thing
    unowned(unsafe) var bare: Thing
    var optional: Padded?
}
enum Plainest { case a, b, c }
enum Single {
    case none
    case some(Thing)
    case other
}
enum Several {
    case thing(Thing)
    case fine(Fine)
    case empty
}
enum WithNumber {
    case number(Int)
    case thing(Thing)
    case flag(Bool)
}
enum Deep {
    case single(Single)
    case several(Several)
    case text(String)
    case pair(Thing, Int32)
}
enum Wide {
    case array([Int])
    case dictionary([String: Int])
    case none
}
indirect enum Tree {
    case leaf
    case node(Tree, Tree, Thing?)
}
enum PartlyIndirect {
    case plain(Int)
    case indirect(Thing)
    case none
}
enum Boolean {
    case flag(Bool)
    case other(Bool)
}
enum Generic<Value> {
    case value(Value)
    case list([Value])
    case none
}
enum Unowned {
    case owner(Reference)
    case none
}
struct Reference { unowned let thing: Thing }
struct Pair<A, B> {
    var a: A
    var b: B
}

final class Numbers {
    var a: Int8 = 1, b: Int16 = 2, c: Int32 = 3, d: Int64 = 4, e: Float = 5, f: Double = 6, g = true, h: UInt = 7
    var i: Int?, j: Bool?, k: UInt8?, l: Double?, m: Int32?, n: (Int8, Int)?, o: Bool??
    var p = 1..<2, q: Range<Int>?, r = Plainest.a, s: Plainest?, t: Character = "x"
}
final class References {
    var strong = Thing(), optional: Thing?, exact = Fine()
    weak var weak: Thing?
    unowned var unowned: Thing
    unowned(unsafe) var bare: Thing
    unowned var maybe: Thing?
    var unmanaged: Unmanaged<Thing>, unmanagedOptional: Unmanaged<Thing>?
    var identifier: ObjectIdentifier
    var object: AnyObject, objectOptional: AnyObject?
    weak var object2: AnyObject?
    init(_ thing: Thing) {
        (unowned, bare, maybe, object) = (thing, thing, thing, thing)
        unmanaged = .passUnretained(thing)
        identifier = ObjectIdentifier(thing)
    }
}
final class Existentials {
    var anything: Any = 1, optional: Any?, plain: any Plain = Thing(), both: any Plain & Other = Thing()
    var bound: any Bound = Thing(), boundOptional: (any Bound)?, refined: (any Refined)?
    var classAndBound: (Thing & Refined)?
    var error: (any Error)?, large: Any = (1, 2, 3, 4), sendable: (any Sendable)?
    weak var delegate: (any Bound)?
    unowned var owner: any Bound
    var type: Any.Type = Int.self, plainType: (any Plain.Type)?, thingType: Thing.Type = Thing.self
    var sequence: (any Sequence<Int>)?, hashable: AnyHashable = 1
    init(_ thing: Thing) {
        owner = thing
        delegate = thing
    }
}
final class Values {
    var small = Small(), padded = Padded(), nested: Nested, optional: Nested?, tuple = (1 as Int8, Thing(), true)
    var labelled: (name: String, thing: Thing?, flag: Bool)?, text = "text", textOptional: String?
    var part: Substring = "part", partOptional: Substring?, array = [1], arrays: [[Thing]]?, set: Set<Int> = []
    var dictionary: [String: Thing] = [:], slice = [1, 2, 3][1...], pair: Pair<Int8, Thing>, pairs: Pair<Thing?, Bool>?
    init(_ thing: Thing) {
        nested = Nested(holder: thing, bare: thing)
        pair = Pair(a: 1, b: thing)
    }
}
final class Enums {
    var single = Single.none, singleOptional: Single?, several = Several.empty, number = WithNumber.flag(true)
    var deep = Deep.text("text"), wide = Wide.none, tree = Tree.leaf, partly = PartlyIndirect.none
    var boolean = Boolean.flag(true), generic = Generic<Thing>.none, genericNumber = Generic<Int>.value(1)
    var result: Result<Thing, any Error>?, result2 = Result<Int, CancellationError>.success(1)
    var owner = Unowned.none, after = Thing()
}
final class Functions {
    var plain: () -> Void = {}, optional: ((Int) -> Thing)?, async: (@Sendable () async throws -> Void)?
    var typed: (() throws(CancellationError) -> Int)?, c: @convention(c) (Int) -> Int = { $0 }
    var main: (@MainActor (String, inout Int) -> Void)?, pair: (() -> Void, () -> Void)?, after = Thing()
}
final class Pointers {
    var raw = UnsafeMutableRawPointer.allocate(byteCount: 8, alignment: 8), typed: UnsafePointer<Int>?
    var buffer: UnsafeMutableBufferPointer<Int>, rawBuffer: UnsafeRawBufferPointer?, opaque: OpaquePointer?
    var after = Thing()
    init() { buffer = .allocate(capacity: 3) }
}
final class Libraries {
    var date = Date(), dateOptional: Date?, url = URL(string: "https://example.com/")!, id = UUID()
    var data = Data([1, 2, 3]), decimal = Decimal(3), after = Thing(), queue = DispatchQueue(label: "queue")
    var task: Task<Void, Never>?, continuation: AsyncStream<Int>.Continuation?, lock = NSLock()
    var path: KeyPath<Thing, Int> = \.plain, simd = SIMD4<Float>(1, 2, 3, 4), calendar = Calendar.current
    var components = DateComponents(year: 2000), name = Notification.Name("name"), last = Thing()
}
final class Locked: Sendable {
    let mutex = Mutex<Thing?>(nil)
    let count = Atomic(3)
    let after = Thing()
}
extension Thing: @unchecked Sendable {}
class Base<Value> {
    var value: Value
    var optional: Value?
    var values: [Value] = []
    var thing: Thing?
    init(_ value: Value) { self.value = value }
}
final class OfNumber: Base<Int8> { var last: Thing? }
final class OfTuple: Base<(Thing, Bool)> { var last = Several.empty }
final class OfTwo<A, B>: Base<A> {
    var second: B?
    var pair: Pair<A, B>?
}
actor Agent {
    var thing = Thing()
    var count = 1
    let name = "agent"
}
@propertyWrapper struct Wrapped<Value> {
    var wrappedValue: Value
    var changes = 0
}
final class Lazy {
    @Wrapped var wrapped: Thing? = Thing()
    lazy var later: Thing = Thing()
    lazy var text = "text"
    lazy var handler: () -> Void = { [unowned self] in _ = self.text }
}
struct Noncopyable: ~Copyable {
    var thing = Thing()
    var count = 1
}
final class Holder {
    var inner = Noncopyable()
    var after: Thing?
}

enum Loading<T> {
    case loading(Thing)
    case loaded([T])
}
enum Maybe<T> {
    case none(Void)
    case some(T)
}
enum Either<T> {
    case value(T)
    case thing(Thing)
}
enum Within<T> {
    enum Inner {
        case thing(Thing)
        case numbers([Int])
    }
    case inner(Inner)
}
func generic<T>(_ value: T) -> () -> Any { { (value, 1) } }
func genericPair<A, B>(_ a: A, _ b: B?, _ thing: Thing) -> () -> Any {
    { [weak thing] in (b as Any, a, [a], thing as Any) }
}
func genericOwner<T: AnyObject, U: Plain>(_ object: T, _ other: U, _ list: [U]) -> () -> Any {
    { [unowned object] in (other.plain, object, list, Pair(a: other, b: object)) }
}
extension Base {
    func inGeneric(_ value: Value) -> () -> Any { { [weak self] in (self as Any, value, Single.none) } }
    func withSelf(_ text: String) -> () -> Any { { (self.value, text) } }
}
final class Concurrent: Sendable {
    let stream = AsyncStream<Int>.makeStream(), throwing = AsyncThrowingStream<Thing, any Error> { _ in }
    let priority = TaskPriority.high, actor: (any Actor)? = Agent(), after = Thing()
    let optional: TaskPriority? = nil, cancellation: CancellationError? = nil, last: Thing? = Thing()
}
enum Empties {
    case void(Void)
    case thing(Thing)
    case small(Small)
    case none
}
enum FewBits {
    case flag(Bool)
    case choice(Plainest)
    case many(UInt8)
}
enum Outer {
    case several(Several?)
    case empties(Empties)
    case number(WithNumber?)
    case few(FewBits, FewBits?)
    case optional(Thing??)
}
final class NestedEnums {
    var a = Outer.optional(nil), b: Outer?, c = Empties.none, d: Empties?, e = FewBits.flag(true), f: FewBits?
    var g: (Outer, Thing), h: Single??, i: (Bool?, Several??, Thing?), j = [Outer.number(nil)]
    init(_ thing: Thing) {
        g = (.several(.thing(thing)), thing)
        i = (true, .some(.empty), thing)
    }
}
func closures(_ thing: Thing, _ number: Int, _ text: String) -> [Any] {
    var count = 1
    weak let seen = thing
    let plain: () -> Void = { _ = (thing, number) }
    let weak: () -> Void = { [weak thing] in _ = (thing, number, text) }
    let unowned: () -> Void = { [unowned thing] in _ = (text, thing) }
    let bare: () -> Void = { [unowned(unsafe) thing] in _ = (text, thing) }
    let boxes: () -> Void = {
        count += 1
        _ = (seen, text)
    }
    let several: () -> Void = { _ = (thing as any Plain, thing as AnyObject, plain, weak, (number, text)) }
    let existential: any Plain = thing
    let held: () -> Void = { _ = (existential, number) }
    let enumeration = Deep.pair(thing, 3)
    let payload: () -> Void = { _ = (enumeration, text) }
    let base = Base(Outer.optional(thing))
    kept.append(base)
    let outer = Outer.several(.thing(thing))
    let few = Outer.few(.flag(true), nil)
    let optional: Outer? = .optional(thing)
    let nested: () -> Void = { _ = (outer, thing, few, text, optional, number, thing) }
    let loading = Loading<Int>.loading(thing)
    let maybe = Maybe.some(thing)
    let either = Either.value(thing)
    let within = Within<Int>.Inner.thing(thing)
    let unit = Either<Void>.thing(thing)
    let generics: () -> Void = { _ = (loading, thing, maybe, thing, either, thing, within, thing, unit, thing) }
    return [
        generics, plain, weak, unowned, bare, boxes, several, held, payload, nested, generic(thing), generic((1, text)),
        genericPair(text, thing, thing), genericPair(1 as Int8, Deep.pair(thing, 1), thing),
        genericOwner(thing, thing, [thing]), base.inGeneric(outer), Base((1 as Int8, thing)).withSelf(text),
    ]
}

nonisolated(unsafe) var kept: [Any] = []

@main enum Zoo {
    static func main() {
        var random = UInt64(CommandLine.arguments.dropFirst().first ?? "1") ?? 1
        let thing = Thing()
        kept.append(thing)
        let makers: [() -> Any] = [
            { Numbers() }, { References(thing) }, { Existentials(thing) }, { Values(thing) }, { Enums() },
            { Functions() }, { Pointers() }, { Libraries() }, { Locked() }, { Base(thing) }, { Base("text") },
            { Base(1 as UInt16) }, { Base<Any>(1) }, { Base(Single.none) }, { Base([1: "one"]) }, { OfNumber(1) },
            { OfTuple((thing, true)) }, { OfTwo<Int8, Thing>(1) }, { OfTwo<Thing, String>(thing) }, { Agent() },
            {
                let lazy = Lazy()
                lazy.handler()
                return lazy
            }, { Holder() }, { Concurrent() }, { NestedEnums(thing) }, { closures(thing, 3, "text") },
            { [Single.some(thing), .other] }, { ["text": Padded()] }, { Set(["a", "b"]) },
            { [Reference(thing: thing)] },
            { [1 as Int8: Reference(thing: thing)] }, { [thing: 1 as Int8].first as Any }, { [(thing, 1 as Int32)] },
            { Array(repeating: WithNumber.thing(thing), count: 5) }, { [{ _ = thing }] as [() -> Void] },
            {
                [
                    Reference(thing: thing), Small(), thing, "text", 1.5, Single.some(thing),
                    Nested(holder: thing, bare: thing),
                ] as [Any]
            },
            { [thing, Fine()] as [any Plain] }, { Base<Any?>(Reference(thing: thing)) },
            { Tree.node(.leaf, .node(.leaf, .leaf, thing), nil) }, { [Nested(holder: thing, bare: thing)] },
        ]
        for maker in makers { kept.append(maker()) }
        for _ in 0..<300 {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            kept.append(makers[Int(random >> 33) % makers.count]())
        }
        print("ready")
        fflush(nil)
        while readLine() != nil {}
    }
}
extension Thing: Hashable {
    static func == (a: Thing, b: Thing) -> Bool { a === b }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
