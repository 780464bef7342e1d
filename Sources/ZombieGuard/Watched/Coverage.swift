// What was watched: how many blocks and allocation stacks had pages of their own, and why not more.

import CZombie

/// The share of blocks and of allocation stacks that was watched, in one process or in all processes of a run.
///
/// A block is watched where it has pages of its own, or a memory tag: then every access beyond its end, and every later one once it is freed, is
/// found at the instruction. A stack is watched where one of its blocks was. Without them bugs are found in freed blocks only, as
/// long as these are held: a run that watched little and found nothing says little.
public struct Coverage: Hashable, Sendable {
    /// Why blocks got no pages of their own.
    public struct Shortfall: Hashable, Sendable {
        /// How reasons compare: one is told.
        enum Kind: UInt32, Sendable { case cause, event, design }

        /// An option's name, mostly: `fence_bytes`, `fence_overhead`, `mappings`, `pressure`, …
        public var name: String
        /// What it says of a run, such as "fence_bytes was used up".
        public var text: String
        /// When it was so for the first time, in seconds since the start; nil where it was so from the start.
        public var seconds: Double?

        let kind: Kind

        /// "fence_bytes was used up at 0.8 s".
        public var sentence: String { text + (seconds.map { " at \(ProgramEnd.timeText($0))" } ?? "") }
    }

    /// Blocks that the program got, those included that its own allocator served.
    public var blocks: UInt64 = 0
    /// Blocks that had pages of their own, or memory tags.
    public var watchedBlocks: UInt64 = 0
    /// Blocks that had memory tags (profile `mte`): every access to them is checked without pages of their own.
    public var taggedBlocks: UInt64 = 0
    /// Allocation stacks seen.
    public var stacks: UInt64 = 0
    /// Allocation stacks of which a block was watched.
    public var watchedStacks: UInt64 = 0
    /// Programs that were executed without the runtime, which they cannot take; of a run, statically linked ones as well.
    public var unguardedPrograms: UInt64 = 0
    /// Programs of a run that stood under a filter of system calls (seccomp) from before their start, which nobody could try for them: they make
    /// only the calls that any start makes, and faults are not seen there.
    public var filteredPrograms: UInt64 = 0
    /// Processes of a run of which nothing of this is known.
    public var untoldProcesses = 0
    /// Why it was not more; nil where every block was watched.
    public var shortfall: Shortfall?

    /// Thousandths of the blocks that were watched, rounded down; 1 at least where one was.
    public var blocksPermille: Int { Self.permille(watchedBlocks, of: blocks, isOff: hasNone) }

    /// Thousandths of the stacks that were watched, rounded down; 1 at least where one was. Where blocks were chosen by
    /// `sample_rate`, nothing is known of the stacks of others: as many are taken to be unseen as blocks are.
    public var stacksPermille: Int {
        let seen = Self.permille(watchedStacks, of: stacks, isOff: hasNone || blocks > 0)
        return shortfall?.name == "sample_rate" ? min(seen, blocksPermille) : seen
    }

    // Nothing was allocated, as far as we know, but it was not for us to know it.
    private var hasNone: Bool { blocks == 0 && shortfall?.name == "other_allocator" }

    private static func permille(_ part: UInt64, of whole: UInt64, isOff: Bool) -> Int {
        if whole == 0 { return isOff ? 0 : 1000 }
        // Threads and processes are counted in batches.
        let share = Int(UInt128(min(part, whole)) * 1000 / UInt128(whole))
        return part > 0 ? max(1, share) : 0
    }

    /// Whether so many per cent of the stacks were watched. Not where nothing is known of some processes; programs that cannot take
    /// the runtime are left out.
    ///
    /// - Parameter percent: from 0 to 100.
    /// - Returns: false also where nothing is known of some processes.
    public func reaches(percent: Double) -> Bool {
        (untoldProcesses == 0 || percent == 0) && Double(stacksPermille) >= (percent * 10).rounded()
    }

