// Classes whose objects the cases use. The driver skips frames of this file when it looks for a case in a stack.

import Foundation

class Person: CustomStringConvertible {
    var name: String
    var age = 30
    init(name: String) { self.name = name }
    func greet() -> String { "hello " + name }
    var description: String { name }
}

class Clerk: Person {
    override func greet() -> String { "welcome, I am " + name }
    override var description: String { "clerk " + name }
}

class Waitress {}

enum ShopError: Error {
    case empty
    case broken(String)
}

protocol Payable {
    func pay() -> Int
    init(total: Int)
}

extension Payable {
    func payTwice() -> Int { pay() + pay() }
}

protocol Listener: AnyObject {
    func changed(_ count: Int) -> Int
}

/// A final class: its protocol witness calls the method directly and not through the vtable, so that a call through the
/// protocol loads the class pointer only to pass it as an argument.
final class Alarm: Listener {
    var rings = 1
    func changed(_ count: Int) -> Int { rings + count }
}

/// The class of most cases. Subclasses override its methods, so that calls go through the vtable.
@dynamicMemberLookup
class Cart: Payable, Hashable, Comparable, CustomStringConvertible, Listener, Encodable {
    var total: Int
    var label = "cart"
    required init(total: Int) { self.total = total }
    func add(_ count: Int) -> Int {
        total += count
        return total
    }
    func move(from: Int, to: Int, named name: String, weights: [Double]) -> Int { from + to + name.count }
    func clear() -> Int { 0 }
    func pick<Value>(_ value: Value) -> Value { value }
    func validate() throws -> Int {
        if total < 0 { throw ShopError.empty }
        return total
    }
    func checkout() async -> Int { total }
    class func kind() -> String { "plain" }
    var discount: Int {
        get { total / 2 }
        set { total = newValue * 2 }
    }
    subscript(index: Int) -> Int {
        get { total + index }
        set { total = newValue - index }
    }
    subscript(dynamicMember name: String) -> Int { name.count }
    func pay() -> Int { total }
    func changed(_ count: Int) -> Int { total + count }
    func hash(into hasher: inout Hasher) { hasher.combine(1) }
    func isEqual(to other: Cart) -> Bool { total == other.total }
    func isLess(than other: Cart) -> Bool { total < other.total }
    static func == (left: Cart, right: Cart) -> Bool { left.isEqual(to: right) }
    static func < (left: Cart, right: Cart) -> Bool { left.isLess(than: right) }
    var description: String { "cart of \(total)" }
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(total)
    }
}

class GiftCart: Cart {
    override var total: Int {
        get { super.total + 1 }
        set { super.total = newValue - 1 }
    }
    override func add(_ count: Int) -> Int { count }
    override func move(from: Int, to: Int, named name: String, weights: [Double]) -> Int { from }
    override func pick<Value>(_ value: Value) -> Value { value }
    override func validate() throws -> Int { 1 }
    override func checkout() async -> Int { 1 }
    override class func kind() -> String { "gift" }
    override var discount: Int {
        get { 1 }
        set { total = newValue }
    }
    override subscript(index: Int) -> Int {
        get { index }
        set { total = newValue }
    }
    override subscript(dynamicMember name: String) -> Int { 1 }
    override func pay() -> Int { 2 }
    override func changed(_ count: Int) -> Int { count }
    override func hash(into hasher: inout Hasher) { hasher.combine(2) }
    override func isEqual(to other: Cart) -> Bool { false }
    override func isLess(than other: Cart) -> Bool { true }
    override var description: String { "gift" }
    override func encode(to encoder: any Encoder) throws {}
}

final class EmptyCart: GiftCart {
    override func clear() -> Int { -1 }
}

struct Price {
    var cents = 250
    var rate = 1.5
    var owner: Person
}

enum Payment {
    case free
    case card(Person)
    indirect case split(Payment, Payment)
}

enum Ticket {
    case price(Int)
    case voucher(Person)
}

struct Extent {
    var width = 0.0
    var height = 0.0
}

/// Superclass of Basket. Its properties are final, so that they are loaded directly and not by an accessor.
class Container {
    final var origin: Person
    final var weight = 12
    init() { origin = Person(name: "Zoe") }
}

final class Basket: Container {
    var count = 3
    var tax = 0.25
    var isOpen = true
    var size = Extent(width: 1, height: 2)
    var owner: Person
    var gift: Person?
    var shortName = "abc"
    var longName: String
    var items: [Int]
    var people: [Person]
    var prices: [String: Int]
    var tags: Set<String>
    var action: (Int) -> Int
    var payable: any Payable
    var payment: Payment
    var ticket: Ticket
    var pair: (Int, Person)
    var price: Price
    weak var buyer: Person?
    unowned var seller: Person
    lazy var summary: String = longName + shortName
    var anything: Any
    var object: AnyObject
    #if FOUNDATION
    var link: URL
    var data: Data
    #endif
    var error: any Error
    var list: ContiguousArray<Person>
    var path: KeyPath<Person, String>

