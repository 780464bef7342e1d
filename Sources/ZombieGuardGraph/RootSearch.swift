// Finds a path from a root to a block, while the process waits after a finding.

import CZombie
import ZombieGuard

/// A breadth-first search backwards from a block: the blocks that point to it, the blocks that point to those, and so
/// on. Each level searches images and stacks for a root, and if there is none, the heap for blocks.
struct RootSearch {
    /// A block on a path, and the place in it that refers to the block of node `next`.
    private struct Node {
        var block: Range<UInt64>
        var holder: Finding.Holder?
        var next: Int?
    }

    /// The blocks of some nodes, sorted by address.
    private struct Frontier: PointerTarget {
        let nodes: [(block: Range<UInt64>, node: Int)]
        let lowest: UInt64
        let highest: UInt64

        init(_ nodes: [Node], _ numbers: Range<Int>) {
            self.nodes = numbers.map { (nodes[$0].block, $0) }.sorted { $0.block.lowerBound < $1.block.lowerBound }
            lowest = self.nodes.first?.block.lowerBound ?? 0
            highest = self.nodes.last?.block.upperBound ?? 0
        }

        @inline(__always)
        func contains(_ address: UInt64) -> Bool {
            address &- lowest < highest &- lowest && node(at: address) != nil
        }

        func node(at address: UInt64) -> Int? {
            let behind = nodes.partitionPoint { $0.block.lowerBound > address }
            guard behind > 0, nodes[behind - 1].block.contains(address) else { return nil }
            return nodes[behind - 1].node
        }
    }

    private static let mostLevels = 8
    /// Maximum number of blocks in one level.
    private static let mostOfLevel = 64
    private static let mostWords = 512

    private let source: HeapReader
    private let memory: SearchedMemory
    private let places: HolderPlaces
    private let stacks: any MemoryReader
    private let deadline: UInt64
    private var nodes: [Node] = []

    init(
        _ memory: SearchedMemory, _ source: HeapReader, _ places: HolderPlaces, stacks: any MemoryReader,
        deadline: UInt64
    ) {
        self.source = source
        self.memory = memory
        self.places = places
        self.stacks = stacks
        self.deadline = deadline
    }

    /// The places that lead to a block, the nearest first and a root last; empty if no root was found in time.
    mutating func path(to block: Range<UInt64>) -> [Finding.Holder] {
        guard !block.isEmpty else { return [] }
        nodes = [Node(block: block)]
        var level = 0..<1
        for _ in 0..<Self.mostLevels {
            let frontier = Frontier(nodes, level)
            if let root = root(of: frontier) { return path(from: root.node, root.holder) }
            let first = nodes.count
            if !addHolders(of: frontier) { return [] }
            if nodes.count == first { break }
            level = first..<nodes.count
        }
        // Last, search the remaining memory for roots: thread-local variables, and memory that the program has mapped.
        let all = Frontier(nodes, nodes.indices)
        for (range, mapping) in memory.others {
            if let hit = hits(of: all, in: [range], source.memory)?.first, let node = all.node(at: hit.address) {
                let holder = places.threadLocal(at: hit.place, in: mapping)
                return path(from: node, holder ?? Finding.Holder(place: Finding.Holder.Place.memory))
            }
        }
        return []
    }

    private func path(from node: Int, _ root: Finding.Holder) -> [Finding.Holder] {
        var path = [root]
        var at = node
        while let next = nodes[at].next, let holder = nodes[at].holder {
            path.append(holder)
            at = next
        }
        return path.reversed()
    }

    // The words that point to a frontier; nil if the time is up.
    private func hits(of frontier: Frontier, in ranges: [Range<UInt64>], _ memory: any MemoryReader)
        -> [WordScan<Frontier>.Hit]?
    {
        let scan = WordScan(memory, frontier, deadline: deadline, most: Self.mostWords)
        for range in ranges { scan.scan(range) }
        return scan.isCut ? nil : scan.hits
    }

    private func root(of frontier: Frontier) -> (node: Int, holder: Finding.Holder)? {
        for range in memory.images {
            for hit in hits(of: frontier, in: [range], source.memory) ?? [] {
                if let node = frontier.node(at: hit.address), let holder = places.global(at: hit.place) {
                    return (node, holder)
                }
            }
        }
        for (range, mapping) in memory.stacks {
            for hit in hits(of: frontier, in: [range], stacks) ?? [] {
                if let node = frontier.node(at: hit.address), let holder = places.stack(at: hit.place, in: mapping) {
                    return (node, holder)
                }
            }
        }
        return nil
    }

    // Adds a node for each new block that points to a frontier. False: the time is up.
    private mutating func addHolders(of frontier: Frontier) -> Bool {
        guard let found = hits(of: frontier, in: memory.heap, source.memory) else { return false }
        let first = nodes.count
        for hit in found where nodes.count - first < Self.mostOfLevel {
            guard let next = frontier.node(at: hit.address), let record = places.block(at: hit.place),
                !nodes.contains(where: { $0.block.lowerBound == record.start })
            else { continue }
            nodes.append(
                Node(
                    block: record.range,
                    holder: places.holder(in: record, at: hit.place), next: next))
        }
        return true
    }
}
