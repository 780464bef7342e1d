// Finds the live objects of a class, their holders, and paths to them from variables.

import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Live objects in a process that is stopped meanwhile.
struct LiveObjectSearch {
    private(set) var objects: [LiveObject] = []
    /// Time for which the process was stopped, in nanoseconds.
    private(set) var stoppedNanoseconds: UInt64 = 0

    /// Parts of the heap that were not read, one line each.
    var notes: [String] { snapshot.source.notes + (source.hasMore ? [] : [source.noteOfExhaustion]) }

    private let snapshot: HeapSnapshot
    /// Second reader, for descriptions of the objects: the graph takes most of the read budget of the snapshot's
    /// reader.
    private let source: HeapReader
    private let classes: ClassTable
    private let places: HolderPlaces
    private let graph: References
    private let sideTables: Set<UInt32>
    private let threads: [HolderPlaces.Thread]
    private let stackReader: FrameReader
    private let searched: SearchedMemory
    private var targets: [UInt32] = []
    /// Blocks to which variables of images refer, and the variables' addresses. ``HeapSnapshot/rootPlaces`` has only
    /// one place for each block, which need not be in an image.
    private var globals: [UInt32: UInt64] = [:]
    /// For each block to which roots refer, the place of the first root.
    private let rootPlaces: [UInt32: UInt64]

    /// Maximum number of objects whose holders are searched.
    private static let mostDescribed = 1000
    private static let mostHolders = 16
    private static let longestPath = 64
    private static let mostPlaces = 100_000
    private static let pieceBytes: UInt64 = 1 << 20

    /// - Parameters:
    ///   - metadata: class whose objects, including those of subclasses, are searched; nil: none.
    ///   - places: addresses of further objects to describe.
    ///   - waiting: the thread that waits for the answer.
    /// - Throws: ``GraphError`` if the process cannot be stopped; ``ProcessError`` if it cannot be read.
    static func of(
        _ process: GuardedProcess, metadata: UInt64?, places: [UInt64], waiting: HeapSnapshot.Waiting
    ) throws -> LiveObjectSearch {
        try StoppedThreads.search(process, copiesStacks: false) { stopped in
            let start = monotonicNanoseconds()
            let snapshot = try HeapSnapshot.of(process, &stopped, waiting: waiting)
            var search = LiveObjectSearch(
                snapshot, try HeapReader(process: process), HolderPlaces.threads(of: stopped, waiting: waiting))
            search.find(metadata: metadata, places)
            search.describe()
            search.stoppedNanoseconds = monotonicNanoseconds() - start
            return search
        }
    }

    private init(_ snapshot: HeapSnapshot, _ source: HeapReader, _ threads: [HolderPlaces.Thread]) {
        self.snapshot = snapshot
        self.source = source
        self.threads = threads
        classes = ClassTable(snapshot)
        places = HolderPlaces(source, threads: threads)
        graph = References(offsets: snapshot.offsets, targets: snapshot.targets)
        stackReader = FrameReader(source)
        searched = SearchedMemory(source, stackPointers: threads.map(\.stackPointer))
        sideTables = classes.sideTables(graph)
        rootPlaces = Dictionary(
            zip(snapshot.roots.elements, snapshot.rootPlaces.elements), uniquingKeysWith: { first, _ in first })
    }

    private var memory: any MemoryReader { source.memory }

    // MARK: Objects

    private mutating func find(metadata: UInt64?, _ places: [UInt64]) {
        var found = Set(places.map { snapshot.blocks.block(at: $0) })
        found.remove(BlockTable.none)
        if let metadata {
            var isWanted: [Int: Bool] = [:]
            for block in 0..<UInt32(snapshot.blocks.count) {
                guard let number = classes.number(of: block), let known = classes.class(of: block), known.isSwift else {
                    continue
                }
                let wanted = isWanted[number] ?? isSubclass(known.pointer, of: metadata)
                isWanted[number] = wanted
                if wanted, !isDeinitialized(snapshot.blocks.starts[Int(block)]) { found.insert(block) }
            }
        }
        targets = found.sorted { snapshot.blocks.starts[Int($0)] < snapshot.blocks.starts[Int($1)] }
    }

    // The superclass is the second word of a class's metadata.
    private func isSubclass(_ pointer: UInt64, of metadata: UInt64) -> Bool {
        var pointer = pointer
        for _ in 0..<64 {
            if pointer == metadata { return true }
            guard let superclass = memory.record(UInt64.self, at: pointer &+ 8), superclass != 0 else { return false }
            pointer = superclass
        }
        return false
    }

    // Bit 32 of a reference count says that the object's deinit runs or has run. Unowned references keep the memory of
    // such an object. The count is the third word of a side table, if there is one (SwiftShims/RefCount.h).
    private func isDeinitialized(_ start: UInt64) -> Bool {
        guard var count = memory.record(UInt64.self, at: start &+ 8) else { return false }
        if count >> 62 == 3 {
            guard let inTable = memory.record(UInt64.self, at: (count << 3 & 0xffff_ffff_ffff) &+ 16) else {
                return false
            }
            count = inTable
        }
        return count >> 32 & 1 == 1
    }

