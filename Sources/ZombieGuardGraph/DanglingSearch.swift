// Finds live memory that points to freed blocks, before the program follows the pointers.

import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// The references to freed blocks in a process or a core file.
package struct DanglingSearch {
    /// References of one kind: of the same property of the same class, or of one variable.
    package struct Reference {
        /// One of the references.
        package var holder: Finding.Holder
        package var count: Int
        /// The freed block to which one of the references points.
        package var target: Finding.Block
        /// Stacks of the allocation and the free of that block.
        package var stacks: Finding.Stacks
    }

    /// References from properties, elements and captured values, then from global and thread-local variables; the most
    /// frequent first.
    package private(set) var references: [Reference] = []
    /// Number of other words that equal the address of a freed block: in blocks without a known class, on stacks, in
    /// memory that the program has mapped. Many are stale words, which the program never uses as pointers.
    package private(set) var words = 0
    /// Number of freed blocks whose addresses cannot be reused yet.
    package private(set) var freedBlocks = 0
    /// Time for which the process was stopped, in nanoseconds; 0 for a core file.
    package private(set) var stoppedNanoseconds: UInt64 = 0
    /// Parts that were not searched, one line each.
    package private(set) var notes: [String] = []
    package let source: HeapReader
    private let isStrict: Bool

    /// Maximum number of words that are examined in detail. A program with more has one bug that causes most of them.
    private static let mostPlaces = 200_000

    /// Searches a running process, which is stopped meanwhile.
    ///
    /// - Throws: ``GraphError`` if the process cannot be stopped; ``ProcessError`` if it cannot be read.
    package static func of(_ process: GuardedProcess) throws -> DanglingSearch {
        try of(process, isStrict: false, waiting: nil) { $1 }
    }

    /// Searches a process for references to some of its freed blocks.
    ///
    /// - Parameters:
    ///   - isStrict: leave out words of elements that may have been removed from a dictionary, set or array: storage
    ///     does not clear such words.
    ///   - waiting: the thread that waits for the end of the search.
    ///   - choose: selects the freed blocks to which references are searched.
    static func of(
        _ process: GuardedProcess, isStrict: Bool, waiting: HeapSnapshot.Waiting?,
        choose: (HeapReader, BlockTable) -> BlockTable
    ) throws -> DanglingSearch {
        try StoppedThreads.search(process) { stopped in
            let start = monotonicNanoseconds()
            var search = DanglingSearch(
                try HeapReader(process: process),
                threads: HolderPlaces.threads(of: stopped, waiting: waiting), isStrict: isStrict, choose)
            search.stoppedNanoseconds = monotonicNanoseconds() - start
            return search
        }
    }

    /// Searches a core file.
    ///
    /// - Throws: ``GraphError`` if the contents of live blocks are missing; ``CoreError`` if there is no heap.
    package static func of(_ core: CoreFile) throws -> DanglingSearch {
        let source = try HeapReader(core: core)
        try HeapSnapshot.requireContents(of: core, source)
        return DanglingSearch(
            source,
            threads: core.threads.map {
                HolderPlaces.Thread(
                    id: Int32(truncatingIfNeeded: $0.id), number: 0, registers: $0.registers,
                    known: .max)
            })
    }

    private init(
        _ source: HeapReader, threads: [HolderPlaces.Thread], isStrict: Bool = false,
        _ choose: (HeapReader, BlockTable) -> BlockTable = { $1 }
    ) {
        self.source = source
        self.isStrict = isStrict
        let freed = choose(source, HeapSnapshot.freedBlocks(of: source))
        freedBlocks = freed.count
        if freed.count == 0 { return }
        let scan = WordScan(source.memory, TableTarget(blocks: freed), deadline: .max, most: Self.mostPlaces)
        let places = HolderPlaces(source, threads: threads)
        let memory = SearchedMemory(source, stackPointers: threads.map(\.stackPointer))
        var groups = Groups()
        for range in memory.images {
            scan.scan(range)
            for hit in scan.takeHits() { add(places.global(at: hit.place), hit.address, &groups) }
        }
        for (range, mapping) in memory.stacks {
            scan.scan(range)
            for hit in scan.takeHits() { add(places.stack(at: hit.place, in: mapping), hit.address, &groups) }
        }
        for (range, mapping) in memory.others {
            scan.scan(range)
            for hit in scan.takeHits() { add(places.threadLocal(at: hit.place, in: mapping), hit.address, &groups) }
        }
        for range in memory.heap { scan.scan(range) }
        let before = scan.found
        let hits = scan.takeHits()
        var record: BlockRecord?
        for hit in hits {
            // Reuse the last record, because the words of a block follow one another.
            if !(record?.contains(hit.place) ?? false) { record = places.block(at: hit.place) }
            if let record, !isStrict || !mayBeRemoved(record, at: hit.place, places) {
                add(places.holder(in: record, at: hit.place), hit.address, &groups)
            }
        }
        if hits.count == Self.mostPlaces {
            notes.append("only \(Self.mostPlaces) of \(before) words in blocks were looked at in detail")
        }
        references = groups.references(places)
    }

    // Whether a word may be that of an element that has been removed. An array has its number of elements behind its
    // header of 16 bytes, and the elements, of 8 bytes or more each, from byte 32 on.
    private func mayBeRemoved(_ record: BlockRecord, at place: UInt64, _ places: HolderPlaces) -> Bool {
        let holder = places.holder(in: record, at: place)
        guard holder.place == Finding.Holder.Place.element else { return false }
        guard holder.className?.hasPrefix("Swift._ContiguousArrayStorage<") ?? false,
            let count = source.memory.record(UInt64.self, at: record.start &+ 16)
        else { return true }
        let word = (place &- record.start) / 8
        return word >= 4 && word - 4 >= count
    }

    private mutating func add(_ holder: Finding.Holder?, _ address: UInt64, _ groups: inout Groups) {
        typealias Place = Finding.Holder.Place
        // A variable of the language's own libraries is no reference that the program follows.
        guard let holder,
            [Place.field, Place.element, Place.capture, Place.global, Place.threadLocal].contains(holder.place),
            holder.isTyped || !(holder.frame?.isLibraryCode ?? true)
        else {
            // No holder: the word is in a freed block, or between blocks, and does not count.
            words += holder == nil ? 0 : 1
            return
        }
        groups.add(holder, address)
    }

    /// Equal references, counted.
    private struct Groups {
        private struct Key: Hashable {
            var place: String
            var className: String?
            var member: String?
            var offset: Address?
            var module: String?
            var thread: Finding.Thread?
        }

        private var numbers: [Key: Int] = [:]
        private var all: [(holder: Finding.Holder, count: Int, address: UInt64)] = []

        mutating func add(_ holder: Finding.Holder, _ address: UInt64) {
            let key = Key(
                place: holder.place, className: holder.className, member: holder.member, offset: holder.frame?.offset,
                module: holder.frame?.module, thread: holder.thread)
            if let number = numbers[key] {
                all[number].count += 1
            } else {
                numbers[key] = all.count
                all.append((holder, 1, address))
            }
        }

        func references(_ places: HolderPlaces) -> [Reference] {
            all.enumerated().sorted { first, second in
                (first.element.holder.isTyped ? 0 : 1, second.element.count, first.offset)
                    < (second.element.holder.isTyped ? 0 : 1, first.element.count, second.offset)
            }.map { _, each in
                let (target, stacks) = places.freedBlock(at: each.address)
                return Reference(holder: each.holder, count: each.count, target: target, stacks: stacks)
            }
        }
    }
}
