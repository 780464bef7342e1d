// Finds the live memory that still points to a freed block, while the process waits after the finding.

import CUnwind
import CZombie
import ZombieGuard

/// The places of live memory that hold the address of a block. Registers are left out.
struct HolderSearch {
    private(set) var holders: [Finding.Holder] = []
    /// Whether the time was up before all memory was searched.
    private(set) var isCut = false

    /// Maximum number of places that are described. Further places are likely of the same kinds.
    private static let mostPlaces = 512
    private static let mostHolders = 32

    private let source: HeapReader
    private let scan: WordScan<BlockTarget>
    private let places: HolderPlaces
    private var counts: [Key: Int] = [:]
    private var nanoseconds: UInt64 = 0

    /// Equal for holders that a report shows as one.
    private struct Key: Hashable {
        var holder: Finding.Holder

        init(_ holder: Finding.Holder) {
            self.holder = holder
            self.holder.block?.start = Address(0)
        }
    }

    /// Searches a process, of which one thread waits and others may run.
    ///
    /// - Parameters:
    ///   - target: address range of the block.
    ///   - stacks: the memory with copies of the stacks, as they were when the registers were copied.
    ///   - excluded: memory with copies of the registers at the access.
    ///   - deadline: time of ``monotonicNanoseconds()`` at which the search ends.
    init(
        _ source: HeapReader, target: Range<UInt64>, threads: [HolderPlaces.Thread], stacks: any MemoryReader,
        excluded: Range<UInt64>, deadline: UInt64
    ) {
        self.source = source
        let start = monotonicNanoseconds()
        let block = BlockTarget(start: target.lowerBound, size: UInt64(target.count))
        scan = WordScan(source.memory, block, deadline: deadline, most: Self.mostPlaces)
        let stackScan = WordScan(stacks, block, deadline: deadline, most: Self.mostPlaces)
        places = HolderPlaces(source, threads: threads, stacks: stacks)
        let memory = SearchedMemory(source, stackPointers: threads.map(\.stackPointer), excluded: excluded)
        // Search the smallest and most informative memory first.
        for range in memory.images {
            scan.scan(range)
            for hit in scan.takeHits() { add(places.global(at: hit.place)) }
        }
        for (range, mapping) in memory.stacks {
            stackScan.scan(range)
            for hit in stackScan.takeHits() { add(places.stack(at: hit.place, in: mapping)) }
        }
        for range in memory.heap { scan.scan(range) }
        for hit in scan.takeHits() {
            if let record = places.block(at: hit.place) { add(places.holder(in: record, at: hit.place)) }
        }
        for (range, mapping) in memory.others {
            scan.scan(range)
            for hit in scan.takeHits() {
                add(
                    places.threadLocal(at: hit.place, in: mapping)
                        ?? Finding.Holder(place: Finding.Holder.Place.memory))
            }
        }
        isCut = scan.isCut || stackScan.isCut
        order()
        nanoseconds = monotonicNanoseconds() - start
    }

    /// Minimum time limit of the search for a path. In large heaps, the limit is the time that the search for holders
    /// took.
    private static let leastPathNanoseconds: UInt64 = 50_000_000

    /// Finds the path from a root to the first holder. Skips local variables of the thread that used the block: reports
    /// leave out some of them.
    ///
    /// - Parameters:
    ///   - source: a new reader of the same process, because the search has spent most of its read budget.
    ///   - stacks, excluded, deadline: as for the search.
    mutating func addPath(
        _ source: HeapReader, threads: [HolderPlaces.Thread], stacks: any MemoryReader, excluded: Range<UInt64>,
        deadline: UInt64
    ) {
        guard !isCut, let first = holders.firstIndex(where: { $0.depth == nil }), let block = holders[first].block
        else { return }
        var search = RootSearch(
            SearchedMemory(source, stackPointers: threads.map(\.stackPointer), excluded: excluded), source,
            HolderPlaces(source, threads: threads, stacks: stacks), stacks: stacks,
            deadline: min(deadline, monotonicNanoseconds() + max(Self.leastPathNanoseconds, nanoseconds)))
        let (end, overflows) = block.start.rawValue.addingReportingOverflow(block.size)
        holders[first].path = search.path(to: block.start.rawValue..<(overflows ? .max : end))
    }

    private mutating func add(_ holder: Finding.Holder?) {
        guard let holder else { return }
        let key = Key(holder)
        if let index = counts[key] {
            holders[index].count += 1
        } else if holders.count < Self.mostPlaces {
            counts[key] = holders.count
            holders.append(holder)
        }
    }

    private mutating func order() {
        holders = holders.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }
            .prefix(Self.mostHolders).map(\.element)
    }
}

extension Finding.Holder {
    /// Sort key: typed references first, then places with a name.
    var rank: Int {
        if isTyped, place != Place.memory { return 0 }
        switch place {
        case Place.memory where isTyped: return 1
        case Place.global: return 2
        case Place.stack: return 3
        case Place.threadLocal: return 4
        default: return block == nil ? 6 : 5
        }
    }
}