    private mutating func describe() {
        var frames = stackReader
        for block in targets {
            objects.append(
                LiveObject(
                    className: classes.number(of: block).flatMap { classes.label($0).name },
                    address: Address(snapshot.blocks.starts[Int(block)]),
                    size: Int(clamping: snapshot.blocks.size(of: block)),
                    allocationStack: objects.count < Self.mostDescribed
                        ? frames.stack(snapshot.blocks.stacks[Int(block)]) : []))
        }
        let described = Array(targets.prefix(Self.mostDescribed))
        if described.isEmpty { return }
        addHolders(in: described)
        addVariables(holding: described)
        findGlobals()
        let parents = pathsFromRoots()
        for index in described.indices {
            var holders = objects[index].holders.enumerated().sorted {
                ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset)
            }.map(\.element)
            // Drop holders in other memory, such as libc's heap, if there are better ones: such words are often stale.
            let isNamed = { (holder: Finding.Holder) in
                holder.place != Finding.Holder.Place.memory || holder.block != nil
            }
            if holders.contains(where: isNamed) { holders.removeAll { !isNamed($0) } }
            objects[index].holders = Array(holders.prefix(Self.mostHolders))
            objects[index].path = path(to: described[index], parents)
        }
    }

    private mutating func add(_ holder: Finding.Holder, to index: Int) {
        let isSame = { (other: Finding.Holder) in
            var other = other
            other.count = 1
            return other == holder
        }
        if let same = objects[index].holders.firstIndex(where: isSame) {
            objects[index].holders[same].count += 1
        } else if objects[index].holders.count < Self.mostHolders * 4 {
            objects[index].holders.append(holder)
        }
    }

    // MARK: Holders

    private mutating func addHolders(in described: [UInt32]) {
        let numbers = Dictionary(uniqueKeysWithValues: described.enumerated().map { ($0.element, $0.offset) })
        let isTarget = FlatArray<UInt8>(repeating: 0, count: snapshot.blocks.count)
        for block in described { isTarget[Int(block)] = 1 }
        for block in 0..<UInt32(snapshot.blocks.count) where !sideTables.contains(block) {
            guard graph.targets(of: block).contains(where: { isTarget.base[Int($0)] != 0 }) else { continue }
            forEachReference(in: block) { offset, target in
                guard let index = numbers[target] else { return true }
                if let holder = holder(in: block, at: offset) { add(holder, to: index) }
                return true
            }
        }
    }

    /// The holder of a reference in a block; nil if the reference is weak, unowned or unmanaged, or if the word is
    /// none.
    private func holder(in block: UInt32, at offset: UInt64) -> Finding.Holder? {
        let start = snapshot.blocks.starts[Int(block)]
        if let number = classes.number(of: block), classes.isSwift(block) {
            let words = RemoteWords(memory: memory, start: start, size: snapshot.blocks.size(of: block))
            switch classes.layout(number).kind(at: offset, of: start, words) {
            case .strong, .pointer, .unknown, .erased: break
            case .weak, .unowned, .unmanaged, .number: return nil
            }
        }
        let place = start &+ offset
        return places.block(at: place).map { places.holder(in: $0, at: place) }
    }

    // Calls `body` with the offset and the target of each reference in a block, until it returns false. The first two
    // words of an object are its class and its reference count.
    private func forEachReference(in block: UInt32, _ body: (UInt64, UInt32) -> Bool) {
        let start = snapshot.blocks.starts[Int(block)]
        let header: UInt64 = classes.isSwift(block) ? 16 : 0
        forEachTarget(in: start..<start &+ snapshot.blocks.size(of: block)) { place, target in
            place &- start < header || body(place &- start, target)
        }
    }

    // Calls `body` with the place and the target of each reference in a range, until it returns false. Reads in pieces,
    // because a large block exceeds the limit of one read. Of a large range, reads only pages with memory.
    private func forEachTarget(in range: Range<UInt64>, _ body: (UInt64, UInt32) -> Bool) {
        var next = range.lowerBound
        while next < range.upperBound {
            let wanted = min(range.upperBound - next, 1 << 32)
            let parts = wanted > Self.pieceBytes ? memory.parts(from: next, count: Int(wanted)) : nil
            for part in parts ?? [next..<next + wanted] where !forEachTarget(inPart: part, body) { return }
            next += wanted
        }
    }

    // Returns false if `body` has.
    private func forEachTarget(inPart part: Range<UInt64>, _ body: (UInt64, UInt32) -> Bool) -> Bool {
        var next = part.lowerBound
        while part.upperBound > next, part.upperBound - next >= 8 {
            let wanted = Int(min(Self.pieceBytes, part.upperBound - next) / 8)
            let words = memory.records(UInt64.self, at: next, count: wanted)
            for (index, word) in words.enumerated() {
                let target = snapshot.target(of: word)
                if target != BlockTable.none, !body(next &+ UInt64(index) * 8, target) { return false }
            }
            let end = next &+ UInt64(words.count) * 8
            // Skip an unreadable page.
            next = words.count == wanted ? end : end / 4096 &* 4096 &+ 4096
        }
        return true
    }

    // Adds the globals, local variables and other memory that refer to an object.
    private mutating func addVariables(holding described: [UInt32]) {
        let table = BlockTable()
        table.beginSorted()
        for block in described {
            table.addSorted(
                start: snapshot.blocks.starts[Int(block)], size: snapshot.blocks.size(of: block), stack: 0, family: 0)
        }
        let scan = WordScan(memory, TableTarget(blocks: table), deadline: .max, most: Self.mostPlaces)
        func take(_ name: (UInt64) -> Finding.Holder?) {
            for hit in scan.takeHits() {
                guard let holder = name(hit.place) else { continue }
                add(holder, to: Int(table.block(at: hit.address)))
            }
        }
        for range in searched.images {
            scan.scan(range)
            take { places.global(at: $0) }
        }
        for (range, mapping) in searched.stacks {
            scan.scan(range)
            take { places.stack(at: $0, in: mapping) }
        }
        for (range, mapping) in searched.others {
            scan.scan(range)
            take {
                places.threadLocal(at: $0, in: mapping) ?? Finding.Holder(place: Finding.Holder.Place.memory)
            }
        }
    }

    // MARK: Paths

    private mutating func findGlobals() {
        var found: [UInt32: UInt64] = [:]
        for range in searched.images {
            forEachTarget(in: range) { place, target in
                if found[target] == nil { found[target] = place }
                return true
            }
        }
        globals = found
    }

    /// For each block the block before it on the shortest path from a root; `BlockTable.none`: not reached, or a root
    /// refers to the block. Paths from variables of images are preferred, then those from other memory, and last those
    /// from stacks and registers, whose words may be stale.
    private func pathsFromRoots() -> FlatArray<UInt32> {
        let parents = FlatArray<UInt32>(repeating: BlockTable.none, count: snapshot.blocks.count)
        let isReached = FlatArray<UInt8>(repeating: 0, count: snapshot.blocks.count)
        var groups = [globals.keys.sorted(), [], []]
        for (index, root) in snapshot.roots.elements.enumerated() where globals[root] == nil {
            groups[isOnStack(snapshot.rootPlaces[index]) ? 2 : 1].append(root)
        }
        for group in groups {
            let pending = FlatArray<UInt32>()
            for root in group where isReached[Int(root)] == 0 {
                isReached[Int(root)] = 1
                pending.append(root)
            }
            var next = 0
            while next < pending.count {
                let block = pending.base[next]
                next += 1
                if sideTables.contains(block) { continue }
                for target in graph.targets(of: block) where isReached.base[Int(target)] == 0 {
                    isReached.base[Int(target)] = 1
                    parents.base[Int(target)] = block
                    pending.append(target)
                }
            }
        }
        return parents
    }

    // Place 0 is a register.
    private func isOnStack(_ place: UInt64) -> Bool {
        place == 0
            || mapping(at: place).map { mapping in
                threads.contains { $0.stackPointer >= mapping.start && $0.stackPointer < mapping.end }
            } ?? false
    }

    private func mapping(at place: UInt64) -> Mapping? {
        let behind = source.mappings.partitionPoint { $0.start > place }
        return behind > 0 ? source.mappings[behind - 1] : nil
    }

    private func path(to target: UInt32, _ parents: FlatArray<UInt32>) -> [Finding.Holder] {
        var blocks = [target]
        while blocks.count < Self.longestPath, let last = blocks.last, parents[Int(last)] != BlockTable.none {
            blocks.append(parents[Int(last)])
        }
        guard let first = blocks.last,
            let root = globals[first] ?? rootPlaces[first],
            let variable = variable(at: root)
        else { return [] }
        var path = [variable]
        for index in blocks.indices.dropFirst().reversed() {
            guard let step = reference(from: blocks[index], to: blocks[index - 1]) else { return [] }
            path.append(step)
        }
        return path
    }

    private func variable(at place: UInt64) -> Finding.Holder? {
        if place == 0 { return nil }
        if let global = places.global(at: place) { return global }
        guard let mapping = mapping(at: place) else { return nil }
        return isOnStack(place)
            ? places.stack(at: place, in: mapping)
            : places.threadLocal(at: place, in: mapping) ?? Finding.Holder(place: Finding.Holder.Place.memory)
    }

    private func reference(from block: UInt32, to next: UInt32) -> Finding.Holder? {
        var found: Finding.Holder?
        forEachReference(in: block) { offset, target in
            if target == next { found = holder(in: block, at: offset) }
            return found == nil
        }
        return found
    }
}