    /// "14 % of the blocks of 61 % of the allocation stacks had pages of their own (fence_bytes was used up at 0.8 s)".
    public var text: String {
        var text = "no block was allocated"
        if blocks > 0 {
            text = "\(Self.percentText(blocksPermille)) of the blocks of \(stacksText) had \(how)"
        } else if hasNone {
            text = "no block was watched"
        }
        if let shortfall { text += " (\(shortfall.sentence))" }
        if unguardedPrograms > 0 {
            text += ", \(unguardedPrograms) program\(unguardedPrograms == 1 ? "" : "s") ran unguarded"
        }
        if filteredPrograms > 0 {
            text +=
                ", \(filteredPrograms) program\(filteredPrograms == 1 ? "" : "s") ran under a filter of system calls (seccomp) from before the start and had no faults looked at: run zguard under the filter"
        }
        if untoldProcesses > 0 {
            text += ", of \(untoldProcesses) more process\(untoldProcesses == 1 ? "" : "es") nothing is known"
        }
        return text
    }

    private var how: String { taggedBlocks > 0 ? "memory tags or pages of their own" : "pages of their own" }

    /// "61 % of the allocation stacks".
    public var stacksText: String { "\(Self.percentText(stacksPermille)) of the allocation stacks" }

    /// Of a run that nothing is known of.
    public static let unknownText = "what was watched is not known"

    // Below ten with a tenth: "0.4 %".
    static func percentText(_ permille: Int) -> String {
        permille < 100 && permille % 10 != 0 ? "\(permille / 10).\(permille % 10) %" : "\(permille / 10) %"
    }

    /// As it stands in `zguard stats --json` and in SARIF. `reason` and what belongs to it are null where there is none.
    public var json: JSONText {
        .object([
            ("stacks_percent", .permille(stacksPermille)), ("blocks_percent", .permille(blocksPermille)),
            ("stacks", .natural(stacks)), ("stacks_watched", .natural(watchedStacks)),
            ("blocks", .natural(blocks)), ("blocks_watched", .natural(watchedBlocks)),
            ("reason", shortfall.map { .string($0.name) } ?? .null),
            ("reason_text", shortfall.map { .string($0.text) } ?? .null),
            ("reason_ms", (shortfall?.seconds).map { .natural(UInt64($0 * 1000)) } ?? .null),
            ("unguarded_programs", .natural(unguardedPrograms)),
            ("filtered_programs", .natural(filteredPrograms)), ("unknown_processes", .integer(Int64(untoldProcesses))),
        ])
    }
}

extension Coverage.Shortfall {
    /// Every reason there is, without its time, in the order of the statistics page.
    static let table: [Coverage.Shortfall] = withUnsafeBytes(of: zg_coverage_reason_table) { bytes in
        bytes.bindMemory(to: zg_coverage_reason_info.self).map { info in
            Coverage.Shortfall(
                name: withUnsafeBytes(of: info.name) { fieldText($0) },
                text: withUnsafeBytes(of: info.text) { fieldText($0) }, kind: Kind(rawValue: info.kind) ?? .design)
        }
    }

    /// The one that is told, of those that have a time (nanoseconds since 1970, 0 for none), in the order of the table.
    static func told(_ firstTimes: [UInt64], start: UInt64) -> Coverage.Shortfall? {
        let noted = zip(table, firstTimes).filter { $0.1 > 0 }
        if let cause = noted.first(where: { $0.0.kind == .cause }) { return cause.0 }
        if let (event, time) = noted.filter({ $0.0.kind == .event }).min(by: { $0.1 < $1.1 }) {
            var told = event
            told.seconds = Double(time - min(time, start)) / 1e9
            return told
        }
        return noted.first?.0
    }
}

extension Coverage {
    /// Of sums over the counters of these names, and the times at which each reason was there first.
    package init(counter: (String) -> UInt64, firstTimes: [UInt64], start: UInt64) {
        blocks = counter("allocations") &+ counter("unguarded_allocations") &+ counter("passed_blocks")
        // The processes go on while their counters are read.
        taggedBlocks = counter("tagged_blocks")
        watchedBlocks = min(counter("fenced_blocks") &+ taggedBlocks, blocks)
        stacks = counter("contexts")
        watchedStacks = min(counter("contexts_fenced"), stacks)
        unguardedPrograms = counter("children_unguarded")
        // Another allocator in front may turn out to hand everything on to ours.
        let other = Shortfall.table.firstIndex { $0.name == "other_allocator" }
        let times = firstTimes.enumerated().map { blocks > 0 && $0.offset == other ? 0 : $0.element }
        if watchedBlocks < blocks || blocks == 0 { shortfall = .told(times, start: start) }
        if blocks == 0, shortfall?.name != "other_allocator" { shortfall = nil }
    }
}
