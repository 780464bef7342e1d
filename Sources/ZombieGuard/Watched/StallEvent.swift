// The samples of a thread's stall, and the finding that reports one or more stalls.

/// A sample of a thread: its stack, system call, and the holder of the lock that it waits for.
package struct StallSample {
    package var stack: [Finding.Frame] = []
    package var call: String?
    package var holder: Finding.ThreadStack?
    /// The closed chain of waits (deadlock) to which the wait of the thread leads; nil if there is none.
    package var chain: WaitChain?
    /// The threads of ``chain`` after ``holder``.
    package var waits: [Finding.ThreadStack] = []

    package init(call: String?) { self.call = call }
}

/// The last 20 samples of a stall, and the time when the next sample is due, in milliseconds. A sample is taken at each
/// of the first 20 checks of the thread, later samples at intervals that double up to 200 checks.
package struct StallSamples {
    package private(set) var kept: [StallSample] = []
    package var next: UInt64
    private var step: UInt64 = 1, taken = 0

    private static let most = 20, longestStep: UInt64 = 200

    package init(next: UInt64 = 0) { self.next = next }

    /// Counts a sample taken now and schedules the next. `tick` is the time between two checks of the thread.
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

/// Pauses sampling after a repeat of a known finding: for 1, 2, 4, … stalls, at most 1024.
package struct SamplingBackoff {
    private var left: UInt64 = 0, next: UInt64 = 1

    private static let longest: UInt64 = 1024

    package init() {}

    package var isOver: Bool { left == 0 }

    /// Counts a stall that falls into the pause.
    package mutating func passes() { if left > 0 { left -= 1 } }

    package mutating func more() {
        left = next
        next = min(next * 2, Self.longest)
    }
}

/// One stall of a thread.
package struct StallEvent {
    /// Thread ID, for stalls that may occur on different threads.
    package var thread: Int32?
    /// End of the stall, and the time that the thread's events had to wait, in milliseconds.
    package var at, felt: UInt64
    package var isComputing: Bool
    package var samples: [StallSample]
    /// Part of ``felt`` in which the thread waited for a processor, in milliseconds; nil if unknown.
    package var withoutProcessor: UInt64?
    package var delay: BusyTime.Delay?

    fileprivate static let recentMilliseconds: UInt64 = 10_000

    package init(thread: Int32? = nil, at: UInt64, felt: UInt64, isComputing: Bool, samples: [StallSample]) {
        self.thread = thread
        self.at = at
        self.felt = felt
        self.isComputing = isComputing
        self.samples = samples
    }

    /// A stall now, measured by `time`.
    package init(thread: Int32? = nil, felt: UInt64, _ time: BusyTime, samples: [StallSample]) {
        self.init(
            thread: thread, at: MonotonicTime.milliseconds, felt: felt, isComputing: time.isComputing(in: samples),
            samples: samples)
        withoutProcessor = min(time.withoutProcessor, felt)
        delay = time.delay
    }
}

extension [StallEvent] {
    /// Adds a stall, and removes those that ended more than ten seconds before it: a report needs several stalls within
    /// that time.
    package mutating func addRecent(_ event: StallEvent) {
        append(event)
        removeAll { $0.at + StallEvent.recentMilliseconds < event.at }
    }
}

extension [StallSample] {
    /// The last sample, if the sample before it shows the same deadlock. A single sample may show a deadlock that does
    /// not exist, because the threads may run while the sample is taken.
    package var closed: StallSample? {
        let last = suffix(2)
        guard last.count == 2, let chain = last.last?.chain, last.first?.chain == chain else { return nil }
        return last.last
    }
}

extension Finding {
    /// Makes a finding that reports stalls of one thread; nil if `events` is empty.
    package init?(
        stalls events: [StallEvent], isFreeze: Bool, thread: Thread, processID: Int, program: String?
    ) {
        guard let longest = events.max(by: { $0.felt < $1.felt }) else { return nil }
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
        let closed = longest.samples.closed
        let shown = (closed ?? held)?.stack ?? counts.first?.stack ?? []
        let inCalls = longest.samples.filter { $0.call != nil }
        let call = inCalls.last { $0.stack == shown }?.call ?? inCalls.last?.call
        self.init(
            kind: closed == nil ? .stall : .deadlock, thread: thread, stacks: Stacks(access: shown),
            processID: processID, program: program, time: Timestamp.now.description)
        stall = Stall(
            durationMs: Int(clamping: longest.felt), occurrences: events.count,
            samples: events.reduce(0) { $0 + $1.samples.count }, isFreeze: isFreeze,
            isComputing: longest.isComputing,
            call: longest.isComputing ? nil : call, holder: closed == nil ? held?.holder : closed?.holder,
            sampled: counts.map { .init(count: $0.count, stack: $0.stack) })
        stall?.waits = closed?.waits ?? []
        stall?.awaited = (closed?.chain?.awaited ?? []).map {
            .init(kind: $0.kind.rawValue, address: Address($0.address), name: $0.name)
        }
        stall?.withoutProcessorMs = longest.withoutProcessor.map { Int(clamping: $0) }
        stall?.withoutProcessorFor = longest.delay?.cause
        detail["cpu_quota"] = longest.delay?.quota
        // The stalled thread waits for the cycle, but is not part of it: name the thread at which the cycle closes.
        if let closed, let closing = closed.chain?.closing, closing > 0 {
            let others = [closed.holder].compactMap { $0 } + closed.waits
            detail["circle"] = others[closing - 1].label
        }
    }
}
