// Swift programs that stall their event loops, and some that do not. The comments have the format of ways.c.
import Dispatch
import Foundation

// Processor time of the thread: on a busy machine wall time includes time in which the thread does not run.
func processorSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

@inline(never) func compute(_ seconds: Double) {
    var sum = 0
    let end = processorSeconds() + seconds
    while processorSeconds() < end { for number in 0..<10_000 { sum &+= number } }
    if sum == 42 { print(sum) }
}

func run(for seconds: Double) { RunLoop.main.run(until: Date().addingTimeInterval(seconds)) }

// stalls: compute, computing
func timer() {
    var fired = 0
    Timer.scheduledTimer(withTimeInterval: 0.05, repeats: true) { _ in
        fired += 1
        if fired == 3 { compute(0.8) }
    }
    run(for: 1.5)
}

// stalls: compute, computing
func mainQueue() {
    for number in 1...5 {
        DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(50 * number)) { compute(number == 3 ? 0.8 : 0.001) }
    }
    run(for: 1.5)
}

// stalls: waitForQueue, call=futex
func queue() {
    let queue = DispatchQueue(label: "slow")
    @inline(never) func waitForQueue() {
        queue.async { usleep(800_000) }
        usleep(10_000)
        queue.sync {}
    }
    for number in 1...5 {
        DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(50 * number)) { if number == 3 { waitForQueue() } }
    }
    run(for: 1.5)
}

// nothing
func idle() {
    for number in 1...5 {
        DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(200 * number)) { compute(0.01) }
    }
    run(for: 1.5)
}

@inline(never) func blockTheThread() { usleep(800_000) }

// stalls: pool, call=clock_nanosleep, thread=*, options=stall_threads=pool
func pool() {
    Task.detached { blockTheThread() }
    run(for: 1.5)
}

@inline(never) func waitForTheOther(_ semaphore: DispatchSemaphore) { semaphore.wait() }

// stalls: waitForTheOther, call=futex, thread=*, options=stall_threads=pool
func poolSemaphore() {
    let semaphore = DispatchSemaphore(value: 0)
    Task.detached { waitForTheOther(semaphore) }
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(800)) { semaphore.signal() }
    run(for: 1.5)
}

// nothing, options=stall_threads=pool
func poolIsFree() {
    DispatchQueue(label: "serial").async { usleep(800_000) }
    DispatchQueue.global().async { usleep(800_000) }
    for _ in 0..<20 { Task.detached { try? await Task.sleep(for: .milliseconds(700)) } }
    Task.detached { compute(0.4) }
    Thread.detachNewThread { usleep(800_000) }
    run(for: 1.5)
}

/// dispatchMain() ends the main thread, and worker threads serve the main queue.
func serveMainQueue() -> Never {
    // Wait once more: on a busy machine a stall may last until the time at which the program is to end.
    DispatchQueue.main.asyncAfter(deadline: .now() + 1.5) {
        DispatchQueue.main.asyncAfter(deadline: .now() + 0.2) { exit(0) }
    }
    dispatchMain()
}

// stalls: compute, computing, thread=*
func dispatchMainComputes() {
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(100)) { compute(0.8) }
    serveMainQueue()
}

// stalls: sleepInItem, call=clock_nanosleep, thread=*
func dispatchMainSleeps() {
    @inline(never) func sleepInItem() -> Int { Int(usleep(800_000)) + 1 }
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(100)) { if sleepInItem() == 42 { print(42) } }
    serveMainQueue()
}

let mutex = NSLock()

@inline(never) func holdLock() { mutex.withLock { _ = usleep(1_000_000) } }

@inline(never) func takeLock() {
    mutex.lock()
    mutex.unlock()
}

// Main actor task that does one thing after another, like an async main: not an event loop.
// nothing, profile
func mainTask() {
    Task { @MainActor in
        for _ in 0..<3 {
            compute(0.8)
            try? await Task.sleep(nanoseconds: 10_000_000)
        }
        exit(0)
    }
    dispatchMain()
}

// stalls: compute, computing, thread=*, profile
func mainActorIsAwaited() {
    Task { @MainActor in
        try? await Task.sleep(nanoseconds: 100_000_000)
        compute(0.8)
    }
    Task.detached {
        try? await Task.sleep(nanoseconds: 200_000_000)
        await MainActor.run {}
    }
    serveMainQueue()
}

// stalls: takeLock, call=futex, thread=*, held=holdLock()
func dispatchMainWaitsForLock() {
    Thread.detachNewThread { holdLock() }
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(100)) { takeLock() }
    serveMainQueue()
}

// stalls: compute, computing, freeze, thread=*
func dispatchMainEnds() {
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(100)) {
        compute(0.8)
        exit(0)
    }
    serveMainQueue()
}

// nothing
func dispatchMainIdle() {
    for number in 1...5 {
        DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(200 * number)) { compute(0.01) }
    }
    DispatchQueue.global().async { compute(0.8) }
    DispatchQueue(label: "serial").async { usleep(800_000) }
    serveMainQueue()
}

// The main queue is busy almost all the time, but no item waits for long.
// nothing
func dispatchMainIsServed() {
    @Sendable func again() {
        compute(0.005)
        DispatchQueue.global().async {
            usleep(1000)
            DispatchQueue.main.async { again() }
        }
    }
    for _ in 0..<2 { DispatchQueue.main.async { again() } }
    serveMainQueue()
}

