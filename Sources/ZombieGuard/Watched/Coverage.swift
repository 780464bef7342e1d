// Computes coverage: which pairs of allocation stack and free stack were watched, how soon freed blocks were guarded,
// and why not more was watched.

import CZombie

/// What was watched, in one process or in all processes of a run.
///
/// An isolated or memory-tagged block is watched: every access beyond its end or after its free is detected at the
/// instruction. A use after free depends on how the block is allocated and how it is freed, so the unit is the pair of
/// allocation stack and free stack. A pair is watched if at least one block of the pair was guarded before the program
/// went on. In all other blocks, only bugs in freed blocks are found, and only while the block is in quarantine. So a
/// run that watched little and found nothing proves little.
public struct Coverage: Hashable, Sendable {
    /// Why blocks were not isolated: the coverage reason.
    public struct Reason: Hashable, Sendable {
        /// Category of a reason. If several reasons apply, the category decides which is reported (zg_coverage.h).
        enum Kind: UInt32, Sendable { case cause, event, design }

        /// The name, usually that of an option: `fence_bytes`, `fence_overhead`, `mappings`, `pressure`, …
        public var name: String
        /// Clause for users, such as "isolated_bytes was used up".
        public var text: String
        /// First occurrence, in seconds since the start; nil if the reason applied from the start.
        public var seconds: Double?

        let kind: Kind

        /// "isolated_bytes was used up at 0.8 s".
        public var sentence: String { text + (seconds.map { " at \(ProgramEnd.timeText($0))" } ?? "") }
    }

    /// Blocks allocated, including those that bypassed the runtime.
    public var blocks: UInt64 = 0
    /// Blocks that were isolated or tagged.
    public var watchedBlocks: UInt64 = 0
    /// Blocks with memory tags (profile `mte`), which check every access without a page per block.
    public var taggedBlocks: UInt64 = 0
    /// Distinct allocation stacks.
    public var stacks: UInt64 = 0
    /// Allocation stacks with at least one watched block.
    public var watchedStacks: UInt64 = 0
    /// Frees of blocks that the runtime had made.
    public var frees: UInt64 = 0
    /// Frees after which the block was guarded before the program went on.
    public var freesGuardedAtOnce: UInt64 = 0
    /// Frees after which an isolated block waited for its guard while other blocks were freed.
    public var freesGuardedLater: UInt64 = 0
    /// Maximum number of bytes in freed isolated blocks that waited for their guards at one time, in one process.
    public var waitingBytesMost: UInt64 = 0
    /// Distinct pairs of allocation stack and free stack, of blocks that the runtime made.
    public var pairs: UInt64 = 0
    /// Pairs of which at least one freed block was guarded before the program went on.
    public var watchedPairs: UInt64 = 0
    /// Blocks of focused allocation stacks (`zguard run --focus`).
    public var focusedBlocks: UInt64 = 0
    /// Blocks of focused allocation stacks that were isolated.
    public var focusedIsolated: UInt64 = 0
    /// Programs executed without the runtime because they cannot load it. In a run, this includes statically linked and
    /// privileged programs, and programs whose environment lacks the runtime.
    public var unguardedPrograms: UInt64 = 0
    /// Programs of a run that were left unguarded on purpose: build tools under `swift test`, and programs that
    /// `--only` does not name.
    public var exemptPrograms: UInt64 = 0
    // Whether all programs of the run were exempt.
    package var guardsNoProgram = false
    /// Programs of a run that started under a seccomp filter whose effects zguard did not test. In such a program the
    /// runtime makes only the system calls that every program's start makes, and does not diagnose faults.
    public var filteredPrograms: UInt64 = 0
    /// Processes of a run that reported no coverage.
    public var unknownProcesses = 0
    /// Why coverage is not higher; nil if every block was watched.
    public var reason: Reason?

    /// Share of blocks that were watched, in thousandths, rounded down, but at least 1 if any block was watched.
    public var blocksPermille: Int { Self.permille(watchedBlocks, of: blocks, isOff: hasNone) }

    /// Share of allocation stacks that were watched, in thousandths, rounded down, but at least 1 if any stack was
    /// watched. With `sample_rate`, stacks without a sampled block are unknown, so the result is at most
    /// ``blocksPermille``.
    public var stacksPermille: Int {
        let seen = Self.permille(watchedStacks, of: stacks, isOff: hasNone || blocks > 0)
        return reason?.name == "sample_rate" ? min(seen, blocksPermille) : seen
    }

