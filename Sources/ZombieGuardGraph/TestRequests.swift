// Answers the questions of a guarded test bundle about its own heap.

import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Answers the questions of one process. Symbol files stay open between the questions.
package final class TestRequests {
    private let process: GuardedProcess
    private let symbolicator = Symbolicator()
    private let live = BlockAges()
    private let freed = BlockAges()
    /// Lost blocks that were reported as failures of tests: their allocation stacks, by address.
    private var reported: [UInt64: UInt32] = [:]
    /// Lost blocks of which a test was warned, because another test may have lost them: their allocation stacks, by
    /// address.
    private var warned: [UInt64: UInt32] = [:]

    private static let mostFindings = 50
    /// Maximum number of steps of a cycle with allocation stacks. Stacks are most of a finding, and a line has a
    /// limited length.
    private static let mostStacks = 64
    /// Pause between two snapshots, in which another thread may store a reference that it holds in a register.
    private static let pauseMicroseconds: UInt32 = 2000

    /// A snapshot that lacks a part of the heap: its result would be a false leak, or a false pass.
    private struct Incomplete: Error, CustomStringConvertible {
        var description: String

        static func check(_ notes: [String]) throws(Incomplete) {
            if let note = notes.first { throw Incomplete(description: note) }
        }
    }

    /// - Parameter processID: the process that asks.
    /// - Throws: ``ProcessError`` if the process is not guarded, or may not be read.
    package init(processID: Int) throws(ProcessError) { process = try GuardedProcess(processID: processID) }

    /// Answers a question.
    package func answer(_ question: HeapQuestion) -> HeapAnswer {
        do {
            switch question.kind {
            case .begin: return try begin()
            case .leaks: return try findLeaks(question)
            case .dangling: return try findDangling(question)
            case .objects: return try findObjects(question)
            }
        } catch {
            var answer = HeapAnswer()
            answer.problem = "\(error)"
            return answer
        }
    }

    private func begin() throws -> HeapAnswer {
        let source = try HeapReader(process: process)
        let (freedBlocks, liveBlocks) = (HeapSnapshot.freedBlocks(of: source), HeapSnapshot.liveBlocks(of: source))
        try Incomplete.check(source.notes)
        // Record both freed and live blocks, so that one number identifies both snapshots.
        _ = freed.look(at: freedBlocks)
        var answer = HeapAnswer()
        answer.moment = live.look(at: liveBlocks)
        return answer
    }

    private func waiting(_ question: HeapQuestion) -> HeapSnapshot.Waiting {
        HeapSnapshot.Waiting(
            id: Int32(truncatingIfNeeded: question.thread), stackPointer: question.stackPointer.rawValue)
    }

    // Resumes threads that stopped only after their snapshot had ended.
    private static func releaseLateThreads() { while zg_thread_release_next() != 0 {} }

    private static func pause() {
        releaseLateThreads()
        usleep(pauseMicroseconds)
        releaseLateThreads()
    }

    // MARK: Leaks

    private func findLeaks(_ question: HeapQuestion) throws -> HeapAnswer {
        let part = try TestPart(question, process, live, symbolicator)
        var verdict = TestPart.Verdict.foreign
        var notes: [String] = []
        var isSecond = false
        let search = try LeakSearch.of(
            choosing: { snapshot, graph, lost in
                Self.releaseLateThreads()
                let chosen = part.choose(from: lost, of: snapshot, graph) { self.isKnown($0, $1, in: snapshot.blocks) }
                verdict = chosen.verdict
                notes += snapshot.source.notes
                return chosen.blocks
            },
            {
                if isSecond { Self.pause() }
                isSecond = true
                return try HeapSnapshot.of(process, .graph, waiting: waiting(question))
            })
        Self.releaseLateThreads()
        var answer = HeapAnswer()
        answer.stoppedMicroseconds = Int(clamping: search.snapshot.stoppedNanoseconds / 1000)
        let naming = try HeapReader(process: process)
        let findings = search.findings(
            time: Timestamp.now.description, most: Self.mostFindings, mostStacks: Self.mostStacks, source: naming)
        // Notes on threads that were not stopped matter only if there are findings: registers of such threads may hold
        // pointers to blocks that look lost, but cannot hide a leak.
        if !findings.isEmpty { notes += search.snapshot.notes + naming.notes }
        try Incomplete.check(notes + search.snapshot.source.notes + (part.note.map { [$0] } ?? []))
        let places = search.places(ofFirst: Self.mostFindings)
        let named = findings.map { symbolicator.symbolicate($0) }
        if verdict == .own {
            for (start, stack) in places { reported[start] = stack }
            answer.findings = named
        } else {
            for (start, stack) in places { warned[start] = stack }
            answer.undecided = named
        }
        return answer
    }

    // A warning in one test must not hide the failure of the test that has lost the block.
    private func isKnown(_ block: UInt32, _ verdict: TestPart.Verdict, in blocks: BlockTable) -> Bool {
        let (start, stack) = (blocks.starts[Int(block)], blocks.stacks[Int(block)])
        return reported[start] == stack || verdict == .undecided && warned[start] == stack
    }

    // MARK: Dangling references

    private func findDangling(_ question: HeapQuestion) throws -> HeapAnswer {
        var answer = HeapAnswer()
        let released = try releasedBlocks(question)
        if released.count == 0 { return answer }
        func look() throws -> DanglingSearch {
            // Skip blocks that have left the quarantine since `released` was read.
            let search = try DanglingSearch.of(process, isStrict: true, waiting: waiting(question)) { _, blocks in
                blocks.filter { start, stack in
                    let block = released.block(at: start)
                    return block != BlockTable.none && released.starts[Int(block)] == start
                        && released.stacks[Int(block)] == stack
                }
            }
            answer.stoppedMicroseconds += Int(clamping: search.stoppedNanoseconds / 1000)
            try Incomplete.check(search.source.notes)
            return search
        }
        let first = try look()
        if first.references.isEmpty {
            Self.releaseLateThreads()
            try Incomplete.check(first.notes)
            return answer
        }
        Self.pause()
        let second = try look()
        Self.releaseLateThreads()
        let places = Set(first.references.map(\.place))
        answer.references = second.references.filter { places.contains($0.place) }.prefix(Self.mostFindings)
            .map { symbolicator.named($0) }
            // Drop the runtime's own variables, which are in the image of the test bundle.
            .filter { !($0.holder.symbol?.hasPrefix("zg_") ?? false) }
            .map {
                HeapAnswer.Reference(holder: $0.holder, count: $0.count, target: $0.target, stacks: $0.stacks)
            }
        // References that were found are valid even if a part of the memory was not searched.
        if answer.references.isEmpty { try Incomplete.check(first.notes + second.notes) }
        return answer
    }

    // The blocks that the part has freed. Names are resolved while the process runs: freed blocks keep their addresses.
    private func releasedBlocks(_ question: HeapQuestion) throws -> BlockTable {
        let source = try HeapReader(process: process)
        let part = try TestPart(question, process, freed, symbolicator)
        let blocks = HeapSnapshot.freedBlocks(of: source).filter { part.releaser(of: $0, allocatedOn: $1) == .own }
        try Incomplete.check(source.notes + (part.note.map { [$0] } ?? []))
        return blocks
    }

    // MARK: Objects

    private func findObjects(_ question: HeapQuestion) throws -> HeapAnswer {
        let search = try LiveObjectSearch.of(
            process, metadata: question.metadata?.rawValue, places: question.objects.map { ~$0.rawValue },
            waiting: waiting(question))
        Self.releaseLateThreads()
        try Incomplete.check(search.notes)
        var answer = HeapAnswer()
        answer.stoppedMicroseconds = Int(clamping: search.stoppedNanoseconds / 1000)
        answer.objects = search.objects.map { object in
            var object = object
            object.allocationStack = symbolicator.symbolicate(object.allocationStack)
            object.holders = object.holders.map { symbolicator.named($0) }
                .filter { !($0.symbol?.hasPrefix("zg_") ?? false) }
            object.path = object.path.map { symbolicator.named($0) }
            return object
        }
        return answer
    }
}

extension DanglingSearch.Reference {
    /// Identifies the place of a reference; equal in two searches.
    fileprivate var place: [String] {
        [
            holder.place, holder.className ?? "", holder.member ?? "", holder.frame?.module ?? "",
            holder.frame?.offset.map { "\($0)" } ?? "", holder.block.map { "\($0.start) \($0.offset ?? 0)" } ?? "",
        ]
    }
}

extension Symbolicator {
    /// Symbolicates a reference to a freed block.
    package func named(_ reference: DanglingSearch.Reference) -> DanglingSearch.Reference {
        var reference = reference
        reference.holder = named(reference.holder)
        reference.stacks.free = symbolicate(reference.stacks.free)
        reference.stacks.alloc = symbolicate(reference.stacks.alloc)
        if let symbol = reference.target.classSymbol, reference.target.className == nil {
            reference.target.className = CxxName.className(typeinfo: symbol)
        }
        return reference
    }
}