    override init() {
        let person = Person(name: "Ann")
        kept.append(person)
        owner = person
        gift = person
        longName = String(repeating: "long ", count: opaque(8))
        items = [opaque(1), 2, 3]
        people = [person]
        prices = ["apple": opaque(1)]
        tags = [opaque("new")]
        let step = opaque(1)
        action = { $0 + step }
        payable = Cart(total: step)
        payment = .card(person)
        ticket = .voucher(person)
        pair = (1, person)
        price = Price(owner: person)
        buyer = person
        seller = person
        anything = person
        object = person
        #if FOUNDATION
        link = URL(fileURLWithPath: "/tmp/shop")
        data = Data(repeating: 1, count: opaque(100))
        #endif
        error = ShopError.broken("hot")
        list = [person]
        path = \Person.name
        super.init()
    }

    func ownerName() -> String { "owner " + owner.name }
}

class Box<Content> {
    var content: Content
    init(_ content: Content) { self.content = content }
    func get() -> Content { content }
}

final class SealedBox<Content>: Box<Content> {
    override func get() -> Content { content }
}

class Pair<First, Second> {
    var first: First
    var second: Second
    init(_ first: First, _ second: Second) {
        self.first = first
        self.second = second
    }
    func swap() -> (Second, First) { (second, first) }
}

final class OddPair: Pair<Int, String> {
    override func swap() -> (String, Int) { ("odd", 1) }
}

enum Store {
    class Shelf {
        var height = 1
        func lift() -> Int { height }
    }
    final class TopShelf: Shelf {
        override func lift() -> Int { -1 }
    }
}

extension Store.Shelf {
    class Board {
        func width() -> Int { 40 }
    }
    final class WideBoard: Board {
        override func width() -> Int { 80 }
    }
}

#if FOUNDATION
/// Subclass of Foundation's Operation, a resilient class whose instance size is known only at run time.
class Job: Operation, @unchecked Sendable {
    var steps: [Int] = [opaque(1), 2]
    func work() -> Int { steps.count }
}

final class NightJob: Job, @unchecked Sendable {
    override func work() -> Int { -1 }
}

class Note: NSObject {
    var text = String(repeating: "note ", count: 6)
    func read() -> Int { text.count }
}

final class StickyNote: Note {
    override func read() -> Int { -1 }
}
#endif

final class Samples: ManagedBuffer<Int, Person> {}

actor Register {
    var total = 1
    var log: [Int] = [opaque(1)]
    nonisolated let name: String
    init(name: String) { self.name = name }
    func add(_ count: Int) -> Int {
        total += count
        return total
    }
}

/// Counts deinitialized sessions in `sessionsEnded`.
class Session {
    var user: Person
    var isClosed = false
    init() { user = Person(name: "Bob") }
    deinit { sessionsEnded += 1 }
    func touch() -> Int { 1 }
}

final class LongSession: Session {
    override func touch() -> Int { 2 }
}

nonisolated(unsafe) var sessionsEnded = 0

/// Stores an unretained reference to itself in `lastGhost` in its deinit.
class Ghost {
    func haunt() -> Int { 1 }
    deinit { lastGhost = Unmanaged.passUnretained(self) }
}

final class LoudGhost: Ghost {
    override func haunt() -> Int { 2 }
}

nonisolated(unsafe) var lastGhost: Unmanaged<Ghost>?

protocol ViewDelegate: AnyObject {
    func tapped(_ count: Int) -> Int
}

class Controller: ViewDelegate {
    func tapped(_ count: Int) -> Int { count + 1 }
}

final class QuietController: Controller {
    override func tapped(_ count: Int) -> Int { 0 }
}

final class View {
    unowned(unsafe) var delegate: any ViewDelegate
    init(delegate: any ViewDelegate) { self.delegate = delegate }
    func tap() -> Int { delegate.tapped(1) }
}

class Node {
    unowned(unsafe) var parent: Node?
    var children: [Node] = []
    var name: String
    init(_ name: String) { self.name = name }
    func path() -> String { (parent.map { $0.path() + "/" } ?? "") + name }
    func add(_ child: Node) {
        child.parent = self
        children.append(child)
    }
}

final class RootNode: Node {
    override func path() -> String { "root" }
}

class Link {
    unowned(unsafe) var previous: Link?
    var next: Link?
    func index() -> Int { (previous?.index() ?? -1) + 1 }
}

final class FirstLink: Link {
    override func index() -> Int { 0 }
}

final class Center {
    var observers: [Unmanaged<Controller>] = []
    func post() -> Int { observers.reduce(0) { $0 + $1._withUnsafeGuaranteedRef { $0.tapped(2) } } }
}

/// An unowned(unsafe) reference that may be sent to another thread.
struct Courier<Object: AnyObject>: @unchecked Sendable {
    unowned(unsafe) let object: Object
}

/// Wraps an error, because passing `any Error` to a generic function would open the existential.
struct Failure {
    var error: any Error
}

struct Action {
    var run: (Int) -> Int
}
