// Freed objects to which something still points, and a use of the object. The word chooses the case. The comment above
// a case says what the finding must name first: "// case: TEXT"; several texts are separated by " | ".

import Dispatch
import Glibc

final class Listener {
    var count = 1
    let name = "a listener with a name that is not short"
    @inline(never) func notify() -> Int { count + name.count }
}

// The last strong reference to a listener goes, although the case still holds a pointer to the listener.
@inline(never) func overRelease(_ hidden: UInt) {
    Unmanaged<Listener>.fromOpaque(UnsafeRawPointer(bitPattern: ~hidden)!).release()
}

// The address of an object, so encoded that no search takes it for a pointer.
@inline(never) func hidden(_ listener: Listener) -> UInt {
    ~UInt(bitPattern: Unmanaged.passUnretained(listener).toOpaque())
}

@inline(never) func use(_ hidden: UInt) {
    let listener = Unmanaged<Listener>.fromOpaque(UnsafeRawPointer(bitPattern: ~hidden)!).takeUnretainedValue()
    print(listener.notify())
}

// Overwrites dead stack frames in which pointers may be left over.
@inline(never) func scrub() {
    _ = withUnsafeTemporaryAllocation(byteCount: 16384, alignment: 16) { memset($0.baseAddress!, 0, $0.count) }
}

// What must outlive the case is kept here, and reached by nothing that points to the listener itself.
nonisolated(unsafe) var kept: [Any] = []

final class Feed {
    var listener: Listener?
    let id = 7
}
// case: Feed.listener of a live
@inline(never) func property() -> UInt {
    let feed = Feed()
    feed.listener = Listener()
    kept.append(feed)
    return hidden(feed.listener!)
}

class Base { var delegate: AnyObject? }
final class Derived: Base { var more = 1 }
// case: Derived.delegate of a live
@inline(never) func inherited() -> UInt {
    let object = Derived()
    let listener = Listener()
    object.delegate = listener
    kept.append(object)
    return hidden(listener)
}

final class Generic<Value> {
    var value: Value
    init(_ value: Value) { self.value = value }
}
// case: Generic<Listener>.value of a live | Generic<main.Listener>.value | Generic<holders.Listener>.value
@inline(never) func generic() -> UInt {
    let listener = Listener()
    kept.append(Generic(listener))
    return hidden(listener)
}

final class Unowned {
    unowned(unsafe) var owner: Listener?
    init(_ owner: Listener) { self.owner = owner }
}
// case: Unowned.owner of a live
@inline(never) func unmanaged() -> UInt {
    let listener = Listener()
    _ = Unmanaged.passRetained(listener) // the reference that overRelease drops
    kept.append(Unowned(listener))
    return hidden(listener)
}

actor Session {
    var listener: Listener?
    init(_ listener: Listener) { self.listener = listener }
}
// case: Session.listener of a live
@inline(never) func actorProperty() -> UInt {
    nonisolated(unsafe) let listener = Listener()
    kept.append(Session(listener))
    return hidden(listener)
}

struct Pair {
    var first = 1
    var second: Listener
}
final class Owner {
    var pair: Pair
    init(_ listener: Listener) { pair = Pair(second: listener) }
}
// case: Owner.pair of a live | Owner.pair
@inline(never) func structProperty() -> UInt {
    let listener = Listener()
    kept.append(Owner(listener))
    return hidden(listener)
}

enum State {
    case idle
    case active(Listener)
}
final class Machine { var state = State.idle }
// case: Machine.state of a live
@inline(never) func enumProperty() -> UInt {
    let machine = Machine()
    let listener = Listener()
    machine.state = .active(listener)
    kept.append(machine)
    return hidden(listener)
}

final class Box { var listeners: [Listener] = [] }
// case: an element of a live [Listener] | an element of a live [AnyObject]
@inline(never) func array() -> UInt {
    let box = Box()
    for _ in 0..<3 { box.listeners.append(Listener()) }
    kept.append(box)
    return hidden(box.listeners[1])
}

final class Map { var listeners: [String: Listener] = [:] }
// case: an element of a live [String: Listener] | an element of a live [Swift.String: Listener]
@inline(never) func dictionary() -> UInt {
    let map = Map()
    map.listeners["one with a key that is not short"] = Listener()
    kept.append(map)
    return hidden(map.listeners["one with a key that is not short"]!)
}

final class Timer {
    var handler: (() -> Int)?
    var other = 0
}
// case: a closure that has captured it
@inline(never) func closure() -> UInt {
    let timer = Timer()
    let listener = Listener()
    let more = kept.count
    timer.handler = { listener.notify() + more }
    kept.append(timer)
    return hidden(listener)
}

// case: a closure that has captured it | a box that holds it
@inline(never) func capturedVariable() -> UInt {
    let timer = Timer()
    var listener: Listener? = Listener()
    let result = hidden(listener!)
    timer.handler = {
        let count = listener?.notify() ?? 0
        if count > 100 { listener = nil }
        return count
    }
    kept.append(timer)
    return result
}

nonisolated(unsafe) var current: Listener?
// case: the global 'current' (holders
@inline(never) func global() -> UInt {
    current = Listener()
    return hidden(current!)
}

enum Registry { nonisolated(unsafe) static var shared: Listener? }
// case: the global 'static Registry.shared' (holders | the global 'Registry.shared' (holders
@inline(never) func staticProperty() -> UInt {
    Registry.shared = Listener()
    return hidden(Registry.shared!)
}

// case: a closure that has captured it | a task
@inline(never) func task() -> UInt {
    let listener = Listener()
    nonisolated(unsafe) let captured = listener
    let result = hidden(listener)
    let started = DispatchSemaphore(value: 0)
    let handle = Task.detached {
        started.signal()
        try? await Task.sleep(for: .seconds(3600))
        _ = captured.notify()
    }
    started.wait()
    usleep(20000)
    kept.append(handle)
    return result
}

// case: a closure that has captured it | offset
@inline(never) func dispatched() -> UInt {
    let listener = Listener()
    nonisolated(unsafe) let captured = listener
    let result = hidden(listener)
    DispatchQueue.global().asyncAfter(deadline: .now() + 3600) { _ = captured.notify() }
    return result
}

nonisolated(unsafe) let cases: [(String, () -> UInt)] = [
    ("property", property), ("inherited", inherited), ("generic", generic), ("unmanaged", unmanaged),
    ("actorProperty", actorProperty), ("structProperty", structProperty), ("enumProperty", enumProperty),
    ("array", array), ("dictionary", dictionary), ("closure", closure), ("capturedVariable", capturedVariable),
    ("global", global), ("staticProperty", staticProperty), ("task", task), ("dispatched", dispatched),
]

@inline(never) func run(_ name: String) {
    guard let (_, make) = cases.first(where: { $0.0 == name }) else { fatalError("no such case: \(name)") }
    let block = make()
    overRelease(block)
    scrub()
    if CommandLine.arguments.count > 3 {
        print("ready")
        fflush(nil)
        _ = getchar()
    }
    use(block)
}

run(CommandLine.arguments[1])
