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
    /// Lost blocks that were reported: by address, the allocation stack.
    private var reported: [UInt64: UInt32] = [:]

    private static let mostFindings = 50
    /// Pause between two looks, in which another thread may store a reference that it holds in a register.
    private static let pauseMicroseconds: UInt32 = 2000

    /// - Parameter processID: the process that asks.
    /// - Throws: ``ProcessError`` if the process is not guarded, or may not be read.
    package init(processID: Int) throws(ProcessError) { process = try GuardedProcess(processID: processID) }

    /// Answers a question. Of the answer's objects each has to follow in a line of its own.
    package func answer(_ question: HeapQuestion) -> (answer: HeapAnswer, objects: [LiveObject]) {
        var answer = HeapAnswer()
        var objects: [LiveObject] = []
        do {
            switch question.kind {
            case .begin: answer.moment = try begin()
            case .leaks: try findLeaks(question, &answer)
            case .dangling: try findDangling(question, &answer)
            case .objects: objects = try findObjects(question, &answer)
            }
        } catch {
            answer.problem = "\(error)"
        }
        answer.objectCount = objects.count
        return (answer, objects)
    }

    private func begin() throws -> Int {
        let source = try HeapReader(process: process)
        // The same number of looks at both.
        _ = freed.look(at: HeapSnapshot.freedBlocks(of: source))
        return live.look(at: HeapSnapshot.liveBlocks(of: source))
    }

    private func waiting(_ question: HeapQuestion) -> HeapSnapshot.Waiting {
        HeapSnapshot.Waiting(
            id: Int32(truncatingIfNeeded: question.thread), stackPointer: question.stackPointer.rawValue)
    }

    // MARK: Leaks

    private func findLeaks(_ question: HeapQuestion, _ answer: inout HeapAnswer) throws {
        var verdict = TestPart.Verdict.foreign
        var isSecond = false
        let search = try LeakSearch.of(
            choosing: { snapshot, graph, lost in
                let part = TestPart(question, snapshot.source, self.live, self.symbolicator)
                let chosen = part.choose(from: lost, of: snapshot, graph) { self.isReported($0, in: snapshot.blocks) }
                verdict = chosen.verdict
                return chosen.blocks
            },
            {
                if isSecond { usleep(Self.pauseMicroseconds) }
                isSecond = true
                return try HeapSnapshot.of(process, .graph, waiting: waiting(question))
            })
        answer.stoppedMicroseconds = Int(clamping: search.snapshot.stoppedNanoseconds / 1000)
        for (start, stack) in search.lostPlaces { reported[start] = stack }
        let findings = search.findings(time: Timestamp.now.description).prefix(Self.mostFindings)
            .map { symbolicator.symbolicate($0) }
        if verdict == .own { answer.findings = findings } else { answer.undecided = findings }
    }

    private func isReported(_ start: UInt64, in blocks: BlockTable) -> Bool {
        guard let stack = reported[start] else { return false }
        let block = blocks.block(at: start)
        return block != BlockTable.none && blocks.stacks[Int(block)] == stack
    }

    // MARK: Dangling references

    private func findDangling(_ question: HeapQuestion, _ answer: inout HeapAnswer) throws {
        func look() throws -> [DanglingSearch.Reference] {
            let search = try DanglingSearch.of(process, isStrict: true, waiting: waiting(question)) { source, blocks in
                let part = TestPart(question, source, self.freed, self.symbolicator)
                return blocks.filter { part.releaser(of: $0, allocatedOn: $1) == .own }
            }
            answer.stoppedMicroseconds += Int(clamping: search.stoppedNanoseconds / 1000)
            return search.references
        }
        let first = try look()
        if first.isEmpty { return }
        usleep(Self.pauseMicroseconds)
        let places = Set(first.map(\.place))
        answer.references = try look().filter { places.contains($0.place) }.prefix(Self.mostFindings)
            .map { symbolicator.named($0) }
            // The runtime's variables are in the image of the test bundle.
            .filter { !($0.holder.symbol?.hasPrefix("zg_") ?? false) }
            .map {
                HeapAnswer.Reference(holder: $0.holder, count: $0.count, target: $0.target, stacks: $0.stacks)
            }
    }

    // MARK: Objects

    private func findObjects(_ question: HeapQuestion, _ answer: inout HeapAnswer) throws -> [LiveObject] {
        let search = try LiveObjectSearch.of(
            process, metadata: question.metadata?.rawValue, places: question.objects.map { ~$0.rawValue },
            waiting: waiting(question))
        answer.stoppedMicroseconds = Int(clamping: search.stoppedNanoseconds / 1000)
        return search.objects.map { object in
            var object = object
            object.allocationStack = symbolicator.symbolicate(object.allocationStack)
            object.holders = object.holders.map { symbolicator.named($0) }
                .filter { !($0.symbol?.hasPrefix("zg_") ?? false) }
            object.path = object.path.map { symbolicator.named($0) }
            return object
        }
    }
}

extension DanglingSearch.Reference {
    /// Equal for references of one place in two looks.
    fileprivate var place: [String] {
        [
            holder.place, holder.className ?? "", holder.member ?? "", holder.frame?.module ?? "",
            holder.frame?.offset.map { "\($0)" } ?? "", holder.block.map { "\($0.start) \($0.offset ?? 0)" } ?? "",
        ]
    }
}

extension Symbolicator {
    /// Names a reference to a freed block.
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
