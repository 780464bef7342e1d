// Retain cycles of each kind, and their corrected twins. Arguments: the case's name, and "fixed" for the twin.
// The comment above a case is its only registration: "// case: PATH", the cycle as zguard must write it, "-" if the
// case is correct in both forms, or "- leak" if it loses objects without a cycle. Several paths are separated by " | ".

import Dispatch
import Glibc

// case: Session.handler → closure #2 in Session.start → Session
final class Session {
    var handler: (() -> Void)?
    var count = 0
    func start(_ isFixed: Bool) {
        if isFixed { handler = { [weak self] in self?.count += 1 } } else { handler = { self.count += 1 } }
    }
}
func selfInClosure(_ isFixed: Bool) { Session().start(isFixed) }

// case: Report.text → closure
final class Report {
    let name = "a report with a name that is not short"
    var isFixed = false
    lazy var text: () -> String = isFixed ? { [unowned self] in name } : { self.name }
}
func lazyClosure(_ isFixed: Bool) {
    let report = Report()
    report.isFixed = isFixed
    _ = report.text()
}

protocol ViewDelegate: AnyObject { func changed() }
final class View { var delegate: (any ViewDelegate)? }
final class WeakView { weak var delegate: (any ViewDelegate)? }
final class Controller: ViewDelegate {
    var view: AnyObject?
    func changed() {}
}
// case: Controller.view → View.delegate → Controller | View.delegate → Controller.view → View
func delegate(_ isFixed: Bool) {
    let controller = Controller()
    if isFixed {
        let view = WeakView()
        view.delegate = controller
        controller.view = view
    } else {
        let view = View()
        view.delegate = controller
        controller.view = view
    }
}

final class Parent { var children: [AnyObject] = [] }
final class Child { var parent: Parent? }
final class UnownedChild {
    unowned let parent: Parent
    init(_ parent: Parent) { self.parent = parent }
}
// case: Parent.children → element of [AnyObject] → Child.parent → Parent | Child.parent → Parent.children → element of [AnyObject] → Child
func throughArray(_ isFixed: Bool) {
    let parent = Parent()
    for _ in 0..<3 {
        if isFixed {
            parent.children.append(UnownedChild(parent))
        } else {
            let child = Child()
            child.parent = parent
            parent.children.append(child)
        }
    }
}

final class Registry { var entries: [String: Entry] = [:] }
final class Entry { var registry: Registry? }
// case: Registry.entries → element of [String: Entry] → Entry.registry → Registry | Entry.registry → Registry.entries → element of [String: Entry] → Entry
func throughDictionary(_ isFixed: Bool) {
    let registry = Registry()
    let entry = Entry()
    registry.entries["an entry under a long name"] = entry
    if !isFixed { entry.registry = registry }
}

