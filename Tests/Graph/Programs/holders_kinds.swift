// Freed heap objects of the kinds in Detection/Zombies/Kinds.swift, each still held by the property of Store with the
// name of the case. Arguments: the case; the second is ignored; with a third, waits for a line of input before the use.

import Foundation

class Box<Value> {
    var content: Value
    init(_ content: Value) { self.content = content }
}
final class TwoValues<First, Second> {
    var values: (First, Second)
    init(_ first: First, _ second: Second) { values = (first, second) }
}
final class Shelf {
    final class Board { var width = 40 }
}
extension Shelf.Board {
    final class Nail { var length = 3 }
}
private final class Hidden { var secret = 5 }
final class Job: Operation, @unchecked Sendable { var steps = 2 }
final class Note: NSObject { var text = "a note with a text that is not short" }
final class Person: Hashable {
    var name = "a person with a name that is not short"
    var age = 30
    static func == (left: Person, right: Person) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(age) }
}
final class Samples: ManagedBuffer<Int, Double> {}
struct Failure: Error { var code = (1, 2, 3) }
indirect enum Payment {
    case cash
    case split(Person, Payment)
}

struct Action { var run: () -> Int }

/// Keeps one object of each kind.
final class Store {
    var genericClass: Box<Int>?
    var nestedGenericClass: Box<[String]>?
    var pairClass: TwoValues<Int, String>?
    var nestedClass: Shelf.Board?
    var classInExtension: Shelf.Board.Nail?
    fileprivate var privateClass: Hidden?
    var classInFunction: AnyObject?
    var resilientSuperclass: Job?
    var objectSubclass: Note?
    var foundationClass: NSMutableArray?
    var arrayStorage: [Person] = []
    var dictionaryStorage: [String: Person] = [:]
    var setStorage: Set<String> = []
    var stringStorage = ""
    var managedBuffer: ManagedBuffer<Int, Double>?
    var closureContext = Action { 0 }
    var capturedVariable = Action { 0 }
    var errorBox: (any Error)?
    var indirectEnum = Payment.cash
    var keyPathObject: PartialKeyPath<Aisle>?
}

nonisolated(unsafe) let store = UnsafeMutablePointer<Store>.allocate(capacity: 1)

@inline(never) func makeLocal() -> AnyObject {
    final class Local { var value = 6 }
    return Local()
}

@inline(never) func makeAction(_ count: Int, _ text: String) -> () -> Int { { count + text.count } }

nonisolated(unsafe) var readCount: () -> Int = { 0 }
/// A variable that two closures share: the variable's box is the context of each closure.
@inline(never) func makeCounter() -> () -> Int {
    var count = 0
    readCount = { count }
    readCount = { 0 }
    return {
        count += 1
        return count
    }
}

struct Aisle { var people: [String: Person] = [:] }
@inline(never) func makeKeyPath(_ key: String) -> PartialKeyPath<Aisle> { \Aisle.people[key]?.age }

@inline(never) func words(_ number: Int) -> String { "a string that is not short, number \(number)" }

/// Each case puts an object into the property with the case's name, and returns the object's encoded address (`set`).
nonisolated(unsafe) let cases: [(String, (Store) -> UInt)] = [
    ("genericClass", { set(&$0.genericClass, Box(7)) }),
    ("nestedGenericClass", { set(&$0.nestedGenericClass, Box(["a"])) }),
    ("pairClass", { set(&$0.pairClass, TwoValues(1, "a")) }),
    ("nestedClass", { set(&$0.nestedClass, Shelf.Board()) }),
    ("classInExtension", { set(&$0.classInExtension, Shelf.Board.Nail()) }),
    ("privateClass", { set(&$0.privateClass, Hidden()) }),
    ("classInFunction", { set(&$0.classInFunction, makeLocal()) }),
    ("resilientSuperclass", { set(&$0.resilientSuperclass, Job()) }),
    ("objectSubclass", { set(&$0.objectSubclass, Note()) }),
    ("foundationClass", { set(&$0.foundationClass, NSMutableArray()) }),
    ("arrayStorage", { set(&$0.arrayStorage, [Person(), Person()]) }),
    ("dictionaryStorage", { set(&$0.dictionaryStorage, [words(1): Person(), words(2): Person()]) }),
    ("setStorage", { set(&$0.setStorage, [words(1), words(2)]) }),
    ("stringStorage", { set(&$0.stringStorage, words(1), word: 1) }),
    ("managedBuffer", { set(&$0.managedBuffer, Samples.create(minimumCapacity: 9) { _ in 0 }) }),
    ("closureContext", { set(&$0.closureContext, Action(run: makeAction(7, words(1))), word: 1) }),
    ("capturedVariable", { set(&$0.capturedVariable, Action(run: makeCounter()), word: 1) }),
    ("errorBox", { set(&$0.errorBox, Failure()) }),
    ("indirectEnum", { set(&$0.indirectEnum, .split(Person(), .cash)) }),
    ("keyPathObject", { set(&$0.keyPathObject, makeKeyPath(words(1))) }),
]

/// Stores a value; returns the reference in one of the value's words, without tag bits, and encoded against searches.
@inline(never) func set<Value>(_ place: inout Value, _ value: consuming Value, word: Int = 0) -> UInt {
    place = value
    return ~(withUnsafeBytes(of: place) { $0.load(fromByteOffset: word * 8, as: UInt.self) } & 0xffff_ffff_fff8)
}

@inline(never) func object(_ hidden: UInt) -> Unmanaged<AnyObject> {
    Unmanaged<AnyObject>.fromOpaque(UnsafeRawPointer(bitPattern: ~hidden)!)
}

// Overwrites dead stack frames in which pointers may be left over.
@inline(never) func scrub() {
    _ = withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 16) { memset($0.baseAddress!, 0, $0.count) }
}

@inline(never) func run(_ name: String) {
    guard let (_, make) = cases.first(where: { $0.0 == name }) else { fatalError("no such case: \(name)") }
    store.initialize(to: Store())
    let hidden = make(store.pointee)
    object(hidden).release()
    scrub()
    if CommandLine.arguments.count > 3 {
        print("ready")
        fflush(nil)
        _ = getchar()
    }
    _ = object(hidden).retain()
    print("went on")
}

run(CommandLine.arguments[1])
