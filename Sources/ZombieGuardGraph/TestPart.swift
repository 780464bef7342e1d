// Decides which blocks a part of a test has made or freed, while other tests run in the same process.

import CZombie
import ZombieGuard

/// A part of a test. Names of functions are resolved only for blocks that nothing else decides.
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
    private let lookup: HeapLookup
    private var frames: FrameReader
    private var verdicts: [UInt32: Verdict] = [:]
    /// The runtime's number of the thread of a synchronous part; 0: the part is asynchronous, or the number is unknown.
    private let thread: UInt16

    /// Thread number of all threads behind the first 65,534.
    private static let laterThread = UInt16.max

    init(_ question: HeapQuestion, _ source: HeapReader, _ ages: BlockAges, _ symbolicator: Symbolicator) {
        self.question = question
        self.ages = ages
        self.symbolicator = symbolicator
        let lookup = HeapLookup(source)
        self.lookup = lookup
        frames = FrameReader(source)
        var thread: UInt16 = 0
        if question.isSynchronous, case .block(let marker) = lookup.place(of: question.marker.rawValue) {
            thread = marker.block.alloc_thread
        }
        self.thread = thread == Self.laterThread ? 0 : thread
    }

    /// Who has allocated a live block.
    func allocator(of block: UInt32, in blocks: BlockTable) -> Verdict {
        let start = blocks.starts[Int(block)]
        let stack = blocks.stacks[Int(block)]
        guard ages.isNew(start: start, stack: stack, since: question.moment) else { return .foreign }
        if question.isAlone { return .own }
        if thread != 0, case .block(let record) = lookup.place(of: start), record.block.alloc_thread == thread {
            return .own
        }
        return verdict(of: stack)
    }

    /// Who has freed a block that was allocated on `stack`. `ages`: those of freed blocks.
    func releaser(of start: UInt64, allocatedOn stack: UInt32) -> Verdict {
        guard ages.isNew(start: start, stack: stack, since: question.moment),
            case .block(let record) = lookup.place(of: start)
        else { return .foreign }
        if question.isAlone || thread != 0 && record.block.free_thread == thread { return .own }
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

    /// The part's own ones of the lost blocks, or else the undecided ones; and which of both they are.
    ///
    /// Blocks that refer to each other belong together: a test has made all of them if it has made one, or if one of
    /// them is a task that refers to the part's marker. `isKnown`: blocks that were reported before.
    func choose(
        from lost: [UInt32], of snapshot: HeapSnapshot, _ graph: References, isKnown: (UInt64) -> Bool
    ) -> (blocks: [UInt32], verdict: Verdict) {
        let blocks = snapshot.blocks
        let marker = blocks.block(at: question.marker.rawValue)
        let groups = Groups(lost, graph, blocks.count)
        var verdicts: [UInt32: Verdict] = [:]
        for (number, block) in lost.enumerated() where !isKnown(blocks.starts[Int(block)]) {
            var verdict = allocator(of: block, in: blocks)
            if verdict == .foreign { continue }
            if marker != BlockTable.none, graph.targets(of: block).contains(marker) { verdict = .own }
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
