// Decides which blocks a part of a test has made or freed, while other tests run in the same process.

import CZombie
import ZombieGuard

/// A part of a test. Names of functions are resolved only for blocks whose verdict needs them.
final class TestPart {
    enum Verdict: Int {
        /// A block of another test, or older than the part.
        case foreign
        /// A block of this or another test.
        case undecided
        case own
    }

    private let question: HeapQuestion
    private let symbolicator: Symbolicator
    private let ages: BlockAges
    private let process: GuardedProcess
    /// Reads records of blocks. Renewed after each ``lookupsPerReader`` blocks, because the reads of one reader are
    /// limited.
    private var lookup: HeapLookup
    private var lookups = 0
    /// The readers in use. `spentNote` is the first note of readers that were replaced because their reads were spent.
    private let stackSource: HeapReader
    private var source: HeapReader
    private var spentNote: String?
    private var frames: FrameReader
    private var verdicts: [UInt32: Verdict] = [:]
    /// The runtime's number of the thread of a synchronous part; 0: the part is asynchronous, or the number is unknown.
    private let thread: UInt16

    /// Thread number of all threads after the first 65,534.
    private static let laterThread = UInt16.max
    /// A block takes up to four reads of at least 1 KiB of the budget of 64 MiB or more (``ProcessMemory``).
    private static let lookupsPerReader = 8192

    /// - Parameter process: the process of the part, which may run.
    /// - Throws: ``ProcessError`` if the process cannot be read.
    init(
        _ question: HeapQuestion, _ process: GuardedProcess, _ ages: BlockAges, _ symbolicator: Symbolicator
    ) throws(ProcessError) {
        let source = try HeapReader(process: process)
        self.process = process
        self.source = source
        stackSource = try HeapReader(process: process)
        self.question = question
        self.ages = ages
        self.symbolicator = symbolicator
        let lookup = HeapLookup(source)
        self.lookup = lookup
        frames = FrameReader(stackSource)
        var thread: UInt16 = 0
        if question.isSynchronous, case .block(let marker) = lookup.place(of: question.marker.rawValue) {
            thread = marker.block.alloc_thread
        }
        self.thread = thread == Self.laterThread ? 0 : thread
    }

    /// Why some verdicts may be wrong; nil if everything that they depend on was read.
    var note: String? { spentNote ?? source.notes.first ?? stackSource.notes.first }

    private func record(of start: UInt64) -> BlockRecord? {
        lookups += 1
        if lookups % Self.lookupsPerReader == 0, let next = try? HeapReader(process: process) {
            spentNote = note
            source = next
            lookup = HeapLookup(next)
        }
        guard case .block(let record) = lookup.place(of: start) else { return nil }
        return record
    }

    /// Tells whether this test has allocated a live block.
    func allocator(of block: UInt32, in blocks: BlockTable) -> Verdict {
        let start = blocks.starts[Int(block)]
        let stack = blocks.stacks[Int(block)]
        guard ages.isNew(start: start, stack: stack, since: question.moment) else { return .foreign }
        if question.isAlone { return .own }
        if thread != 0, let record = record(of: start), record.block.alloc_thread == thread { return .own }
        return verdict(of: stack)
    }

    /// Tells whether this test has freed a block that was allocated on `stack`. `ages` must be those of freed blocks.
    func releaser(of start: UInt64, allocatedOn stack: UInt32) -> Verdict {
        guard ages.isNew(start: start, stack: stack, since: question.moment) else { return .foreign }
        if question.isAlone { return .own }
        guard let record = record(of: start) else { return .foreign }
        if thread != 0, record.block.free_thread == thread { return .own }
        return verdict(of: record.block.free_stack)
    }

    private func verdict(of stack: UInt32) -> Verdict {
        if let known = verdicts[stack] { return known }
        let named = symbolicator.symbolicate(frames.stack(stack))
        let verdict: Verdict =
            if named.mention(question.function) {
                .own
            } else if named.haveTest || question.others.contains(where: { named.mention($0) }) {
                .foreign
            } else {
                .undecided
            }
        verdicts[stack] = verdict
        return verdict
    }

    /// Returns the lost blocks that the part has allocated, or, if there are none, the undecided ones, and their
    /// verdict.
    ///
    /// Blocks that refer to each other form a group: a test has allocated the whole group if it has allocated one of
    /// its blocks, or if one of them is a task that refers to the part's marker. `isKnown` tells whether a block with
    /// this verdict was reported before.
    func choose(
        from lost: [UInt32], of snapshot: HeapSnapshot, _ graph: References, isKnown: (UInt32, Verdict) -> Bool
    ) -> (blocks: [UInt32], verdict: Verdict) {
        let blocks = snapshot.blocks
        let marker = blocks.block(at: question.marker.rawValue)
        let groups = Groups(lost, graph, blocks.count)
        var verdicts: [UInt32: Verdict] = [:]
        for (number, block) in lost.enumerated() where !isKnown(block, .own) {
            var verdict = allocator(of: block, in: blocks)
            if verdict == .foreign { continue }
            if marker != BlockTable.none, graph.targets(of: block).contains(marker) { verdict = .own }
            if isKnown(block, verdict) { continue }
            let group = groups.group(of: UInt32(number))
            verdicts[group] = max(verdict, verdicts[group] ?? .foreign)
        }
        guard let best = verdicts.values.max() else { return ([], .foreign) }
        return (
            lost.indices.filter { verdicts[groups.group(of: UInt32($0))] == best }.map { lost[$0] }, best
        )
    }

    /// Lost blocks that refer to each other, directly or not, in either direction (union-find).
    private struct Groups {
        private let parents: FlatArray<UInt32>

        init(_ lost: [UInt32], _ graph: References, _ count: Int) {
            parents = FlatArray(repeating: 0, count: lost.count)
            for number in lost.indices { parents[number] = UInt32(number) }
            let numbers = FlatArray<UInt32>(repeating: BlockTable.none, count: count)
            for (number, block) in lost.enumerated() { numbers[Int(block)] = UInt32(number) }
            for (number, block) in lost.enumerated() {
                for target in graph.targets(of: block) where numbers[Int(target)] != BlockTable.none {
                    let one = group(of: UInt32(number))
                    let other = group(of: numbers[Int(target)])
                    parents[Int(max(one, other))] = min(one, other)
                }
            }
        }

        func group(of number: UInt32) -> UInt32 {
            var number = number
            while parents[Int(number)] != number {
                parents[Int(number)] = parents[Int(parents[Int(number)])]
                number = parents[Int(number)]
            }
            return number
        }
    }
}

extension TestPart.Verdict: Comparable {
    static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}
