// Weak, unowned and unmanaged references, with object and reference released in every order.

import Foundation

struct WeakBox<Object: AnyObject>: @unchecked Sendable {
    weak var object: Object?
}

struct UnownedBox<Object: AnyObject> {
    unowned var object: Object
}

protocol Listener: AnyObject {
    func heard(_ number: Int)
}

final class Speaker: Tracked, @unchecked Sendable {
    weak var listener: (any Listener)?
    private(set) var unheard = 0

    func say(_ number: Int) {
        if let listener { listener.heard(number) } else { unheard += 1 }
    }
}

final class Ear: Tracked, Listener, @unchecked Sendable {
    private(set) var sum = 0
    func heard(_ number: Int) { sum += number }
}

/// Parent and children: strong downwards, unowned or weak upwards.
final class Parent: Tracked, @unchecked Sendable {
    private(set) var children: [Child] = []
    var visits = 0

    func grow(_ count: Int) { for _ in 0..<count { children.append(Child(of: self, children.count)) } }
}

final class Child: Tracked, @unchecked Sendable {
    unowned let parent: Parent
    weak var weakParent: Parent?
    unowned(unsafe) let unsafeParent: Parent
    let number: Int

    init(of parent: Parent, _ number: Int) {
        self.parent = parent
        self.weakParent = number % 2 == 0 ? parent : nil
        self.unsafeParent = parent
        self.number = number
        super.init()
    }

    func visit() -> Int {
        parent.visits += 1
        unsafeParent.visits += 1
        return number + (weakParent === parent ? 1000 : 0)
    }
}

/// During its deinit, the object retains itself, forms and loads weak references, and creates other objects.
final class Busy: Tracked, @unchecked Sendable {
    nonisolated(unsafe) static var weakSeen = 0
    var friend: Leaf? = Leaf(1)
    var onEnd: ((Int) -> Void)?

    @inline(never)
    private func touch(_ other: Busy) -> Int { opaque(other).friend?.value ?? 0 }

    deinit {
        let own = touch(self)
        let box = WeakBox(object: opaque(friend))
        friend = nil
        require(box.object == nil, "a weak reference to an object that its owner dropped in deinit")
        let made = (0..<3).map { Leaf($0) }
        onEnd?(own + made.reduce(0) { $0 + $1.value })
    }
}

func weakReferences(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    for round in 0..<1500 {
        // Releases the object before the references, after them, or between them.
        var object: Leaf? = Leaf(round)
        var boxes = (0..<numbers.below(6)).map { _ in WeakBox(object: object) }
        if numbers.below(2) == 0 { boxes.append(contentsOf: boxes) }  // copies of weak references
        sum += boxes.compactMap(\.object).reduce(0) { $0 + $1.value }
        if numbers.below(3) == 0 { boxes.removeAll() }
        object = numbers.below(2) == 0 ? nil : Leaf(1)
        let late = boxes
        sum += late.filter { $0.object == nil }.count
        require(late.allSatisfy { $0.object == nil }, "a weak reference outlived its object")

        let speaker = Speaker()
        var ear: Ear? = Ear()
        speaker.listener = ear
        speaker.say(round)
        sum += ear?.sum ?? 0
        ear = nil
        speaker.say(round)
        sum += speaker.unheard
        speaker.listener = opaque(nil as Ear?)
    }
    return sum
}

func unownedReferences(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    var late: [() -> Int] = []  // closures with unowned references to destroyed objects; never called
    var boxes: [UnownedBox<Leaf>] = []
    for _ in 0..<400 {
        let parent = Parent()
        parent.grow(1 + numbers.below(8))
        sum += parent.children.reduce(0) { $0 + $1.visit() } + parent.visits
        late.append { [unowned parent] in parent.visits }
        late.append { [unowned parent, weak child = parent.children.last] in parent.visits + (child?.number ?? 0) }
        let leaf = opaque(Leaf(numbers.below(100)))
        boxes.append(UnownedBox(object: leaf))
        boxes.append(boxes[boxes.count - 1])
        sum += boxes[boxes.count - 1].object.value
        let box = WeakBox(object: leaf)
        sum += box.object?.value ?? 0  // unowned and weak references to one object need a side table
        if numbers.below(20) == 0 { late.removeAll() }
        if numbers.below(20) == 0 { boxes.shuffle(using: &numbers) }
        if numbers.below(30) == 0 { boxes.removeLast(boxes.count / 2) }
    }
    return sum
}

func unmanagedReferences(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = 0
    let slots = UnsafeMutablePointer<UnsafeMutableRawPointer?>.allocate(capacity: 64)
    slots.initialize(repeating: nil, count: 64)
    for round in 0..<4000 {
        let at = numbers.below(64)
        if let pointer = slots[at] {
            slots[at] = nil
            let unmanaged = Unmanaged<Leaf>.fromOpaque(pointer)
            sum += unmanaged.takeUnretainedValue().value
            _ = unmanaged.retain()
            unmanaged.release()
            sum += unmanaged.takeRetainedValue().isIntact ? 1 : 0
        } else {
            slots[at] = Unmanaged.passRetained(Leaf(round)).toOpaque()
        }
    }
    for at in 0..<64 {
        if let pointer = slots[at] { Unmanaged<Leaf>.fromOpaque(pointer).release() }
    }
    slots.deinitialize(count: 64)
    slots.deallocate()

    // Raw memory that looks like a live or a freshly destroyed object, but is not an object.
    for round in 0..<500 {
        let leaf = Leaf(round)
        let size = 16 + 16 * numbers.below(12)
        let copy = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: round % 2 == 0 ? 8 : 16)
        copy.copyMemory(from: Unmanaged.passUnretained(leaf).toOpaque(), byteCount: 16)
        if round % 3 == 0 { copy.storeBytes(of: 0x0000_0001_0000_0003, toByteOffset: 8, as: UInt64.self) }
        if round % 7 == 0 { copy.storeBytes(of: 0x0000_0001_0000_0001, toByteOffset: 8, as: UInt64.self) }
        copy.deallocate()
        sum += opaque(leaf).value
        require(leaf.isIntact, "a copy of an object's header was freed and the object with it")
    }
    return sum
}

func busyDeinits(_ seed: Int) -> Int {
    var sum = 0
    for _ in 0..<800 {
        let busy = Busy()
        busy.onEnd = { sum += $0 }
        _ = opaque(busy)
    }
    return sum
}

func references(_ seed: Int) -> String {
    var sum = Checksum()
    sum.add(weakReferences(seed))
    sum.add(unownedReferences(seed))
    sum.add(unmanagedReferences(seed))
    sum.add(busyDeinits(seed))
    return sum.description
}
