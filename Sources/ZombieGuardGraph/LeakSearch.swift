// Finds the blocks of a snapshot that cannot be reached, and the cycles of Swift objects among them.

import CZombie
import Glibc
import ZombieGuard

/// Blocks that cannot be reached from any root.
package struct LeakSearch {
    /// Lost blocks to which no other lost block refers, all of one allocation stack and one class; and the blocks that
    /// can be reached from them.
    package struct Leak {
        package var block: UInt32
        package var classNumber: Int?
        package var blocks = 0
        package var bytes: UInt64 = 0
        package var indirectBlocks = 0
        package var indirectBytes: UInt64 = 0
        /// All blocks that this leak counts.
        var members: [UInt32] = []
    }

    /// Objects that keep each other alive. Each refers to the next one, and the last one to the first.
    package struct Cycle {
        package struct Step: Hashable {
            package var block: UInt32
            /// Offset of the reference to the next block, in bytes.
            package var offset: UInt64
            /// The word in front of the reference: for a closure, the address of its code.
            package var before: UInt64
        }

        package var steps: [Step]
        /// Number of blocks in the strongly connected component, and of blocks that can be reached from it and were not
        /// counted before.
        package var blocks: Int
        package var bytes: UInt64
        /// All blocks that this cycle counts.
        var members: [UInt32]
    }

    package private(set) var leaks: [Leak] = []
    package private(set) var cycles: [Cycle] = []
    package private(set) var lostBlocks = 0
    package private(set) var lostBytes: UInt64 = 0

    package let snapshot: HeapSnapshot
    let classes: ClassTable
    private let memory: any MemoryReader
    private let isSideTable: Set<UInt32>
    /// The lost blocks, sorted. The index of a block is its local number.
    private var lost: [UInt32] = []

    /// `ofCycle`: counted with a cycle of the program's objects.
    private enum Mark { static let reached: UInt8 = 1, counted: UInt8 = 2, ofCycle: UInt8 = 3 }

    /// Searches a process or core file. `read` takes a snapshot with references.
    ///
    /// A block looks lost briefly while a thread is about to receive or to store its pointer. So if there are other
    /// threads, a block counts as lost only if it is lost in a second snapshot as well. `choose` returns the lost
    /// blocks to report, and is called for both snapshots. With `choose`, a second snapshot is always taken, unless
    /// `choose` returned no block of the first.
    package static func of(choosing choose: Choice? = nil, _ read: () throws -> HeapSnapshot) throws -> LeakSearch {
        let places: Set<UInt64>
        let stopped: UInt64
        do {
            let first = LeakSearch(try read(), confirming: nil, choose)
            if !first.snapshot.hasOtherThreads && choose == nil || first.lost.isEmpty { return first }
            places = first.places
            stopped = first.snapshot.stoppedNanoseconds
        } // frees the first snapshot
        let second = LeakSearch(try read(), confirming: places, choose)
        second.snapshot.stoppedNanoseconds += stopped
        return second
    }

    package typealias Choice = (HeapSnapshot, References, _ lost: [UInt32]) -> [UInt32]

    /// Starts of the lost blocks.
    private var places: Set<UInt64> { Set(lost.map { snapshot.blocks.starts.base[Int($0)] }) }

    /// Starts and allocation stacks of the blocks of the first findings (``findings(time:)``), and of the side tables
    /// of these blocks.
    func places(ofFirst count: Int) -> [(start: UInt64, stack: UInt32)] {
        let members = Set((leaks.map(\.members) + cycles.map(\.members)).prefix(count).joined())
        let tables = snapshot.sideTables.elements.filter { members.contains($0.object) }.map(\.table)
        return members.union(tables.filter(isSideTable.contains)).map {
            (snapshot.blocks.starts.base[Int($0)], snapshot.blocks.stacks.base[Int($0)])
        }
    }

    // Reads the contents of lost blocks again from the source. They are unchanged: the program cannot reach lost
    // blocks.
    private init(_ snapshot: HeapSnapshot, confirming earlier: Set<UInt64>?, _ choose: Choice?) {
        let classes = ClassTable(snapshot)
        self.snapshot = snapshot
        self.classes = classes
        memory = snapshot.source.memory
        let graph = References(offsets: snapshot.offsets, targets: snapshot.targets)
        isSideTable = classes.sideTables(graph)
        let marks = FlatArray<UInt8>(repeating: 0, count: snapshot.blocks.count)
        let tables = isSideTable
        graph.reach(
            from: snapshot.roots.elements, mark: Mark.reached, in: marks,
            isOpaque: { !tables.isEmpty && tables.contains($0) })
        let runs = (0..<UInt32(snapshot.blocks.count)).filter { marks.base[Int($0)] == 0 && isTestRun($0) }
        graph.reach(from: runs, mark: Mark.reached, in: marks, isOpaque: tables.contains)
        for block in 0..<snapshot.blocks.count
        where marks.base[block] == 0 && earlier?.contains(snapshot.blocks.starts.base[block]) ?? true {
            lost.append(UInt32(block))
        }
        if lost.isEmpty { return }
        if let choose {
            lost = choose(snapshot, graph, lost)
            if lost.isEmpty { return }
        }
        lostBlocks = lost.count
        lostBytes = lost.reduce(0) { $0 + snapshot.blocks.size(of: $1) }
        classify(graph)
    }

    // MARK: Lost blocks among themselves

    private mutating func classify(_ graph: References) {
        let local = FlatArray<UInt32>(repeating: BlockTable.none, count: snapshot.blocks.count)
        for (number, block) in lost.enumerated() { local.base[Int(block)] = UInt32(number) }
        let all = references { block, add in
            for target in graph.targets(of: block) where local.base[Int(target)] != BlockTable.none {
                add(local.base[Int(target)])
            }
        }
        // Weak and unowned references make no cycles. Only objects that may be on a cycle are read for their fields.
        let (component, count) = all.components()
        let sizes = Self.sizes(component, count)
        let strong = references { block, add in
            let number = local.base[Int(block)]
            let isOnCycle =
                sizes.base[Int(component.base[Int(number)])] > 1 || all.targets(of: number).contains(number)
            guard isOnCycle, let steps = typedReferences(of: block) else {
                // The frames of an async function are in memory of a task and refer to that task, but do not own it.
                let isPlain = isOnCycle && classes.number(of: block) == nil
                for target in all.targets(of: number) where !(isPlain && classes.isTask(lost[Int(target)])) {
                    add(target)
                }
                return
            }
            for step in steps where local.base[Int(step.target)] != BlockTable.none {
                add(local.base[Int(step.target)])
            }
        }
        report(strong, all)
    }

    private func references(_ body: (UInt32, (UInt32) -> Void) -> Void) -> References {
        let offsets = FlatArray<UInt32>()
        let targets = FlatArray<UInt32>()
        for block in lost {
            offsets.append(UInt32(targets.count))
            if !isSideTable.contains(block) { body(block) { targets.append($0) } }
        }
        offsets.append(UInt32(targets.count))
        return References(offsets: offsets, targets: targets)
    }

    private static func sizes(_ component: FlatArray<UInt32>, _ count: Int) -> FlatArray<UInt32> {
        let sizes = FlatArray<UInt32>(repeating: 0, count: count)
        for number in component.elements { sizes.base[Int(number)] += 1 }
        return sizes
    }

    private struct Reference {
        var offset: UInt64
        var before: UInt64
        var target: UInt32
    }

    private static let longestObject: UInt64 = 1 << 20

    /// The references with which a Swift object keeps others alive; nil if the block is no Swift object or is
    /// unreadable.
    private func typedReferences(of block: UInt32) -> [Reference]? {
        guard let number = classes.number(of: block), let known = classes.class(of: block), known.isSwift else {
            return nil
        }
        let words = memory.records(
            UInt64.self, at: snapshot.blocks.starts[Int(block)],
            count: Int(min(snapshot.blocks.size(of: block), Self.longestObject) / 8))
        guard words.first == known.pointer else { return nil }
        let layout = classes.layout(number)
        let start = snapshot.blocks.starts[Int(block)]
        var references: [Reference] = []
        for index in words.indices.dropFirst(2) {
            let target = snapshot.target(of: words[index])
            guard target != BlockTable.none else { continue }
            let offset = UInt64(index) * 8
            switch layout.kind(at: offset, of: start, words) {
            case .strong: break
            // A reference of an object to itself counts only in a property: tasks contain pointers into themselves.
            case .unknown, .erased: if target == block, offset >= layout.fixedSize { continue }
            case .pointer: if target == block { continue }
            case .weak, .unowned, .unmanaged, .number: continue
            }
            references.append(Reference(offset: offset, before: words[index - 1], target: target))
        }
        return references
    }

    // MARK: Results

    private mutating func report(_ strong: References, _ all: References) {
        let (component, count) = strong.components()
        let sizes = Self.sizes(component, count)
        let isLedTo = FlatArray<UInt8>(repeating: 0, count: count)
        var selfReferring: Set<UInt32> = []
        for number in 0..<UInt32(lost.count) {
            let own = component.base[Int(number)]
            for target in strong.targets(of: number) {
                if target == number { selfReferring.insert(number) }
                if component.base[Int(target)] != own { isLedTo.base[Int(component.base[Int(target)])] = 1 }
            }
        }
        var members: [UInt32: [UInt32]] = [:]
        for number in 0..<UInt32(lost.count) {
            let own = component.base[Int(number)]
            if sizes.base[Int(own)] > 1 { members[own, default: []].append(number) }
        }
        let marks = FlatArray<UInt8>(repeating: 0, count: lost.count)
        var groups: [LeakKey: Int] = [:]
        for number in selfReferring where sizes.base[Int(component.base[Int(number)])] == 1 {
            members[component.base[Int(number)]] = [number]
        }
        // Count cycles first, in falling order of component numbers: a component has a higher number than those that
        // can be reached from it, which are counted with it.
        var rings: [UInt32] = []
        for (own, numbers) in members.sorted(by: { $0.key > $1.key }) {
            if marks.base[Int(numbers[0])] == Mark.ofCycle { continue }
            if add(cycleThrough: numbers, strong, component, marks) || isLedTo.base[Int(own)] != 0 { continue }
            rings.append(numbers[0])
        }
        // Report a cycle without a Swift object as a leak of its first block.
        for number in rings.sorted() where marks.base[Int(number)] == 0 { add(leakOf: number, strong, marks, &groups) }
        for number in 0..<UInt32(lost.count) where marks.base[Int(number)] == 0 {
            let own = Int(component.base[Int(number)])
            if sizes.base[own] == 1, isLedTo.base[own] == 0, !isSideTable.contains(lost[Int(number)]) {
                add(leakOf: number, strong, marks, &groups)
            }
        }
        leaks.sort { $0.bytes + $0.indirectBytes > $1.bytes + $1.indirectBytes }
    }

    private struct LeakKey: Hashable {
        var stack: UInt32
        var classNumber: Int?
    }

    private mutating func add(
        leakOf number: UInt32, _ strong: References, _ marks: FlatArray<UInt8>, _ groups: inout [LeakKey: Int]
    ) {
        let counted = newlyCounted(from: [number], strong, marks)
        if isLibrarysOwn([number], counted) { return }
        let block = lost[Int(number)]
        let key = LeakKey(stack: snapshot.blocks.stacks[Int(block)], classNumber: classes.number(of: block))
        let index = groups[key] ?? leaks.count
        if groups[key] == nil {
            groups[key] = index
            leaks.append(Leak(block: block, classNumber: key.classNumber))
        }
        leaks[index].members += counted.map { lost[Int($0)] }
        for other in counted {
            let size = snapshot.blocks.size(of: lost[Int(other)])
            if other == number {
                leaks[index].blocks += 1
                leaks[index].bytes += size
            } else {
                leaks[index].indirectBlocks += 1
                leaks[index].indirectBytes += size
            }
        }
    }

    // Adds a cycle through some blocks of one component. Returns false if no Swift object is on the cycle.
    private mutating func add(
        cycleThrough numbers: [UInt32], _ strong: References, _ component: FlatArray<UInt32>,
        _ marks: FlatArray<UInt8>
    ) -> Bool {
        let own = component[Int(numbers[0])]
        func isObject(_ number: UInt32) -> Bool { classes.isSwift(lost[Int(number)]) }
        func shortest(through some: [UInt32]) -> [UInt32]? {
            some.isEmpty ? nil : strong.shortestCycle(through: some, isInside: { component[Int($0)] == own })
        }
        // Prefer a cycle through the program's objects: the component may also have a library's cycle, which lasts only
        // until the program's object is freed.
        let programs = numbers.filter { classes.isOfProgram(lost[Int($0)]) }
        guard let cycle = shortest(through: programs) ?? shortest(through: numbers.filter(isObject)),
            cycle.contains(where: isObject)
        else { return false }
        let mark = cycle.contains { classes.isOfProgram(lost[Int($0)]) } ? Mark.ofCycle : Mark.counted
        let counted = newlyCounted(from: numbers, strong, marks, mark)
        if isLibrarysOwn(cycle, counted) { return true }
        let named = rotated(cycle)
        var steps: [Cycle.Step] = []
        for (index, number) in named.enumerated() {
            let next = lost[Int(named[(index + 1) % named.count])]
            let reference = typedReferences(of: lost[Int(number)])?.first { $0.target == next }
            steps.append(
                Cycle.Step(block: lost[Int(number)], offset: reference?.offset ?? 0, before: reference?.before ?? 0))
        }
        cycles.append(
            Cycle(
                steps: steps, blocks: counted.count,
                bytes: counted.reduce(0) { $0 + snapshot.blocks.size(of: lost[Int($1)]) },
                members: counted.map { lost[Int($0)] }))
        return true
    }

    /// Classes whose objects Foundation never frees (swift-corelibs-foundation of Swift 6.3). Timer retains itself for
    /// its run loop and never releases that reference. NSAttributedString never releases its CFRunArray, whose only
    /// known class is __NSCFType. A program cannot make objects of Core Foundation by itself.
    private static let neverFreed: Set<String> = ["Foundation.Timer", "Foundation.__NSCFType"]

    /// XCTest keeps all test cases and suites until the process ends: XCTest.testRun and XCTestRun.test refer to each
    /// other (swift-corelibs-xctest of Swift 6.3). These objects therefore count as reachable.
    private static let testRuns: Set<String> = ["XCTest.XCTestCaseRun", "XCTest.XCTestSuiteRun"]

    private func isTestRun(_ block: UInt32) -> Bool {
        classes.number(of: block).flatMap { classes.label($0).name }.map(Self.testRuns.contains) ?? false
    }

    // Whether a library, not the program, has lost the blocks. False if objects of the program are lost with them, such
    // as those that a timer retains: the program can avoid that.
    private func isLibrarysOwn(_ numbers: [UInt32], _ counted: [UInt32]) -> Bool {
        numbers.allSatisfy { number in
            classes.number(of: lost[Int(number)]).flatMap { classes.label($0).name }.map(Self.neverFreed.contains)
                ?? false
        } && !counted.contains { classes.isOfProgram(lost[Int($0)]) }
    }

    // Marks all blocks that can be reached from some lost blocks, except those with a mark, and returns the newly
    // marked ones.
    private func newlyCounted(
        from numbers: [UInt32], _ strong: References, _ marks: FlatArray<UInt8>, _ mark: UInt8 = Mark.counted
    ) -> [UInt32] {
        var all: [UInt32] = []
        strong.reach(from: numbers, mark: mark, in: marks, visit: { all.append($0) })
        return all
    }

    // Begins a cycle with an instance of a class of the program, rather than with a closure or an array.
    private func rotated(_ cycle: [UInt32]) -> [UInt32] {
        func rank(_ number: UInt32) -> Int {
            guard let known = classes.number(of: lost[Int(number)]) else { return 3 }
            let name = classes.label(known).name ?? ""
            return name.hasPrefix("Swift.") ? 2 : name.contains(".") ? 0 : 1
        }
        let first = cycle.indices.min { rank(cycle[$0]) < rank(cycle[$1]) } ?? 0
        return Array(cycle[first...] + cycle[..<first])
    }
}
