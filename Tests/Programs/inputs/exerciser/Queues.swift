// Dispatch, operations, threads and locks. These operations block, and so must not run on Swift's concurrency threads.

import Dispatch
import Foundation
import Synchronization

final class Counter: Tracked, @unchecked Sendable {
    private let lock = NSLock()
    private var number = 0

    func add(_ more: Int) { lock.withLock { number &+= more } }
    var value: Int { lock.withLock { number } }
}

func dispatchQueues() -> Int {
    let counter = Counter()
    let serial = DispatchQueue(label: "serial"), parallel = DispatchQueue(label: "parallel", attributes: .concurrent)
    let group = DispatchGroup()
    for round in 0..<2000 {
        let leaf = Leaf(round)
        parallel.async(group: group) {
            let inner = Leaf(leaf.value)
            serial.async(group: group) { counter.add(inner.value &+ (leaf.isIntact ? 1 : 0)) }
        }
        if round % 200 == 0 { parallel.async(group: group, flags: .barrier) { counter.add(leaf.value) } }
        if round % 300 == 0 { counter.add(serial.sync { leaf.value }) }
    }
    group.wait()

    let items = (0..<50).map { number in DispatchWorkItem { counter.add(number) } }
    for (number, item) in items.enumerated() {
        if number % 3 == 0 { item.cancel() }
        item.notify(queue: serial) { _ = Leaf(number) }
        parallel.async(execute: item)
    }
    for item in items { item.wait() }
    serial.sync {}

    let slots = Mutex<[Int: Leaf]>([:])
    DispatchQueue.concurrentPerform(iterations: 4000) { number in
        let leaf = Leaf(number)
        let old = slots.withLock { table in
            let old = table[number % 37]
            table[number % 37] = leaf
            return old
        }
        require(old?.isIntact ?? true, "a dead object in a table")
    }
    counter.add(slots.withLock { $0.count })

    let semaphore = DispatchSemaphore(value: 3)
    for round in 0..<200 {
        semaphore.wait()
        parallel.async(group: group) {
            counter.add(Leaf(round).value)
            semaphore.signal()
        }
    }
    group.wait()

    let key = DispatchSpecificKey<Leaf>()
    for round in 0..<30 {
        let queue = DispatchQueue(label: "short-lived \(round)", target: serial)
        queue.setSpecific(key: key, value: Leaf(round))
        queue.async(group: group) { counter.add(DispatchQueue.getSpecific(key: key)?.value ?? 0) }
    }
    group.wait()
    return counter.value
}

func timers() -> Int {
    let counter = Counter(), queue = DispatchQueue(label: "timers"), group = DispatchGroup()
    let sources = (0..<8).map { number in
        let source = DispatchSource.makeTimerSource(queue: queue)
        let left = Counter()
        left.add(5)
        group.enter()
        source.schedule(deadline: .now() + .milliseconds(number), repeating: .milliseconds(2))
        source.setEventHandler { [weak source = source as? DispatchSource] in
            counter.add(Leaf(number).value)
            left.add(-1)
            if left.value == 0 { source?.cancel() }
        }
        source.setCancelHandler { group.leave() }
        source.activate()
        return source
    }
    group.wait()
    require(sources.allSatisfy(\.isCancelled), "a timer that was not cancelled")
    // A Dispatch source whose data comes from the program, and a child process.
    let sum = Counter(), feed = DispatchSource.makeUserDataAddSource(queue: queue)
    feed.setEventHandler { [unowned feed = feed as! DispatchSource] in sum.add(Int(bitPattern: feed.data)) }
    feed.activate()
    for number in 1...500 { feed.add(data: UInt(number)) }
    while sum.value < 500 * 501 / 2 { queue.sync { _ = Leaf(0) } }
    feed.cancel()
    let pipe = Pipe(), process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/echo")
    process.arguments = ["a child's words"]
    process.standardOutput = pipe
    do { try process.run() } catch { require(false, "echo: \(error)") }
    counter.add((try? pipe.fileHandleForReading.readToEnd())?.count ?? 0)
    process.waitUntilExit()
    counter.add(sum.value)
    return counter.value
}

final class Work: Operation, @unchecked Sendable {
    let counter: Counter
    let number: Int

    init(_ counter: Counter, _ number: Int) {
        self.counter = counter
        self.number = number
    }

    override func main() {
        if isCancelled { return }
        counter.add((0..<20).map { Leaf($0) }.reduce(number) { $0 + $1.value })
    }
}

func operations() -> Int {
    let counter = Counter(), queue = OperationQueue()
    queue.maxConcurrentOperationCount = 4
    var last: Operation?
    for round in 0..<300 {
        let work: Operation = round % 3 == 0 ? BlockOperation { counter.add(round) } : Work(counter, round)
        if let last, round % 4 == 0 { work.addDependency(last) }
        work.completionBlock = { _ = Leaf(round) }
        if round % 50 == 0 { work.cancel() }
        queue.addOperation(work)
        last = work
    }
    queue.waitUntilAllOperationsAreFinished()
    queue.addOperations([BlockOperation { counter.add(1) }], waitUntilFinished: true)

    let cache = NSCache<NSString, Leaf>()
    cache.countLimit = 50
    for round in 0..<3000 {
        let key = "key \(round * 7 % 90)" as NSString
        if let leaf = cache.object(forKey: key) { require(leaf.isIntact, "a dead object in a cache") }
        cache.setObject(Leaf(round), forKey: key)
        if round % 500 == 0 { cache.removeAllObjects() }
    }
    cache.removeAllObjects()  // a cache that is only released leaks its entries
    return counter.value
}

func threads() -> Int {
    let counter = Counter(), condition = NSCondition(), lock = NSRecursiveLock()
    nonisolated(unsafe) var finished = 0
    for number in 0..<8 {
        let thread = Thread {
            Thread.current.threadDictionary["leaf"] = Leaf(number)
            lock.withLock { lock.withLock { counter.add(number) } }
            var list: Link?
            for at in 0..<500 { list = Link(at, list) }
            counter.add(list?.number ?? 0)
            list = nil
            condition.lock()
            finished += 1
            condition.broadcast()
            condition.unlock()
        }
        thread.stackSize = 1 << 20
        thread.start()
    }
    condition.lock()
    while finished < 8 { condition.wait() }
    condition.unlock()

    // Objects handed through C as a thread's argument.
    for round in 0..<40 {
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Leaf(round)).toOpaque()
        let failed = pthread_create(
            &thread, nil,
            { argument in
                let leaf = Unmanaged<Leaf>.fromOpaque(argument!).takeRetainedValue()
                return Unmanaged.passRetained(Leaf(leaf.value * 2)).toOpaque()
            }, argument)
        require(failed == 0, "no thread")
        var result: UnsafeMutableRawPointer?
        pthread_join(thread, &result)
        counter.add(Unmanaged<Leaf>.fromOpaque(result!).takeRetainedValue().value)
    }
    return counter.value
}

func queues() -> String {
    var sum = Checksum()
    sum.add(dispatchQueues())
    sum.add(timers())
    sum.add(operations())
    sum.add(threads())
    return sum.description
}
