// Samples the heap statistics of a running program, for reports that plot them over time.

import ZombieGuard

/// Samples the statistics of a guarded process. The number of samples is bounded, and they are spread over the whole
/// run.
struct TimelineRecorder {
    private(set) var samples: [TimelineSample] = []
    private let processID: Int
    private var process: GuardedProcess?
    /// One of `stride` calls of `look` takes a sample.
    private var stride = 1
    private var calls = 0

    private static let mostSamples = 600

    init(processID: Int) { self.processID = processID }

    /// Takes a sample if one is due and the process has a readable statistics page, that is, has started and not ended.
    mutating func look() {
        calls += 1
        guard calls % stride == 0 else { return }
        if process == nil { process = try? GuardedProcess(processID: processID) }
        guard let statistics = try? process?.statistics() else { return }
        samples.append(TimelineSample(statistics))
        if samples.count < Self.mostSamples { return }
        // Drop every other sample, and sample half as often from now on.
        samples = samples.enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
        stride *= 2
    }
}