    /// Share of pairs that were watched, in thousandths, rounded down, but at least 1 if any pair was watched. The
    /// pairs of blocks that bypassed the runtime are unknown: the share is multiplied by the share of blocks that did
    /// not bypass it.
    public var pairsPermille: Int { amongAll(Self.permille(watchedPairs, of: pairs, isOff: hasNone || frees > 0)) }

    /// Share of frees after which the block was guarded before the program went on, in thousandths, rounded down, but
    /// at least 1 if there was any such free. Blocks that bypassed the runtime reduce it as in ``pairsPermille``.
    public var freesAtOncePermille: Int {
        amongAll(Self.permille(freesGuardedAtOnce, of: frees, isOff: hasNone || blocks > 0))
    }

    /// Share of frees after which the block was guarded later, computed like ``freesAtOncePermille``.
    public var freesLaterPermille: Int { amongAll(Self.permille(freesGuardedLater, of: frees, isOff: true)) }

    // Converts a share of the runtime's blocks, pairs or frees to a share of all, including blocks that bypassed the
    // runtime.
    private func amongAll(_ permille: Int) -> Int {
        bypassedBlocks > 0 && permille > 0 ? max(1, permille * guardedPermille / 1000) : permille
    }

    private var guardedPermille: Int { Self.permille(blocks - bypassedBlocks, of: blocks, isOff: true) }

    // Number of blocks that bypassed the runtime because of sample_rate, overhead, or memory pressure.
    var bypassedBlocks: UInt64 = 0

    // Whether the runtime saw no allocation because another allocator served the program.
    private var hasNone: Bool { blocks == 0 && reason?.name == "other_allocator" }

    private static func permille(_ part: UInt64, of whole: UInt64, isOff: Bool) -> Int {
        if whole == 0 { return isOff ? 0 : 1000 }
        // Threads and processes publish their counts in batches, so the watched part may exceed the total.
        let share = Int(UInt128(min(part, whole)) * 1000 / UInt128(whole))
        return part > 0 ? max(1, share) : 0
    }

    /// Whether at least this percentage of the pairs was watched. Programs that cannot load the runtime do not count.
    ///
    /// - Parameter percent: from 0 to 100.
    /// - Returns: false also if processes of the run reported no coverage, or no program was guarded, unless `percent`
    ///   is 0.
    public func reaches(percent: Double) -> Bool {
        ((unknownProcesses == 0 && !guardsNoProgram) || percent == 0)
            && Double(pairsPermille) >= (percent * 10).rounded()
    }

    /// "watched 312 of 4,120 allocation and free pairs, 0.4 % of the frees at once (isolated_bytes was used up at 0.8
    /// s)".
    public var text: String {
        var text = guardsNoProgram ? "no program was guarded" : "no block was allocated"
        if frees > 0 {
            text = "\(pairsText), \(freesText)"
        } else if blocks > 0 {
            // The frees of blocks that bypassed the runtime are unknown: speak of guarded blocks only.
            let guarded = bypassedBlocks > 0 ? "guarded " : ""
            text = "no \(guarded)block was freed; \(Self.percentText(blocksPermille)) of the blocks \(how)"
        } else if hasNone {
            text = "no block was watched"
        }
        if let reason { text += " (\(reason.sentence))" }
        if unguardedPrograms > 0 {
            text += ", \(unguardedPrograms) program\(unguardedPrograms == 1 ? "" : "s") ran unguarded"
        }
        if exemptPrograms > 0 { text += ", \(exemptPrograms) program\(exemptPrograms == 1 ? "" : "s") exempt" }
        if filteredPrograms > 0 {
            text +=
                ", \(filteredPrograms) program\(filteredPrograms == 1 ? "" : "s") started under a seccomp filter, so that faults were not diagnosed: run zguard itself under the filter"
        }
        if unknownProcesses > 0 {
            text += ", \(unknownProcesses) more process\(unknownProcesses == 1 ? "" : "es") reported no coverage"
        }
        return text
    }

    private var how: String { taggedBlocks > 0 ? "were tagged or isolated" : "were isolated" }

    /// "watched 312 of 4,120 allocation and free pairs".
    public var pairsText: String {
        let text =
            "watched \(groupedText(watchedPairs)) of \(groupedText(pairs)) allocation and free pair\(pairs == 1 ? "" : "s")"
        if bypassedBlocks == 0 { return text }
        return text + " of the \(Self.percentText(guardedPermille)) of the blocks that were guarded"
    }

    /// "7.5 % of the allocation and free pairs were watched".
    public var requirementText: String {
        "\(Self.percentText(pairsPermille)) of the allocation and free pairs were watched"
    }

