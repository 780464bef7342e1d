// The last release of an object races with every operation that other threads may do at that moment.

import Foundation
import Synchronization

/// Threads that start each round together.
final class Starter: Sendable {
    private let waiting = Atomic<Int>(0)
    private let round = Atomic<Int>(0)
    private let threads: Int

    init(threads: Int) { self.threads = threads }

    func wait() {
        let current = round.load(ordering: .acquiring)
        if waiting.add(1, ordering: .acquiringAndReleasing).newValue == threads {
            waiting.store(0, ordering: .relaxed)
            round.store(current + 1, ordering: .releasing)
            return
        }
        var turns = 0
        while round.load(ordering: .acquiring) == current {
            turns += 1
            if turns > 200 { sched_yield() }
        }
    }
}

func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let threads = (0..<count).map { number in
        let thread = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            body(number)
            thread.signal()
        }
        return thread
    }
    for thread in threads { thread.wait() }
}

/// Each reader loads its own weak reference repeatedly, while the owner releases the object. The thread with the last
/// strong reference destroys the object.
func weakAgainstDeinit(rounds: Int) -> Int {
    let readers = 4, starter = Starter(threads: readers + 1)
    nonisolated(unsafe) var boxes: [WeakBox<Leaf>] = []
    nonisolated(unsafe) var owner: Leaf?
    let seen = Counter()
    onThreads(readers + 1) { number in
        for round in 0..<rounds {
            if number == readers {
                owner = Leaf(round)
                boxes = (0..<readers).map { _ in WeakBox(object: owner) }
            }
            starter.wait()
            if number == readers {
                for _ in 0..<(round % 300) { _ = opaque(round) }
                owner = nil
            } else {
                var copy = boxes[number], loads = 0
                while loads < 400, let leaf = copy.object {
                    require(leaf.isIntact && leaf.value == round, "a weak reference gave a dead object")
                    loads += 1
                    if loads % 3 == 0 { copy = WeakBox(object: leaf) }
                }
            }
            starter.wait()
            if number < readers {
                require(boxes[number].object == nil, "a weak reference outlived the last strong one")
                seen.add(1)
            }
            starter.wait()
        }
    }
    return seen.value
}

/// All threads hold and copy the object, and any of them may release it last.
func lastRelease(rounds: Int) -> Int {
    let count = 4, starter = Starter(threads: count)
    nonisolated(unsafe) let shared = UnsafeMutablePointer<Parent?>.allocate(capacity: count)
    shared.initialize(repeating: nil, count: count)
    defer { shared.deallocate() }
    let sum = Counter()
    onThreads(count) { number in
        for round in 0..<rounds {
            if number == round % count {
                let parent = Parent()
                parent.grow(3)
                shared.update(repeating: parent, count: count)
            }
            starter.wait()
            if let mine = shared[number] {
                shared[number] = nil
                let copies = Array(repeating: mine, count: 1 + round % 4)
                sum.add(copies.reduce(0) { $0 + $1.children.count })
                let child = copies[0].children[number % 3]
                require(child.parent === mine && child.isIntact, "a dead child")
                let late = { [unowned mine] in mine.visits }  // any thread may release these unowned references
                _ = opaque(late)
            }
            starter.wait()
        }
    }
    return sum.value
}

/// Objects are created by one thread and destroyed by another, through a bounded queue.
func handover(rounds: Int) -> Int {
    let queue = Mutex<[Tracked]>([]), sum = Counter(), left = Atomic<Int>(rounds * 2)
    onThreads(4) { number in
        if number < 2 {
            var made = 0
            while made < rounds {
                let object: Tracked = made % 3 == 0 ? Link(made, Link(1, nil)) : made % 3 == 1 ? Vector() : nested(made % 6, Leaf(made))
                let accepted = queue.withLock { list in
                    if list.count >= 64 { return false }
                    list.append(object)
                    return true
                }
                if accepted { made += 1 } else { sched_yield() }
            }
        } else {
            while left.load(ordering: .relaxed) > 0 {
                guard let object = queue.withLock({ $0.isEmpty ? nil : $0.removeLast() }) else {
                    sched_yield()
                    continue
                }
                require(object.isIntact, "a dead object came through a queue")
                sum.add((object as? Link)?.next?.number ?? 0)
                left.subtract(1, ordering: .relaxed)
            }
        }
    }
    return sum.value
}

/// A value shared by all threads, which every thread copies and changes.
func sharedValues(rounds: Int) -> Int {
    let table = Dictionary(uniqueKeysWithValues: (0..<50).map { ("key \($0) of a table that is shared", [Leaf($0)]) })
    let text = String(repeating: "shared ", count: 30)
    let sum = Counter()
    onThreads(4) { number in
        for round in 0..<rounds {
            var own = table, line = text
            own["key \(round % 50) of a table that is shared"]?.append(Leaf(number))
            line += "\(number)"
            sum.add(own.values.reduce(0) { $0 + $1.count } + line.utf8.count)
        }
    }
    return sum.value
}

func races() -> String {
    var sum = Checksum()
    sum.add(weakAgainstDeinit(rounds: 3000))
    sum.add(lastRelease(rounds: 8000))
    sum.add(handover(rounds: 20_000))
    sum.add(sharedValues(rounds: 300))
    return sum.description
}
