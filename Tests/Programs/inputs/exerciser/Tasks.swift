// Swift's concurrency: actors, groups, streams, continuations, cancellation, executors, isolated deinits.

import Foundation
import Synchronization

actor Bank {
    private var accounts: [Int: Leaf] = [:]
    private var waiting: [CheckedContinuation<Int, Never>] = []

    func deposit(_ account: Int, _ value: Int) { accounts[account] = Leaf((accounts[account]?.value ?? 0) &+ value) }

    func waitForEnd() async -> Int { await withCheckedContinuation { waiting.append($0) } }

    var waiters: Int { waiting.count }

    func end() -> Int {
        let total = accounts.values.reduce(0) { $0 &+ $1.value }
        for continuation in waiting { continuation.resume(returning: total) }
        waiting.removeAll()
        return total
    }
}

/// The actor's deinit runs on the actor's executor, after the last release on another thread.
actor Closer {
    private let counter: Counter
    private var leaves: [Leaf] = []

    init(_ counter: Counter) { self.counter = counter }

    func keep(_ leaf: Leaf) { leaves.append(leaf) }

    isolated deinit { counter.add(leaves.reduce(1) { $0 &+ $1.value }) }
}

@globalActor
actor Registry {
    static let shared = Registry()
}

@Registry
final class Registered {
    @Registry static var alive = 0
    let leaf = Leaf(1)
    init() { Registered.alive += 1 }
    isolated deinit { Registered.alive -= leaf.value }
}

/// An executor with its own serial queue.
final class Lane: SerialExecutor, @unchecked Sendable {
    private let queue = DispatchQueue(label: "lane")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
}

actor Driver {
    private let lane: Lane
    private var sum = 0
    init(_ lane: Lane) { self.lane = lane }
    nonisolated var unownedExecutor: UnownedSerialExecutor { lane.asUnownedSerialExecutor() }
    func drive(_ leaf: Leaf) -> Int {
        sum &+= leaf.value
        return sum
    }
}

enum Context {
    @TaskLocal static var leaf = Leaf(0)
}

struct Countdown: AsyncSequence {
    let from: Int
    struct Iterator: AsyncIteratorProtocol {
        var left: Int
        mutating func next() async throws -> Leaf? {
            if left == 0 { return nil }
            left -= 1
            if left % 50 == 0 { await Task.yield() }
            return Leaf(left)
        }
    }
    func makeAsyncIterator() -> Iterator { Iterator(left: from) }
}

func groups(_ seed: Int) async throws -> Int {
    let bank = Bank()
    let waiters = (0..<5).map { _ in Task { await bank.waitForEnd() } }
    var sum = await withTaskGroup(of: Int.self) { group in
        for number in 0..<40 {
            group.addTask {
                for step in 0..<25 { await bank.deposit((number + step) % 7, step) }
                return Leaf(number).value
            }
        }
        return await group.reduce(0, +)
    }
    async let left = Leaf(seed), right = nested(3, Leaf(2))
    sum += await left.value + (right.isIntact ? 1 : 0)
    while await bank.waiters < 5 { await Task.yield() }
    sum += await bank.end()
    for waiter in waiters { sum += await waiter.value }

    do {
        sum += try await withThrowingTaskGroup(of: Leaf.self) { group in
            for number in 0..<20 {
                group.addTask {
                    if number == 13 { throw Trouble.large(Leaf(13), "thirteen", []) }
                    for _ in 0..<5 { await Task.yield() }
                    return Leaf(number)
                }
            }
            while let leaf = try await group.next() { require(leaf.isIntact, "a dead result") }
            return 0
        }
        require(false, "an error was lost")
    } catch Trouble.large(let leaf, _, _) {
        sum += leaf.value
    }
    await withDiscardingTaskGroup { group in
        for number in 0..<50 { group.addTask { _ = Leaf(number) } }
    }
    for try await leaf in Countdown(from: 300) { sum += leaf.value }
    return sum
}

func streams(_ seed: Int) async -> Int {
    var sum = 0
    for policy in 0..<3 {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Leaf.self, bufferingPolicy: policy == 0 ? .unbounded : policy == 1 ? .bufferingNewest(20) : .bufferingOldest(20))
        let producer = Task {
            for number in 0..<300 { continuation.yield(Leaf(number)) }
            continuation.finish()
        }
        if policy > 0 { await producer.value }  // so that timing does not decide which elements are dropped
        for await leaf in stream { sum += leaf.value }
        await producer.value
    }
    // One stream is not read to its end, and the reader of another is canceled.
    let ended = Counter()
    do {
        let stream = AsyncStream<Leaf> { continuation in
            continuation.onTermination = { _ in ended.add(1) }
            for number in 0..<50 { continuation.yield(Leaf(number)) }
        }
        for await leaf in stream where leaf.value == 10 { break }
    }
    let (endless, source) = AsyncStream.makeStream(of: Leaf.self)
    source.onTermination = { _ in ended.add(1) }
    let reader = Task {
        var count = 0
        for await leaf in endless { count += leaf.isIntact ? 0 : 1 }
        return count
    }
    for number in 0..<20 { source.yield(Leaf(number)) }
    reader.cancel()
    sum += await reader.value
    while ended.value < 2 { await Task.yield() }
    return sum + ended.value
}

func cancellation() async -> Int {
    let cancelled = Counter()
    let tasks = (0..<60).map { number in
        Task {
            let leaf = Leaf(number)
            return await withTaskCancellationHandler {
                while !Task.isCancelled { await Task.yield() }
                return leaf.value
            } onCancel: {
                cancelled.add(leaf.isIntact ? 1 : 0)
            }
        }
    }
    for task in tasks { task.cancel() }
    var sum = 0
    for task in tasks { sum += await task.value }
    let sleeper = Task { try await Task.sleep(for: .seconds(100)) }
    let dropped = Task.detached(priority: .background) { Leaf(5).value }
    sleeper.cancel()
    if case .success = await sleeper.result { require(false, "a cancelled sleep went on") }
    sum += await dropped.value
    for _ in 0..<3 { try? await Task.sleep(for: .milliseconds(1)) }
    return sum + cancelled.value
}

func isolation(_ seed: Int) async -> Int {
    let ends = Counter()
    for round in 0..<60 {
        let closer = Closer(ends)
        await closer.keep(Leaf(round))
        await withTaskGroup { group in
            for number in 0..<3 { group.addTask { await closer.keep(Leaf(number)) } }
        }
    }
    let lane = Lane(), driver = Driver(lane)
    var sum = 0
    for round in 0..<100 { sum &+= await driver.drive(Leaf(round)) }
    sum += await Context.$leaf.withValue(Leaf(seed)) {
        await withTaskGroup(of: Int.self) { group in
            for _ in 0..<10 { group.addTask { Context.$leaf.withValue(Leaf(3)) { Context.leaf.value } + Context.leaf.value } }
            return await group.reduce(0, +)
        }
    }
    for _ in 0..<40 { _ = await Registered() }
    let bridged = await withUnsafeContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(returning: Leaf(9)) }
    }
    while ends.value < 60 + 60 * 3 + 1770 { await Task.yield() }  // isolated deinits end after the last release
    return sum + bridged.value + ends.value
}

func tasks(_ seed: Int) async throws -> String {
    var sum = Checksum()
    sum.add(try await groups(seed))
    sum.add(await streams(seed))
    sum.add(await cancellation())
    sum.add(await isolation(seed))
    return sum.description
}
