// Retain cycles through tasks, streams, actors, Dispatch and Foundation. "// case:" is the only registration of a case:
// see cycles.swift.

import Dispatch
import Foundation
import Glibc

// Tasks and Dispatch blocks run on other threads. Such a thread releases its task or block a moment later.
func settle() { usleep(30_000) }

// Threads of the pool cache the memory of their last jobs, which still refers to the task. New jobs overwrite it.
func useUpJobs() {
    let done = DispatchSemaphore(value: 0)
    for _ in 0..<8 {
        Task {
            for _ in 0..<64 { Task { done.signal() } }
            done.signal()
        }
    }
    for _ in 0..<8 * 65 { done.wait() }
    settle()
}

final class Listener: @unchecked Sendable {
    var task: Task<Void, Never>?
    var feed: AsyncStream<Int>.Continuation?
    var sum = 0
    let started = DispatchSemaphore(value: 0)
    func listen(_ isFixed: Bool) {
        let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
        feed = continuation
        if isFixed {
            task = Task { [weak self, started] in
                started.signal()
                for await number in stream { self?.sum += number }
            }
        } else {
            task = Task {
                started.signal()
                for await number in stream { self.sum += number }
            }
        }
        started.wait()
    }
    deinit { feed?.finish() }
}
// case: Listener.task → Task → | Listener.feed →
func streamInTask(_ isFixed: Bool) {
    Listener().listen(isFixed)
    settle()
    useUpJobs()
}

final class Waiter: @unchecked Sendable {
    var continuation: CheckedContinuation<Void, Never>?
    var woken = 0
    let started = DispatchSemaphore(value: 0)
    func wait() async {
        await withCheckedContinuation {
            continuation = $0
            started.signal()
        }
        woken += 1
    }
}
// case: Waiter.continuation → | Task →
func continuation(_ isFixed: Bool) {
    let waiter = Waiter()
    Task { await waiter.wait() }
    waiter.started.wait()
    settle()
    if isFixed {
        waiter.continuation?.resume()
        waiter.continuation = nil
    }
    settle()
    useUpJobs()
}

actor Downloader {
    var handlers: [() -> Void] = []
    var count = 0
    nonisolated func start(_ isFixed: Bool, _ done: DispatchSemaphore) {
        Task {
            await self.add(isFixed)
            done.signal()
        }
    }
    func add(_ isFixed: Bool) {
        if isFixed { handlers.append { [weak self] in _ = self } } else { handlers.append { _ = self.count } }
    }
}
// case: Downloader.handlers → element of [() -> ()] → closure #2 in Downloader.add → Downloader
func closureInActor(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    Downloader().start(isFixed, done)
    done.wait()
    settle()
    useUpJobs()
}

actor Poller {
    var task: Task<Void, Never>?
    nonisolated let started = DispatchSemaphore(value: 0)
    var polls = 0
    func start(_ isFixed: Bool) {
        task = Task {
            started.signal()
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(1000))
                polls += 1
            }
        }
        if isFixed { task?.cancel() }
    }
}
// The timer keeps the task that waits for it, so that nothing is lost.
// case: -
func taskThatSleeps(_ isFixed: Bool) {
    let poller = Poller()
    Task { await poller.start(isFixed) }
    poller.started.wait()
    settle()
}

final class Work: @unchecked Sendable {
    var item: DispatchWorkItem?
    var done = 0
    func prepare(_ isFixed: Bool) {
        if isFixed {
            item = DispatchWorkItem { [weak self] in self?.done += 1 }
        } else {
            item = DispatchWorkItem { self.done += 1 }
        }
    }
}
// case: Work.item →
func workItem(_ isFixed: Bool) { Work().prepare(isFixed) }

final class Ticker: @unchecked Sendable {
    let timer = DispatchSource.makeTimerSource()
    var ticks = 0
    func start(_ isFixed: Bool) {
        if isFixed {
            timer.setEventHandler { [weak self] in self?.ticks += 1 }
        } else {
            timer.setEventHandler { self.ticks += 1 }
        }
        timer.schedule(deadline: .now() + 1000)
        // A source that was never resumed must not be freed.
        if isFixed { timer.resume() }
    }
    deinit { timer.cancel() }
}
// case: Ticker.timer →
func dispatchTimer(_ isFixed: Bool) {
    Ticker().start(isFixed)
    settle()
}

