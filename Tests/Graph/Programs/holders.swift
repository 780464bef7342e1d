// Freed objects to which something still points, and a use of the object. The argument chooses the case. The comment
// above a case says what the finding must name first: "// case: TEXT"; several texts are separated by " | ".

import Dispatch
import Glibc
import Synchronization

final class Listener {
    var count = 1
    let name = "a listener with a name that is not short"
    @inline(never) func notify() -> Int { count + name.count }
}

@_silgen_name("swift_retainCount") func retainCount(_ object: UnsafeRawPointer) -> Int

// Releases all strong references to a listener, although the case still holds a pointer to the listener.
@inline(never) func overRelease(_ hidden: UInt) {
    let object = UnsafeRawPointer(bitPattern: ~hidden)!
    for _ in 0..<retainCount(object) { Unmanaged<Listener>.fromOpaque(object).release() }
}

// Returns an object's address, encoded so that no search takes it for a pointer.
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

// Keeps objects alive after the case. The listener itself is never stored here.
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

// case: offset 40 of a live block of 48 bytes (allocated in dispatched(), holders.swift:
@inline(never) func dispatched() -> UInt {
    let listener = Listener()
    nonisolated(unsafe) let captured = listener
    let result = hidden(listener)
    DispatchQueue.global().asyncAfter(deadline: .now() + 3600) { _ = captured.notify() }
    return result
}

// MARK: more properties