final class Member: Hashable {
    var group: Group?
    static func == (a: Member, b: Member) -> Bool { a === b }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
final class Group { var members: Set<Member> = [] }
// case: Group.members → element of Set<Member> → Member.group → Group | Member.group → Group.members → element of Set<Member> → Member
func throughSet(_ isFixed: Bool) {
    let group = Group()
    let member = Member()
    group.members.insert(member)
    if !isFixed { member.group = group }
}

final class Node {
    var next: Node?
    weak var previous: Node?
}
// case: Node.next → Node.next → Node
func throughOptional(_ isFixed: Bool) {
    let node = Node()
    node.next = Node()
    if isFixed { node.next?.previous = node } else { node.next?.next = node }
}

// case: Node.next → Node
func selfReference(_ isFixed: Bool) {
    let node = Node()
    if isFixed { node.previous = node } else { node.next = node }
}

protocol Speaker { func speak() }
struct SmallSpeaker: Speaker {
    var room: Room?
    func speak() {}
}
struct LargeSpeaker: Speaker {
    var words = (1, 2, 3, 4)
    var room: Room?
    func speak() {}
}
final class Room { var speaker: (any Speaker)? }
// case: Room.speaker → Room
func existential(_ isFixed: Bool) {
    let room = Room()
    room.speaker = SmallSpeaker(room: isFixed ? nil : room)
}
// case: Room.speaker → box → Room
func boxedExistential(_ isFixed: Bool) {
    let room = Room()
    room.speaker = LargeSpeaker(room: isFixed ? nil : room)
}

final class Box<Value> {
    var value: Value?
    init() {}
}
final class Owner {
    var box = Box<Owner>()
    var boxes: [Box<Owner>] = []
}
// case: Owner.box → Box<Owner>.value → Owner | Box<Owner>.value → Owner.box → Box<Owner>
func generic(_ isFixed: Bool) {
    let owner = Owner()
    if !isFixed { owner.box.value = owner }
}

actor Account {
    var partner: Account?
    func join(_ other: Account?) { partner = other }
    nonisolated let name = "account"
}
// case: Account.partner → Account.partner → Account
func actors(_ isFixed: Bool) {
    let first = Account()
    let second = Account()
    let done = DispatchSemaphore(value: 0)
    Task {
        await first.join(second)
        if !isFixed { await second.join(first) }
        done.signal()
    }
    done.wait()
    usleep(20_000)
}

final class Job { var machine: Machine? }
enum State {
    case idle
    case running(Job)
    case failed(Job, code: Int)
}
final class Machine { var state = State.idle }
// case: Machine.state → Job.machine → Machine | Job.machine → Machine.state → Job
func enumPayload(_ isFixed: Bool) {
    let machine = Machine()
    let job = Job()
    machine.state = .running(job)
    if !isFixed { job.machine = machine }
}
// case: Machine.state → Job.machine → Machine | Job.machine → Machine.state → Job
func enumOfSeveral(_ isFixed: Bool) {
    let machine = Machine()
    let job = Job()
    machine.state = .failed(job, code: 3)
    if !isFixed { job.machine = machine }
}

indirect enum Tree {
    case leaf(Forest?)
    case fork(Tree, Tree)
}
final class Forest { var tree = Tree.leaf(nil) }
// case: Forest.tree → indirect enum Tree → box → Forest
func indirectEnum(_ isFixed: Bool) {
    let forest = Forest()
    forest.tree = .fork(.leaf(nil), .leaf(isFixed ? nil : forest))
}

final class Pair { var both: (Int, Pair?) = (1, nil) }
// case: Pair.both → Pair.both → Pair
func tuple(_ isFixed: Bool) {
    let first = Pair()
    let second = Pair()
    first.both = (1, second)
    if !isFixed { second.both = (2, first) }
}

struct Link {
    var number = 1
    var target: Chain?
}
final class Chain { var link = Link() }
// case: Chain.link → Chain.link → Chain
func structure(_ isFixed: Bool) {
    let first = Chain()
    let second = Chain()
    first.link.target = second
    if !isFixed { second.link.target = first }
}

class Animal { var friend: Animal? }
final class Dog: Animal { var age = 1 }
// case: Dog.friend → Dog.friend → Dog
func inherited(_ isFixed: Bool) {
    let first = Dog()
    let second = Dog()
    first.friend = second
    if !isFixed { second.friend = first }
}

final class Clock { var handlers: [() -> Void] = [] }
final class Screen {
    var clock = Clock()
    var drawn = 0
    func start(_ isFixed: Bool) {
        if isFixed {
            clock.handlers.append { [weak self] in self?.drawn += 1 }
        } else {
            clock.handlers.append { self.drawn += 1 }
        }
    }
}
// case: Screen.clock → Clock.handlers → element of [() -> ()] → closure #2 in Screen.start → Screen | Clock.handlers → element of [() -> ()] → closure #2 in Screen.start → Screen.clock → Clock
func closuresInArray(_ isFixed: Bool) { Screen().start(isFixed) }

final class Button {
    var action: (() -> Void)?
    var presses = 0
    func press() { presses += 1 }
}
// case: Button.action → implicit closure
func methodReference(_ isFixed: Bool) {
    let button = Button()
    button.action = button.press
    if isFixed { button.action = nil }
}

final class Sink { var cancel: (() -> Void)? }
final class Publisher {
    var sinks: [Int: Sink] = [:]
    func subscribe(_ isFixed: Bool) -> Sink {
        let sink = Sink()
        sink.cancel = { self.sinks[1] = nil }
        sinks[1] = sink
        return sink
    }
}
// case: Sink.cancel → closure #1 in Publisher.subscribe → Publisher.sinks → element of [Int: Sink] → Sink | Publisher.sinks → element of [Int: Sink] → Sink.cancel → closure #1 in Publisher.subscribe → Publisher
func sink(_ isFixed: Bool) {
    let sink = Publisher().subscribe(isFixed)
    if isFixed { sink.cancel?() }
}

final class Worker: @unchecked Sendable {
    var task: Task<Void, Never>?
    var continuation: CheckedContinuation<Void, Never>?
    var done = 0
    func start(_ started: DispatchSemaphore) {
        task = Task {
            await withCheckedContinuation {
                continuation = $0
                started.signal()
            }
            done += 1
        }
    }
}
// case: Worker.task → Task →
func task(_ isFixed: Bool) {
    let started = DispatchSemaphore(value: 0)
    let worker = Worker()
    worker.start(started)
    started.wait()
    usleep(20_000)
    if isFixed {
        worker.continuation?.resume()
        worker.continuation = nil
        usleep(20_000)
    }
    // Threads of the pool cache the memory of their last jobs, which still refers to the task. New jobs overwrite it.
    for _ in 0..<8 {
        Task {
            for _ in 0..<64 { Task { started.signal() } }
            started.signal()
        }
    }
    for _ in 0..<8 * 65 { started.wait() }
    usleep(20_000)
}

final class Feed: @unchecked Sendable {
    var continuation: AsyncStream<Int>.Continuation?
    var stopped = 0
    func start(_ isFixed: Bool) {
        let (_, continuation) = AsyncStream.makeStream(of: Int.self)
        self.continuation = continuation
        if isFixed {
            continuation.onTermination = { [weak self] _ in self?.stopped += 1 }
        } else {
            continuation.onTermination = { _ in self.stopped += 1 }
        }
    }
}
// case: Feed.continuation →
func stream(_ isFixed: Bool) { Feed().start(isFixed) }

// case: closure context | closure | box
func capturedVariable(_ isFixed: Bool) {
    var again: (() -> Int)?
    var count = 0
    again = {
        count += 1
        return count < 3 ? again?() ?? 0 : count
    }
    _ = again?()
    if isFixed { again = nil }
}

final class Held { unowned(unsafe) var holder: Holder? }
final class Holder { var held = Held() }
// case: -
func unownedUnsafe(_ isFixed: Bool) {
    let holder = Holder()
    holder.held.holder = holder
}

final class WeakRing { weak var other: WeakRing? }
// case: -
func weakRing(_ isFixed: Bool) {
    let first = WeakRing()
    let second = WeakRing()
    first.other = second
    second.other = first
}

nonisolated(unsafe) var keptNodes: [Node] = []
// A ring that a global leads to.
// case: -
func keptRing(_ isFixed: Bool) {
    let node = Node()
    node.next = Node()
    node.next?.next = node
    keptNodes.append(node)
}

nonisolated(unsafe) let cases: [(name: String, run: (Bool) -> Void)] = [
    ("selfInClosure", selfInClosure), ("lazyClosure", lazyClosure), ("delegate", delegate),
    ("throughArray", throughArray), ("throughDictionary", throughDictionary), ("throughSet", throughSet),
    ("throughOptional", throughOptional), ("selfReference", selfReference), ("existential", existential),
    ("boxedExistential", boxedExistential), ("generic", generic), ("actors", actors), ("enumPayload", enumPayload),
    ("enumOfSeveral", enumOfSeveral), ("indirectEnum", indirectEnum), ("tuple", tuple), ("structure", structure),
    ("inherited", inherited), ("closuresInArray", closuresInArray), ("methodReference", methodReference),
    ("sink", sink), ("task", task), ("stream", stream), ("capturedVariable", capturedVariable),
    ("unownedUnsafe", unownedUnsafe), ("weakRing", weakRing), ("keptRing", keptRing),
]
