// The pairs of allocation stack and free stack of a build, and in how many runs each was watched.

import CZombie

/// Pairs that were seen and watched over several runs. Stacks are identified by modules and offsets, so runs of the
/// same build add up, also those of other machines.
public struct PairCoverage: Sendable {
    /// A module of a stack.
    package struct Module: Hashable, Sendable {
        package var path: String
        package var buildID: String?
    }

    /// A call: module, as an index of ``PairCoverage/modules``, and offset of the call in the module.
    package struct Frame: Hashable, Sendable {
        package var module: Int
        package var offset: UInt64
    }

    /// Both stacks, by their identities (stacks/identity.h).
    package struct Pair: Hashable, Sendable {
        package var alloc: UInt64
        package var free: UInt64
    }

    /// Numbers of runs in which a pair was seen, and was watched.
    package struct Count: Hashable, Sendable {
        package var seen = 0
        package var watched = 0
    }

    /// The state after a run.
    public struct Run: Hashable, Sendable {
        /// Pairs that were seen in this run or an earlier one.
        public var pairs: Int
        /// Pairs that were watched in this run or an earlier one.
        public var watched: Int
    }

    /// All runs, the oldest first.
    public internal(set) var runs: [Run] = []
    package private(set) var modules: [Module] = []
    /// Frames of each stack, innermost first; nil for a frame in no module.
    package private(set) var stacks: [UInt64: [Frame?]] = [:]
    package private(set) var pairs: [Pair: Count] = [:]
    private var moduleIndices: [Module: Int] = [:]

    /// Creates a value without runs.
    public init() {}

    /// Number of pairs seen.
    public var seenCount: Int { pairs.count }
    /// Number of pairs watched in at least one run.
    public var watchedCount: Int { pairs.values.count { $0.watched > 0 } }

    /// How many more pairs ten further runs are expected to watch; nil after fewer than two runs.
    ///
    /// The numbers of pairs that each run newly watched are continued as a geometric series, with the quotient of the
    /// last two numbers. The result is at most the number of pairs that no run has watched.
    public var expectedInTenRuns: Int? {
        guard runs.count >= 2 else { return nil }
        let before = runs.count > 2 ? runs[runs.count - 3].watched : 0
        let last = Double(max(0, runs[runs.count - 1].watched - runs[runs.count - 2].watched))
        let previous = Double(max(1, runs[runs.count - 2].watched - before))
        let quotient = min(0.95, last / previous)
        let sum = (1...10).reduce(0.0) { sum, _ in (sum + last) * quotient }
        return min(Int(sum.rounded()), seenCount - watchedCount)
    }

    // MARK: - adding

    package mutating func index(of module: Module) -> Int {
        if let known = moduleIndices[module] { return known }
        modules.append(module)
        moduleIndices[module] = modules.count - 1
        return modules.count - 1
    }

    package mutating func add(stack identity: UInt64, _ frames: [Frame?]) { stacks[identity] = frames }

    package mutating func add(_ pair: Pair, _ count: Count) {
        pairs[pair, default: Count()].seen += count.seen
        pairs[pair, default: Count()].watched += count.watched
    }

    /// Adds the logs of one run. A pair counts once, even if several processes logged it.
    package mutating func add(run logs: PairCoverage) {
        addStacks(of: logs)
        for (pair, count) in logs.pairs { add(pair, Count(seen: 1, watched: min(count.watched, 1))) }
        runs.append(Run(pairs: seenCount, watched: watchedCount))
    }

    /// Adds the runs of another machine, as if they came after this machine's runs.
    ///
    /// - Parameter other: the pairs of the other machine's runs.
    public mutating func add(_ other: PairCoverage) {
        addStacks(of: other)
        for (pair, count) in other.pairs { add(pair, count) }
        let last = runs.last ?? Run(pairs: 0, watched: 0)
        runs += other.runs.map { Run(pairs: max($0.pairs, last.pairs), watched: max($0.watched, last.watched)) }
        if !runs.isEmpty { runs[runs.count - 1] = Run(pairs: seenCount, watched: watchedCount) }
    }

    private mutating func addStacks(of other: PairCoverage) {
        let indices = other.modules.map { index(of: $0) }
        for (identity, frames) in other.stacks where stacks[identity] == nil {
            stacks[identity] = frames.map { $0.map { Frame(module: indices[$0.module], offset: $0.offset) } }
        }
    }
}
