// Ways in which Swift programs hold up their loops of events; the lines are those of ways.c.
import Dispatch
import Foundation

// On a busy machine the rest is not the thread's own.
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

switch CommandLine.arguments.dropFirst().first {
case "timer": timer()
case "mainQueue": mainQueue()
case "queue": queue()
case "idle": idle()
case "pool": pool()
case "poolSemaphore": poolSemaphore()
case "poolIsFree": poolIsFree()
default: exit(3)
}
// On a busy machine the time may be over before it has waited once more.
run(for: 0.2)