    // "0.4 % of the frees at once, 98 % within 256 KiB of other frees".
    private var freesText: String {
        let text = "\(Self.percentText(freesAtOncePermille)) of the frees at once"
        if freesGuardedLater == 0 { return text }
        return text
            + ", \(Self.percentText(freesLaterPermille)) within \(binarySizeText(max(waitingBytesMost, 1024))) of other frees"
    }

    /// Text for a run without coverage data.
    public static let unknownText = "coverage is unknown"

    // Values below 10 % have one decimal: "0.4 %".
    static func percentText(_ permille: Int) -> String {
        permille < 100 && permille % 10 != 0 ? "\(permille / 10).\(permille % 10) %" : "\(permille / 10) %"
    }

    /// JSON as in `zguard stats --json` and SARIF. `reason` and its details are null if there is no reason.
    public var json: JSONText {
        .object([
            ("pairs", .natural(pairs)), ("pairs_watched", .natural(watchedPairs)),
            ("pairs_percent", .permille(pairsPermille)), ("frees", .natural(frees)),
            ("frees_guarded_at_once_percent", .permille(freesAtOncePermille)),
            ("frees_guarded_later_percent", .permille(freesLaterPermille)),
            ("waiting_bytes_most", .natural(waitingBytesMost)),
            ("stacks_percent", .permille(stacksPermille)), ("blocks_percent", .permille(blocksPermille)),
            ("stacks", .natural(stacks)), ("stacks_watched", .natural(watchedStacks)),
            ("blocks", .natural(blocks)), ("blocks_watched", .natural(watchedBlocks)),
            ("reason", reason.map { .string($0.name) } ?? .null),
            ("reason_text", reason.map { .string($0.text) } ?? .null),
            ("reason_ms", (reason?.seconds).map { .natural(UInt64($0 * 1000)) } ?? .null),
            ("unguarded_programs", .natural(unguardedPrograms)), ("exempt_programs", .natural(exemptPrograms)),
            ("filtered_programs", .natural(filteredPrograms)), ("unknown_processes", .integer(Int64(unknownProcesses))),
        ])
    }
}

extension Coverage.Reason {
    /// All reasons, without times, in the order of the statistics page.
    static let table: [Coverage.Reason] = withUnsafeBytes(of: zg_coverage_reason_table) { bytes in
        bytes.bindMemory(to: zg_coverage_reason_info.self).map { info in
            Coverage.Reason(
                name: withUnsafeBytes(of: info.name) { fieldText($0) },
                text: withUnsafeBytes(of: info.text) { fieldText($0) }, kind: Kind(rawValue: info.kind) ?? .design)
        }
    }

    /// The reason to report. `firstTimes` are in nanoseconds since 1970, 0 if the reason never applied; their order is
    /// that of the table.
    static func told(_ firstTimes: [UInt64], start: UInt64) -> Coverage.Reason? {
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
    /// Computes coverage from counters by name and from the first time of each reason.
    package init(counter: (String) -> UInt64, firstTimes: [UInt64], start: UInt64) {
        blocks = counter("allocations") &+ counter("unguarded_allocations") &+ counter("passed_blocks")
        // Processes run while their counters are read, so sums may be inconsistent: clamp the parts.
        taggedBlocks = counter("tagged_blocks")
        watchedBlocks = min(counter("fenced_blocks") &+ taggedBlocks, blocks)
        stacks = counter("contexts")
        watchedStacks = min(counter("contexts_fenced"), stacks)
        bypassedBlocks = min(counter("unguarded_allocations") &+ counter("passed_blocks"), blocks)
        frees = counter("frees")
        freesGuardedAtOnce = min(counter("guarded_at_once"), frees)
        freesGuardedLater = min(counter("guarded_later"), frees - freesGuardedAtOnce)
        waitingBytesMost = counter("waiting_bytes_peak")
        pairs = counter("pairs")
        watchedPairs = min(counter("pairs_watched"), pairs)
        focusedBlocks = counter("focused_blocks")
        focusedIsolated = min(counter("focused_isolated"), focusedBlocks)
        unguardedPrograms = counter("children_unguarded")
        // An allocator of the program may get its memory from the runtime: ignore the reason `other_allocator` if
        // blocks were counted.
        let other = Reason.table.firstIndex { $0.name == "other_allocator" }
        let times = firstTimes.enumerated().map { blocks > 0 && $0.offset == other ? 0 : $0.element }
        if watchedBlocks < blocks || watchedPairs < pairs || blocks == 0 { reason = .told(times, start: start) }
        if blocks == 0, reason?.name != "other_allocator" { reason = nil }
    }
}