extension Listener: Hashable {
    static func == (left: Listener, right: Listener) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

@inline(never) func makeListener() -> Listener { Listener() }

final class Screen {
    var title = "a title"
    lazy var listener = makeListener()
}
// case: Screen.listener of a live
@inline(never) func lazyProperty() -> UInt {
    let screen = Screen()
    kept.append(screen)
    return hidden(screen.listener)
}

@propertyWrapper struct Logged<Value> {
    var writes = 0
    var value: Value
    init(wrappedValue: Value) { value = wrappedValue }
    var wrappedValue: Value {
        get { value }
        set { (value, writes) = (newValue, writes + 1) }
    }
}
final class Page { @Logged var listener: Listener? = nil }
// case: Page._listener of a live
@inline(never) func wrappedProperty() -> UInt {
    let page = Page()
    page.listener = makeListener()
    kept.append(page)
    return hidden(page.listener!)
}

final class Tupled { var pair: (count: Int, listener: Listener)? }
// case: Tupled.pair of a live
@inline(never) func tuple() -> UInt {
    let tupled = Tupled()
    tupled.pair = (1, makeListener())
    kept.append(tupled)
    return hidden(tupled.pair!.listener)
}

protocol Notifying { func notify() -> Int }
extension Listener: Notifying {}
final class Presenter {
    var rank = 1
    var output: any Notifying
    init(_ output: any Notifying) { self.output = output }
}
// case: Presenter.output of a live
@inline(never) func existential() -> UInt {
    let listener = makeListener()
    kept.append(Presenter(listener))
    return hidden(listener)
}

protocol Delegate: AnyObject { func notify() -> Int }
extension Listener: Delegate {}
final class Controller {
    unowned(unsafe) var delegate: (any Delegate)?
    var title = "a title"
}
// case: Controller.delegate of a live
@inline(never) func delegate() -> UInt {
    let controller = Controller()
    let listener = makeListener()
    _ = Unmanaged.passRetained(listener) // the reference that overRelease drops
    controller.delegate = listener
    kept.append(controller)
    return hidden(listener)
}

enum Step {
    case pending(Int)
    case named(String)
    case running(Listener)
    case failed(Feed)
}
final class Job { var step = Step.pending(1) }
// case: Job.step of a live
@inline(never) func manyPayloads() -> UInt {
    let job = Job()
    let listener = makeListener()
    job.step = .running(listener)
    kept.append(job)
    return hidden(listener)
}

final class Request { var result: Result<Listener, any Error>? }
// case: Request.result of a live
@inline(never) func result() -> UInt {
    let request = Request()
    let listener = makeListener()
    request.result = .success(listener)
    kept.append(request)
    return hidden(listener)
}

class Repository<Model> {
    var model: Model?
    var version = 1
}
final class ListenerRepository: Repository<Listener> { var name = "repository" }
// case: ListenerRepository.model of a live
@inline(never) func genericSuperclass() -> UInt {
    let repository = ListenerRepository()
    let listener = makeListener()
    repository.model = listener
    kept.append(repository)
    return hidden(listener)
}

struct Owned: ~Copyable { var listener: Listener }
final class Vault {
    var owned: Owned
    init(_ listener: Listener) { owned = Owned(listener: listener) }
}
// case: Vault.owned of a live
@inline(never) func noncopyable() -> UInt {
    let listener = makeListener()
    kept.append(Vault(listener))
    return hidden(listener)
}

final class LockedOne: Sendable { let state = Mutex<Listener?>(nil) }
// case: LockedOne.state of a live
@inline(never) func mutex() -> UInt {
    let locked = LockedOne()
    let result = locked.state.withLock { state in
        let listener = makeListener()
        let result = hidden(listener)
        state = listener
        return result
    }
    kept.append(locked)
    return result
}

// Words that only look like references: the object's identifier, a number, and the side table of a weak reference.
struct WeakListener { weak var value: Listener? }
final class Registrations {
    var identifiers: [ObjectIdentifier: Int] = [:]
    var address: UInt = 0
    var weak: [WeakListener] = []
    var active: Listener?
}
// case: Registrations.active of a live
@inline(never) func weakTable() -> UInt {
    let registrations = Registrations()
    let listener = makeListener()
    registrations.identifiers[ObjectIdentifier(listener)] = 1
    registrations.address = ~hidden(listener)
    registrations.weak.append(WeakListener(value: listener))
    registrations.active = listener
    kept.append(registrations)
    return hidden(listener)
}

// MARK: elements

struct Cell {
    var weight = 1.5
    var listener: Listener?
}
struct Row {
    var title = "a row with a title that is not short"
    var cells = (Cell(), Cell())
}
final class Grid { var rows: [Row] = [] }
// case: an element of a live [Row] | an element of a live [holders.Row]
@inline(never) func structInArray() -> UInt {
    let grid = Grid()
    grid.rows = [Row(), Row(), Row()]
    grid.rows[2].cells.1.listener = makeListener()
    kept.append(grid)
    return hidden(grid.rows[2].cells.1.listener!)
}

final class History { var states: [State] = [.idle] }
// case: an element of a live [State] | an element of a live [holders.State]
@inline(never) func enumInArray() -> UInt {
    let history = History()
    let listener = makeListener()
    history.states.append(.active(listener))
    kept.append(history)
    return hidden(listener)
}

final class Ranks { var ranks: [Listener: Int] = [:] }
// case: an element of a live [Listener: Int] | an element of a live [holders.Listener: Swift.Int]
@inline(never) func dictionaryKey() -> UInt {
    let ranks = Ranks()
    let listener = makeListener()
    for rank in 0..<5 { ranks.ranks[makeListener()] = rank }
    ranks.ranks[listener] = 7
    kept.append(ranks)
    return hidden(listener)
}

final class Audience { var listeners: Set<Listener> = [] }
// case: an element of a live Set<Listener> | an element of a live Swift.Set<holders.Listener>
@inline(never) func set() -> UInt {
    let audience = Audience()
    let listener = makeListener()
    audience.listeners = [makeListener(), listener, makeListener()]
    kept.append(audience)
    return hidden(listener)
}

final class Handles { var handles: [Int: Unmanaged<Listener>] = [:] }
// case: an element of a live [Int: Unmanaged<Listener>]
@inline(never) func unmanagedTable() -> UInt {
    let handles = Handles()
    let listener = makeListener()
    handles.handles[3] = Unmanaged.passRetained(listener)
    kept.append(handles)
    return hidden(listener)
}

final class Window { var visible: ArraySlice<Listener> = [] }
// case: an element of a live [Listener] | an element of a live [AnyObject]
@inline(never) func slice() -> UInt {
    let window = Window()
    window.visible = (0..<5).map { _ in makeListener() }[1...3]
    kept.append(window)
    return hidden(window.visible[2])
}

final class Values { var values: [Any] = [] }
// case: an element of a live [Any]
@inline(never) func anyInArray() -> UInt {
    let values = Values()
    let listener = makeListener()
    values.values = [1, "two", listener]
    kept.append(values)
    return hidden(listener)
}

final class Ring: ManagedBuffer<Int, Listener> {
    deinit { _ = withUnsafeMutablePointers { $1.deinitialize(count: $0.pointee) } }
}
// case: an element of a live Ring
@inline(never) func managedBuffer() -> UInt {
    let ring = Ring.create(minimumCapacity: 4) { _ in 3 }
    ring.withUnsafeMutablePointerToElements { elements in
        for index in 0..<3 { (elements + index).initialize(to: makeListener()) }
    }
    kept.append(ring)
    return ring.withUnsafeMutablePointerToElements { hidden($0[1]) }
}

final class Raw {
    let listeners = UnsafeMutablePointer<Listener>.allocate(capacity: 4)
}
// case: offset 8 of a live block of 32 bytes (allocated in
@inline(never) func allocatedPointer() -> UInt {
    let raw = Raw()
    for index in 0..<4 { (raw.listeners + index).initialize(to: makeListener()) }
    kept.append(raw)
    return hidden(raw.listeners[1])
}

indirect enum Tree {
    case leaf
    case node(Tree, Listener, Tree)
}
final class Forest { var tree = Tree.leaf }
// case: an indirect enum Tree that holds it
@inline(never) func indirectEnum() -> UInt {
    let forest = Forest()
    let listener = makeListener()
    forest.tree = .node(.leaf, listener, .leaf)
    kept.append(forest)
    return hidden(listener)
}

struct Failure: Error, @unchecked Sendable {
    var code = 4
    var listener: Listener
}
final class Report { var error: (any Error)? }
// case: a boxed error that holds it
@inline(never) func boxedError() -> UInt {
    let report = Report()
    let listener = makeListener()
    report.error = Failure(listener: listener)
    kept.append(report)
    return hidden(listener)
}

// MARK: closures

// case: Timer.handler of a live
@inline(never) func boundMethod() -> UInt {
    let timer = Timer()
    let listener = makeListener()
    timer.handler = listener.notify
    kept.append(timer)
    return hidden(listener)
}

final class Signal { var observers: [() -> Int] = [] }
// case: a closure that has captured it
@inline(never) func closuresInArray() -> UInt {
    let signal = Signal()
    let listener = makeListener()
    for count in 0..<3 { signal.observers.append { count } }
    let more = kept.count
    signal.observers.append { listener.notify() + more }
    kept.append(signal)
    return hidden(listener)
}

// case: a closure that has captured it
@inline(never) func capturedStruct() -> UInt {
    let timer = Timer()
    let pair = Pair(second: makeListener())
    timer.handler = { pair.second.notify() + pair.first }
    kept.append(timer)
    return hidden(pair.second)
}

// MARK: globals

enum Services { nonisolated(unsafe) static let listener = makeListener() }
// case: the global 'static Services.listener' (holders | the global 'Services.listener' (holders
@inline(never) func staticLet() -> UInt { hidden(Services.listener) }

nonisolated(unsafe) var recent: (Listener?, Listener?) = (nil, nil)
// case: the global 'recent' (holders
@inline(never) func globalTuple() -> UInt {
    recent.1 = makeListener()
    return hidden(recent.1!)
}

// MARK: what Dispatch holds

// If a closure captures one object only, the object itself is the closure's context, word 5 of the Dispatch block.

// case: a closure that has captured it
@inline(never) func dispatchSource() -> UInt {
    nonisolated(unsafe) let listener = makeListener()
    let result = hidden(listener)
    let source = DispatchSource.makeTimerSource()
    let more = kept.count
    source.setEventHandler { _ = listener.notify() + more }
    source.schedule(deadline: .now() + 3600)
    source.resume()
    kept.append(source)
    return result
}

final class Debouncer { var item: DispatchWorkItem? }
// case: offset 40 of a live block of 48 bytes (allocated in workItem(), holders.swift:
@inline(never) func workItem() -> UInt {
    nonisolated(unsafe) let listener = makeListener()
    let debouncer = Debouncer()
    debouncer.item = DispatchWorkItem { _ = listener.notify() }
    kept.append(debouncer)
    return hidden(listener)
}

// case: offset 40 of a live block of 48 bytes (allocated in suspendedQueue(), holders.swift:
@inline(never) func suspendedQueue() -> UInt {
    nonisolated(unsafe) let listener = makeListener()
    let result = hidden(listener)
    let queue = DispatchQueue(label: "suspended")
    queue.suspend()
    queue.async { _ = listener.notify() }
    kept.append(queue)
    return result
}

// case: offset 40 of a live block of 48 bytes (allocated in groupNotify(), holders.swift:
@inline(never) func groupNotify() -> UInt {
    nonisolated(unsafe) let listener = makeListener()
    let result = hidden(listener)
    let group = DispatchGroup()
    group.enter()
    group.notify(queue: .global()) { _ = listener.notify() }
    kept.append(group)
    return result
}

// MARK: what tasks hold

/// Starts a task, and returns when the task sleeps.
@inline(never) func startTask(_ body: @escaping @Sendable (DispatchSemaphore) async -> Void) {
    let started = DispatchSemaphore(value: 0)
    kept.append(Task.detached { await body(started) })
    started.wait()
    usleep(20000)
}

@inline(never) func sleepLong(_ started: DispatchSemaphore) async {
    started.signal()
    try? await Task.sleep(for: .seconds(3600))
}

final class Answer: Sendable { let block = Atomic<UInt>(0) }

// case: offset # of a live block of # bytes (allocated in startTask(_:), holders.swift:
@inline(never) func asyncLocal() -> UInt {
    let answer = Answer()
    startTask { started in
        let listener = makeListener()
        answer.block.store(hidden(listener), ordering: .relaxed)
        await sleepLong(started)
        _ = listener.notify()
    }
    return answer.block.load(ordering: .relaxed)
}

// case: a closure that has captured it
@inline(never) func taskGroup() -> UInt {
    nonisolated(unsafe) let listener = makeListener()
    let result = hidden(listener)
    startTask { started in
        await withTaskGroup(of: Int.self) { group in
            group.addTask {
                await sleepLong(started)
                return listener.notify()
            }
            await group.waitForAll()
        }
    }
    return result
}

struct Token: @unchecked Sendable { var listener: Listener }
enum Context { @TaskLocal static var token: Token? }
// case: offset # of a live block of # bytes (allocated in startTask(_:), holders.swift:
@inline(never) func taskLocal() -> UInt {
    let answer = Answer()
    startTask { started in
        let token = Token(listener: makeListener())
        answer.block.store(hidden(token.listener), ordering: .relaxed)
        await Context.$token.withValue(token) { await sleepLong(started) }
    }
    return answer.block.load(ordering: .relaxed)
}

final class Events {
    let stream: AsyncStream<Token>
    let continuation: AsyncStream<Token>.Continuation
    init() { (stream, continuation) = AsyncStream.makeStream(of: Token.self) }
}
// case: an element of a live _DequeBuffer<Token>
@inline(never) func streamElement() -> UInt {
    let events = Events()
    let listener = makeListener()
    events.continuation.yield(Token(listener: listener))
    kept.append(events)
    return hidden(listener)
}

// case: AsyncStream<Token>._Storage.state of a live
@inline(never) func streamTermination() -> UInt {
    let events = Events()
    nonisolated(unsafe) let listener = makeListener()
    let result = hidden(listener)
    events.continuation.onTermination = { _ in _ = listener.notify() }
    kept.append(events)
    return result
}

nonisolated(unsafe) let cases: [(String, () -> UInt)] = [
    ("property", property), ("inherited", inherited), ("generic", generic), ("unmanaged", unmanaged),
    ("actorProperty", actorProperty), ("structProperty", structProperty), ("enumProperty", enumProperty),
    ("array", array), ("dictionary", dictionary), ("closure", closure), ("capturedVariable", capturedVariable),
    ("global", global), ("staticProperty", staticProperty), ("task", task), ("dispatched", dispatched),
    ("lazyProperty", lazyProperty), ("wrappedProperty", wrappedProperty), ("tuple", tuple),
    ("existential", existential), ("delegate", delegate), ("manyPayloads", manyPayloads), ("result", result),
    ("genericSuperclass", genericSuperclass), ("noncopyable", noncopyable), ("mutex", mutex),
    ("weakTable", weakTable), ("structInArray", structInArray), ("enumInArray", enumInArray),
    ("dictionaryKey", dictionaryKey), ("set", set), ("unmanagedTable", unmanagedTable), ("slice", slice),
    ("anyInArray", anyInArray), ("managedBuffer", managedBuffer), ("allocatedPointer", allocatedPointer),
    ("indirectEnum", indirectEnum), ("boxedError", boxedError), ("boundMethod", boundMethod),
    ("closuresInArray", closuresInArray), ("capturedStruct", capturedStruct), ("staticLet", staticLet),
    ("globalTuple", globalTuple), ("dispatchSource", dispatchSource), ("workItem", workItem),
    ("suspendedQueue", suspendedQueue), ("groupNotify", groupNotify), ("asyncLocal", asyncLocal),
    ("taskGroup", taskGroup), ("taskLocal", taskLocal), ("streamElement", streamElement),
    ("streamTermination", streamTermination),
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