// Swift's Glibc module lacks epoll. The event is an array of UInt32: the event mask, then the user data.
@_silgen_name("epoll_create1") func epoll_create1(_: Int32) -> Int32
@_silgen_name("epoll_ctl") func epoll_ctl(_: Int32, _: Int32, _: Int32, _: UnsafeMutableRawPointer) -> Int32
@_silgen_name("epoll_wait") func epoll_wait(_: Int32, _: UnsafeMutableRawPointer, _: Int32, _: Int32) -> Int32

/// Event loop that reads a pipe by epoll, without RunLoop or Dispatch.
func serve(_ handle: (Int) -> Void) {
    let queue = epoll_create1(0)
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    var event: [UInt32] = [1, 0, 0, 0] // EPOLLIN
    _ = epoll_ctl(queue, 1, ends[0], &event) // EPOLL_CTL_ADD
    let writer = ends[1]
    Thread.detachNewThread {
        for _ in 0..<10 {
            usleep(50_000)
            _ = write(writer, "x", 1)
        }
    }
    for number in 1...10 {
        var byte: UInt8 = 0
        _ = epoll_wait(queue, &event, 1, -1)
        _ = read(ends[0], &byte, 1)
        handle(number)
    }
    _ = epoll_wait(queue, &event, 1, 50)
}

// stalls: compute, computing
func epollServer() {
    serve { number in compute(number == 4 ? 0.8 : 0.001) }
}

// nothing
func epollServerIdle() {
    serve { _ in compute(0.001) }
}

// --- queues that wait for each other --------------------------------------------------------------------------------

let stock = DispatchQueue(label: "com.shop.stock"), orders = DispatchQueue(label: "com.shop.orders")
let isThere = DispatchSemaphore(value: 0)

@inline(never) func waitFor(_ queue: DispatchQueue) { queue.sync { print("served") } }

/// Waits for events, as an event loop does, in the main thread. SIGALRM ends the process after two seconds.
func begin() {
    for _ in 0..<3 { poll(nil, 0, 20) }
    alarm(2)
}

// stalls: waitFor, call=futex, held=waitFor(_:), freeze, deadlock
func queuesWaitForEachOther() {
    begin()
    stock.async {
        isThere.signal()
        usleep(50_000)
        waitFor(orders)
    }
    isThere.wait()
    orders.sync { waitFor(stock) }
}

// stalls: waitFor, call=futex, held=waitFor(_:), freeze, deadlock
func mainQueueIsAwaited() {
    begin()
    stock.async {
        isThere.signal()
        waitFor(.main)
    }
    isThere.wait()
    usleep(50_000)
    waitFor(stock)
}

// The main thread waits for a queue whose target queue waits for another queue, which the main thread occupies.
// stalls: waitFor, call=futex, held=waitFor(_:), freeze, deadlock
func targetIsAwaited() {
    let part = DispatchQueue(label: "com.shop.stock.part", target: stock)
    begin()
    stock.async {
        isThere.signal()
        usleep(50_000)
        waitFor(orders)
    }
    isThere.wait()
    orders.sync { waitFor(part) }
}

let shop = NSLock()
@inline(never) func enterShop() { shop.lock() }

// stalls: waitFor, call=futex, held=enterShop(), freeze, deadlock
func queueWaitsForLock() {
    begin()
    shop.lock()
    stock.async {
        isThere.signal()
        enterShop()
    }
    isThere.wait()
    usleep(50_000)
    waitFor(stock)
}

// A semaphore has no owner, so no holder is reported.
// stalls: waitFor, call=futex
func queueWaitsForSemaphore() {
    begin()
    alarm(0)
    stock.async {
        isThere.signal()
        let other = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            usleep(800_000)
            other.signal()
        }
        other.wait()
    }
    isThere.wait()
    usleep(50_000)
    waitFor(stock)
}

// stalls: waitFor, call=futex
func queueWaitsInTime() {
    begin()
    alarm(0)
    shop.lock()
    stock.async {
        isThere.signal()
        _ = shop.lock(before: Date().addingTimeInterval(0.8))
    }
    isThere.wait()
    usleep(50_000)
    waitFor(stock)
    shop.unlock()
}

switch CommandLine.arguments.dropFirst().first {
case "timer": timer()
case "mainQueue": mainQueue()
case "queue": queue()
case "idle": idle()
case "pool": pool()
case "poolSemaphore": poolSemaphore()
case "poolIsFree": poolIsFree()
case "dispatchMainComputes": dispatchMainComputes()
case "dispatchMainSleeps": dispatchMainSleeps()
case "dispatchMainWaitsForLock": dispatchMainWaitsForLock()
case "dispatchMainEnds": dispatchMainEnds()
case "mainTask": mainTask()
case "mainActorIsAwaited": mainActorIsAwaited()
case "dispatchMainIdle": dispatchMainIdle()
case "dispatchMainIsServed": dispatchMainIsServed()
case "epollServer": epollServer()
case "epollServerIdle": epollServerIdle()
case "queuesWaitForEachOther": queuesWaitForEachOther()
case "mainQueueIsAwaited": mainQueueIsAwaited()
case "targetIsAwaited": targetIsAwaited()
case "queueWaitsForLock": queueWaitsForLock()
case "queueWaitsForSemaphore": queueWaitsForSemaphore()
case "queueWaitsInTime": queueWaitsInTime()
default: exit(3)
}
// Wait once more: on a busy machine the case may have ended before its loop waited after the stall.
run(for: 0.2)
