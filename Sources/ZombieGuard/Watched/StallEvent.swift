// One time that a thread was busy for too long, and the finding that several of them make.

/// What a thread did at one moment.
package struct StallSample {
    package var stack: [Finding.Frame] = []
    package var call: String?
    package var holder: Finding.ThreadStack?

    package init(call: String?) { self.call = call }
}

/// The last samples of one stall, and when the next is due: twenty times at each look, and then ever more rarely. In milliseconds.
package struct StallSamples {
    package private(set) var kept: [StallSample] = []
    package var next: UInt64
    private var step: UInt64 = 1, taken = 0

    private static let most = 20, longestStep: UInt64 = 200

    package init(next: UInt64 = 0) { self.next = next }

    /// One is taken now; `tick` is the time between two looks.
    package mutating func plan(after now: UInt64, tick: UInt64) {
        taken += 1
        if taken > Self.most { step = min(step * 2, Self.longestStep) }
        next = now + step * tick
    }

    package mutating func add(_ sample: StallSample) {
        kept.append(sample)
        if kept.count > Self.most { kept.removeFirst() }
    }
}

/// What is known already is not looked at for a while: twice as often each time.
package struct StallRest {
    private var left: UInt64 = 0, next: UInt64 = 1

    private static let longest: UInt64 = 1024

    package init() {}

    package var isOver: Bool { left == 0 }

    /// One stall was not looked at, if there is a rest.
    package mutating func passes() { if left > 0 { left -= 1 } }

    package mutating func more() {
        left = next
        next = min(next * 2, Self.longest)
    }
}

/// How long a thread was really busy: waiting for a processor, and being stopped, is not being busy. All in milliseconds.
package struct BusyTime {
    /// What does not count.
    package var discount: UInt64 = 0
    /// How long it has run of the time that was counted: from the first look on.
    private var computed: UInt64 = 0, counted: UInt64 = 0
    private var last: ThreadTimes?
    private var lastLook: UInt64

    package init(now: UInt64) { lastLook = now }

    /// `unseen` passed while nobody looked: perhaps no waiting of its own, but all of us stopped.
    package mutating func count(_ times: ThreadTimes, now: UInt64, unseen: UInt64) {
        defer { (last, lastLook) = (times, now) }
        let passed = now &- lastLook
        guard let last else {
            discount += min(passed, unseen)
            return
        }
        let waited = (times.delayed &- last.delayed) / 1_000_000
        let ran = (times.ran &- last.ran) / 1_000_000
        let idle = passed.subtractingClamped(ran + waited)
        let taken = times.isStopped ? passed : min(passed, waited + min(unseen, idle))
        discount += taken
        computed += ran
        counted += passed - taken
    }

    /// Nothing was there to be busy.
    package mutating func leaveOut(until now: UInt64) {
        discount += now.subtractingClamped(lastLook)
        (last, lastLook) = (nil, now)
    }

    /// Whether it had a processor for half of the time; where that is not known, whether it was outside of system calls.
    package func isComputing(in samples: [StallSample]) -> Bool {
        let isInCalls = samples.count { $0.call != nil } * 2 > samples.count
        return counted > 0 ? computed * 2 >= counted : !isInCalls
    }
}

/// One time that a thread was busy for too long.
package struct StallEvent {
    /// The kernel's number of the thread, where it may be now one and now another.
    package var thread: Int32?
    /// Milliseconds: when it was over, and how long it was.
    package var at, busy: UInt64
    package var isComputing: Bool
    package var samples: [StallSample]

    package init(thread: Int32? = nil, at: UInt64, busy: UInt64, isComputing: Bool, samples: [StallSample]) {
        self.thread = thread
        self.at = at
        self.busy = busy
        self.isComputing = isComputing
        self.samples = samples
    }
}

extension Finding {
    /// The finding of these events of one thread; nil where there are none.
    package init?(
        stalls events: [StallEvent], isFreeze: Bool, thread: Thread, processID: Int, program: String?
    ) {
        guard let longest = events.max(by: { $0.busy < $1.busy }) else { return nil }
        var counts: [(stack: [Frame], count: Int)] = []
        for sample in events.flatMap(\.samples) where !sample.stack.isEmpty {
            if let place = counts.firstIndex(where: { $0.stack == sample.stack }) {
                counts[place].count += 1
            } else {
                counts.append((sample.stack, 1))
            }
        }
        counts.sort { $0.count > $1.count }
        let held = longest.samples.last { $0.holder != nil }
        let shown = held?.stack ?? counts.first?.stack ?? []
        let inCalls = longest.samples.filter { $0.call != nil }
        let call = inCalls.last { $0.stack == shown }?.call ?? inCalls.last?.call
        self.init(
            kind: .stall, thread: thread, stacks: Stacks(access: shown),
            processID: processID, program: program, time: Timestamp.now.description)
        stall = Stall(
            durationMs: Int(longest.busy), occurrences: events.count,
            samples: events.reduce(0) { $0 + $1.samples.count }, isFreeze: isFreeze,
            isComputing: longest.isComputing,
            call: longest.isComputing ? nil : call, holder: held?.holder,
            sampled: counts.map { .init(count: $0.count, stack: $0.stack) })
    }
}