final class Alarm: @unchecked Sendable {
    var timer: Timer?
    var rings = 0
    func set(_ isFixed: Bool) {
        if isFixed {
            timer = Timer(timeInterval: 1000, repeats: true) { [weak self] _ in self?.rings += 1 }
        } else {
            timer = Timer(timeInterval: 1000, repeats: true) { _ in self.rings += 1 }
        }
    }
}
// Foundation's timer holds itself until it is invalidated.
// case: Alarm.timer → Timer
func foundationTimer(_ isFixed: Bool) {
    let alarm = Alarm()
    alarm.set(isFixed)
    if isFixed { alarm.timer?.invalidate() }
}
// Foundation itself leaks a timer that was never scheduled or was invalidated, but nothing else.
// case: -
func unscheduledTimer(_ isFixed: Bool) { Alarm().set(true) }
// An invalidated timer is lost, together with the objects that its closure has captured.
// case: - leak
func invalidatedTimer(_ isFixed: Bool) {
    let alarm = Alarm()
    alarm.set(isFixed)
    alarm.timer?.invalidate()
    alarm.timer = nil
}
// A scheduled timer is kept by the run loop, so that nothing is lost.
// case: -
func scheduledTimer(_ isFixed: Bool) {
    let alarm = Alarm()
    alarm.set(isFixed)
    RunLoop.current.add(alarm.timer!, forMode: .default)
}

final class Observer: @unchecked Sendable {
    let center = NotificationCenter()
    var token: (any NSObjectProtocol)?
    var seen = 0
    func observe(_ isFixed: Bool) {
        let name = Notification.Name("changed")
        if isFixed {
            token = center.addObserver(forName: name, object: nil, queue: nil) { [weak self] _ in self?.seen += 1 }
        } else {
            token = center.addObserver(forName: name, object: nil, queue: nil) { _ in self.seen += 1 }
        }
    }
}
// case: Observer.center → | Observer.token →
func notification(_ isFixed: Bool) { Observer().observe(isFixed) }
// The default center is a global, so that nothing is lost.
// case: -
func defaultCenter(_ isFixed: Bool) {
    let seen = Observer()
    _ = NotificationCenter.default.addObserver(forName: .init("x"), object: nil, queue: nil) { _ in seen.seen += 1 }
}

final class Import: @unchecked Sendable {
    var operation: BlockOperation?
    var rows = 0
    func prepare(_ isFixed: Bool) {
        if isFixed {
            operation = BlockOperation { [weak self] in self?.rows += 1 }
        } else {
            operation = BlockOperation { self.rows += 1 }
        }
    }
}
// case: Import.operation →
func blockOperation(_ isFixed: Bool) { Import().prepare(isFixed) }

final class Bag { let objects = NSMutableArray() }
// case: Bag.objects → NSMutableArray
func mutableArray(_ isFixed: Bool) {
    let bag = Bag()
    bag.objects.add("a string")
    bag.objects.add(isFixed ? Bag() : bag)
}
final class Cache { let store = NSCache<NSString, Cache>() }
// case: Cache.store →
func cache(_ isFixed: Bool) {
    let cache = Cache()
    cache.store.setObject(isFixed ? Cache() : cache, forKey: "key")
}

final class Runs: @unchecked Sendable {
    var thread: Thread?
    var runs = 0
    func prepare(_ isFixed: Bool) {
        if isFixed { thread = Thread { [weak self] in self?.runs += 1 } } else { thread = Thread { self.runs += 1 } }
    }
}
// case: Runs.thread → Thread
func threadBlock(_ isFixed: Bool) { Runs().prepare(isFixed) }

final class Progressing: @unchecked Sendable {
    let progress = Progress(totalUnitCount: 3)
    var cancelled = 0
    func watch(_ isFixed: Bool) {
        if isFixed {
            progress.cancellationHandler = { [weak self] in self?.cancelled += 1 }
        } else {
            progress.cancellationHandler = { self.cancelled += 1 }
        }
    }
}
// case: Progressing.progress → Progress
func progress(_ isFixed: Bool) { Progressing().watch(isFixed) }

final class Finder: @unchecked Sendable {
    let queue = DispatchQueue(label: "finder")
    var found: (@Sendable (String) -> Void)?
    var names: [String] = []
    func find(_ isFixed: Bool) {
        found = { name in self.queue.async { self.names.append(name) } }
        found?("a name that is longer than a small string")
        queue.sync {}
        if isFixed { found = nil }
    }
}
// case: Finder.found → closure #1 in Finder.find → Finder
func queueAndClosure(_ isFixed: Bool) {
    Finder().find(isFixed)
    settle()
}

nonisolated(unsafe) let cases: [(name: String, run: (Bool) -> Void)] = [
    ("streamInTask", streamInTask), ("continuation", continuation), ("closureInActor", closureInActor),
    ("taskThatSleeps", taskThatSleeps), ("workItem", workItem), ("dispatchTimer", dispatchTimer),
    ("foundationTimer", foundationTimer), ("unscheduledTimer", unscheduledTimer),
    ("invalidatedTimer", invalidatedTimer), ("scheduledTimer", scheduledTimer), ("notification", notification),
    ("defaultCenter", defaultCenter), ("blockOperation", blockOperation), ("mutableArray", mutableArray),
    ("cache", cache), ("threadBlock", threadBlock), ("progress", progress), ("queueAndClosure", queueAndClosure),
]
