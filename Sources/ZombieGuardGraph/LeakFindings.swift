// Makes findings of lost blocks and of retain cycles.

import CZombie
import ZombieGuard

extension LeakSearch {
    /// The leaks and cycles as raw findings: one for each allocation stack and class, one for each cycle.
    ///
    /// - Parameters:
    ///   - time: time of the search, ISO 8601.
    ///   - most: maximum number of findings.
    ///   - mostStacks: number of steps of a cycle that get allocation stacks. Later steps have none.
    ///   - source: the heap that is read for stacks; nil: that of the snapshot.
    package func findings(
        time: String? = nil, most: Int = .max, mostStacks: Int = .max, source: HeapReader? = nil
    ) -> [Finding] {
        var frames = FrameReader(source ?? snapshot.source)
        return leaks.prefix(most).map { finding(of: $0, time, &frames) }
            + cycles.prefix(max(0, most - leaks.count)).map { finding(of: $0, time, mostStacks, &frames) }
    }

    private func finding(of leak: Leak, _ time: String?, _ frames: inout FrameReader) -> Finding {
        var finding = base(.leak, leak.block, time, &frames)
        finding.leak = Finding.Leak(
            blocks: leak.blocks, bytes: leak.bytes, indirectBlocks: leak.indirectBlocks,
            indirectBytes: leak.indirectBytes)
        return finding
    }

    private func finding(
        of cycle: Cycle, _ time: String?, _ mostStacks: Int, _ frames: inout FrameReader
    ) -> Finding {
        var finding = base(.retainCycle, cycle.steps[0].block, time, &frames)
        var steps: [Finding.Leak.Step] = []
        for (index, step) in cycle.steps.enumerated() {
            steps.append(
                self.step(step, after: cycle.steps[(index + cycle.steps.count - 1) % cycle.steps.count], &frames))
            if index >= mostStacks { steps[index].alloc = [] }
        }
        finding.leak = Finding.Leak(blocks: cycle.blocks, bytes: cycle.bytes, cycle: steps)
        return finding
    }

    private func base(_ kind: Finding.Kind, _ block: UInt32, _ time: String?, _ frames: inout FrameReader) -> Finding {
        let statistics = snapshot.source.statistics
        var described = Finding.Block(
            start: Address(snapshot.blocks.starts[Int(block)]), size: snapshot.blocks.size(of: block),
            state: Finding.Block.State.live.rawValue)
        if let number = classes.number(of: block) {
            let label = classes.label(number)
            described.language = label.language.rawValue
            described.className = label.name
            described.classSymbol = label.symbol
        }
        return Finding(
            kind: kind, block: described,
            stacks: Finding.Stacks(alloc: frames.stack(snapshot.blocks.stacks[Int(block)])),
            processID: statistics.processID, program: statistics.program, time: time)
    }

    private func step(_ step: Cycle.Step, after previous: Cycle.Step, _ frames: inout FrameReader) -> Finding.Leak.Step
    {
        let number = classes.number(of: step.block)
        let label = number.map { classes.label($0) }
        let known = classes.class(of: step.block)
        var result = Finding.Leak.Step(
            className: label?.name, place: "memory", start: Address(snapshot.blocks.starts[Int(step.block)]),
            size: snapshot.blocks.size(of: step.block), alloc: frames.stack(snapshot.blocks.stacks[Int(step.block)]))
        result.classSymbol = label?.symbol
        if number == nil, classes.isTask(previous.block) { result.className = Finding.Leak.Step.frameName }
        if let known, known.isSwift {
            let size = classes.names.instanceSize(of: known)
            // A closure is two words: the address of its code, and a reference to its context, which is the next
            // object.
            result.code = frames.code(step.before)
            if size == 0 {
                result.place = "capture"
                // Boxes have the metadata of closure contexts, but no code address precedes a reference to a box.
                if frames.code(previous.before) == nil, result.className == Finding.Leak.Step.contextName {
                    result.className = Finding.Leak.Step.boxName
                }
            } else if step.offset < size, let member = classes.names.property(of: known, at: step.offset) {
                result.place = "field"
                result.member = member
            } else if step.offset >= size {
                result.place = "element"
            }
        }
        return result
    }
}

extension Finding.Leak.Step {
    /// Memory of a task for the frames of its async functions.
    fileprivate static let frameName = "async frame"
}

/// Turns stacks of the depot and code addresses into frames, each stack once.
package struct FrameReader {
    private let depot: StackDepotReader
    private var modules: ProcessModules
    private var stacks: [UInt32: [Finding.Frame]] = [:]

    package init(_ source: HeapReader) {
        depot = StackDepotReader(memory: source.memory, layout: source.statistics.heapLayout)
        modules = ProcessModules(mappings: source.mappings, memory: source.memory)
    }

    /// The frames of a stack of the depot, innermost first; empty if it is unknown.
    package mutating func stack(_ stack: UInt32) -> [Finding.Frame] {
        if let known = stacks[stack] { return known }
        let frames = depot.returnAddresses(of: stack).map { modules.frame(returningTo: $0) }
        stacks[stack] = frames
        return frames
    }

    /// The frame of a function's first instruction; nil if the address is not in code.
    mutating func code(_ address: UInt64) -> Finding.Frame? {
        modules.isCode(address) ? modules.frame(at: address) : nil
    }
}
