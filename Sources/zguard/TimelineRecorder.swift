// The heap of a running program over time, for reports that draw it.

import ZombieGuard

/// Looks at a guarded process now and then. Keeps a bounded number of looks, spread over the whole run.
struct TimelineRecorder {
    private(set) var samples: [TimelineSample] = []
    private let processID: Int
    private var process: GuardedProcess?
    /// Every so many calls of `look` is one look.
    private var stride = 1
    private var calls = 0

    private static let mostSamples = 600

    init(processID: Int) { self.processID = processID }

    /// Takes a sample, if it is time for one and the process can be looked at: it may not have begun, or be gone.
    mutating func look() {
        calls += 1
        guard calls % stride == 0 else { return }
        if process == nil { process = try? GuardedProcess(processID: processID) }
        guard let statistics = try? process?.statistics() else { return }
        samples.append(TimelineSample(statistics))
        if samples.count < Self.mostSamples { return }
        // Half as many, from now on half as often.
        samples = samples.enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
        stride *= 2
    }
}
