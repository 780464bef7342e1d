// Functions make… that allocate the objects of the cases; the driver expects one of them in each allocation stack.

import Foundation

@inline(never)
@_optimize(none)
func makeCart() -> Cart { opaque(false) ? EmptyCart(total: 7) : Cart(total: 7) }

@inline(never)
@_optimize(none)
func makeGiftCart() -> Cart { opaque(false) ? Cart(total: 7) : GiftCart(total: 7) }

@inline(never)
@_optimize(none)
func makePerson() -> Person { opaque(false) ? Clerk(name: "Ann") : Person(name: "Ann") }

@inline(never)
@_optimize(none)
func makeBasket() -> Basket { Basket() }

@inline(never)
@_optimize(none)
func makeAlarm() -> Alarm { Alarm() }

@inline(never)
@_optimize(none)
func makeBox<Content>(_ content: Content) -> Box<Content> { opaque(false) ? SealedBox(content) : Box(content) }

@inline(never)
@_optimize(none)
func makePair<First, Second>(_ first: First, _ second: Second) -> Pair<First, Second> { Pair(first, second) }

@inline(never)
@_optimize(none)
func makeShelf() -> Store.Shelf { opaque(false) ? Store.TopShelf() : Store.Shelf() }

@inline(never)
@_optimize(none)
func makeBoard() -> Store.Shelf.Board { opaque(false) ? Store.Shelf.WideBoard() : Store.Shelf.Board() }

#if FOUNDATION
@inline(never)
@_optimize(none)
func makeJob() -> Job { opaque(false) ? NightJob() : Job() }

@inline(never)
@_optimize(none)
func makeNote() -> Note { opaque(false) ? StickyNote() : Note() }
#endif

@inline(never)
@_optimize(none)
func makeRegister() -> Register { Register(name: "first") }

@inline(never)
@_optimize(none)
func makeSession() -> Session { opaque(false) ? LongSession() : Session() }

@inline(never)
@_optimize(none)
func makeGhost() -> Ghost { opaque(false) ? LoudGhost() : Ghost() }

@inline(never)
@_optimize(none)
func makeController() -> Controller { opaque(false) ? QuietController() : Controller() }

@inline(never)
@_optimize(none)
func makeNode(_ name: String) -> Node { opaque(false) ? RootNode(name) : Node(name) }

@inline(never)
@_optimize(none)
func makeLink() -> Link { opaque(false) ? FirstLink() : Link() }

@inline(never)
@_optimize(none)
func makeSamples() -> Samples {
    let samples = Samples.create(minimumCapacity: 4) { _ in 4 }
    samples.withUnsafeMutablePointerToElements {
        for index in 0..<4 { ($0 + index).initialize(to: Person(name: "Ann")) }
    }
    return unsafeDowncast(samples, to: Samples.self)
}

@inline(never)
@_optimize(none)
func makePeople() -> [Person] {
    let person = Person(name: "Ann")
    kept.append(person)
    return [person, person, person]
}

@inline(never)
@_optimize(none)
func makeWaitress() -> Waitress { Waitress() }

@inline(never)
@_optimize(none)
func makeNumbers() -> [Int] { (0..<10).map { $0 } }

@inline(never)
@_optimize(none)
func makePrices() -> [String: Person] {
    var prices: [String: Person] = [:]
    for name in ["apple", "pear", "plum"] { prices[name] = Person(name: name) }
    return prices
}

@inline(never)
@_optimize(none)
func makeTags() -> Set<String> { Set(["apple", "pear", "plum"]) }

@inline(never)
@_optimize(none)
func makeText() -> String { String(repeating: "text ", count: 20) }

@inline(never)
@_optimize(none)
func makeAction() -> Action {
    let person = Person(name: "Ann")
    let step = opaque(2)
    return Action { $0 + step + person.age }
}

/// Two closures that capture one variable, which the compiler allocates in a box.
@inline(never)
@_optimize(none)
func makeCounter() -> (Action, Action) {
    var person = Person(name: "Ann")
    return (
        Action { $0 + person.name.count },
        Action { count in
            person = Person(name: "Eve")
            return count
        }
    )
}

@inline(never)
@_optimize(none)
func makeFailure() -> Failure { Failure(error: ShopError.broken(String(repeating: "cause ", count: 5))) }

@inline(never)
@_optimize(none)
func makePayment() -> Payment { .split(.card(Person(name: "Ann")), .free) }

@inline(never)
@_optimize(none)
func makeTask() -> Task<Int, Never> { Task { 5 } }

@inline(never)
@_optimize(none)
func makeStream() -> (AsyncStream<Int>, AsyncStream<Int>.Continuation) { AsyncStream.makeStream(of: Int.self) }

#if FOUNDATION
@inline(never)
@_optimize(none)
func makeMutableString() -> NSMutableString { NSMutableString(string: "abc") }

@inline(never)
@_optimize(none)
func makeMutableArray() -> NSMutableArray { NSMutableArray(array: [1, 2, 3]) }

@inline(never)
@_optimize(none)
func makeLock() -> NSLock { NSLock() }

@inline(never)
@_optimize(none)
func makeDecoder() -> JSONDecoder { JSONDecoder() }

@inline(never)
@_optimize(none)
func makeFormatter() -> DateFormatter { DateFormatter() }

@inline(never)
@_optimize(none)
func makeThread() -> Thread { Thread {} }

@inline(never)
@_optimize(none)
func makeNumber() -> NSNumber { NSNumber(value: opaque(12)) }
#endif

@inline(never)
@_optimize(none)
func makeKeyPath() -> KeyPath<Person, Int> { \Person.name.count.littleEndian.byteSwapped }

// MARK: classes that are not visible in other files

/// Superclass through which other files use the private and local classes.
class Revealing {
    func reveal() -> Int { 0 }
}

private class Hidden: Revealing {
    override func reveal() -> Int { 1 }
}

@inline(never)
@_optimize(none)
func makeHidden() -> Revealing { Hidden() }

@inline(never)
@_optimize(none)
func makeLocal() -> Revealing {
    class Local: Revealing {
        override func reveal() -> Int { 2 }
    }
    return Local()
}
