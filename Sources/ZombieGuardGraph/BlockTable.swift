// The live blocks of a heap, in flat arrays, and the arithmetic that finds the block at an address.

import Glibc

/// Live blocks by number. Blocks of an area with slots of one size are found by a division and a bitmap with ranks, all
/// others by binary search. A block costs 20 bytes, and a slot 1.5 bits.
package final class BlockTable {
    /// Number of no block.
    package static let none = UInt32.max

    /// An area of address space whose slots have one size and hold at most one block each.
    private struct Area {
        var base: UInt64
        var end: UInt64
        /// ceil(2^64 / slot size): see zg_slab.
        var reciprocal: UInt64
        /// A bit for each slot: whether it holds a live block.
        var bits: FlatArray<UInt64>
        /// Number of the first block in each group of 64 slots.
        var ranks: FlatArray<UInt32>
    }

    package let starts = FlatArray<UInt64>()
    /// Requested sizes in bytes; ``largeSizes`` has those of 4 GiB and more.
    private let sizes = FlatArray<UInt32>()
    /// Identifier of the allocation stack in the runtime's depot.
    package let stacks = FlatArray<UInt32>()
    /// Bits 0 to 27: number of the first word in ``FirstWords``, see ``firstWord(of:)``; 28 to 30: ``family(of:)``.
    private let shapes = FlatArray<UInt32>()
    private var largeSizes: [UInt32: UInt64] = [:]

    /// An area as ``block(at:)`` reads it: with plain pointers, which need no reference counting.
    private struct Place {
        var base: UInt64
        var end: UInt64
        var reciprocal: UInt64
        var bits: UnsafeMutablePointer<UInt64>
        var ranks: UnsafeMutablePointer<UInt32>
        var words: Int
    }

    private var areas: [Area] = []
    /// Bits and ranks of the area that was begun last.
    private var bits = FlatArray<UInt64>()
    private var ranks = FlatArray<UInt32>()
    /// Sorted by address.
    private let places = FlatArray<Place>()
    /// Adjacent regions of 2^shift bytes each, and for each region the index of its area in `places`, or -1.
    private var regions = (base: UInt64(0), shift: UInt64(0))
    private let areaOfRegion = FlatArray<Int32>()
    /// Address range of the blocks outside of all areas, which are the last ones in the table.
    private var sortedRange: Range<UInt64> = 0..<0
    private var firstSorted = 0
    private var lowest = UInt64.max
    private var highest: UInt64 = 0

    private static let shapeBits: UInt32 = 0x0fff_ffff

    package init() {}

    package var count: Int { starts.count }

    // MARK: Filling the table, areas first

    /// Begins an area. Its blocks must be added next, in the order of their slots.
    package func beginArea(base: UInt64, slotSize: UInt64, slotCount: Int) {
        precondition(slotSize > 1 && places.count == 0)
        let area = Area(
            base: base, end: base &+ slotSize &* UInt64(slotCount), reciprocal: UInt64.max / slotSize &+ 1,
            bits: FlatArray(), ranks: FlatArray())
        areas.append(area)
        bits = area.bits
        ranks = area.ranks
        widen(area.base..<max(area.base, area.end))
    }

    /// Adds the block in a slot of the area that was begun last.
    package func add(slot: Int, start: UInt64, size: UInt64, stack: UInt32, family: UInt32) {
        let word = slot >> 6
        while bits.count <= word {
            bits.append(0)
            ranks.append(UInt32(count))
        }
        bits.base[word] |= 1 << UInt64(slot & 63)
        append(start: start, size: size, stack: stack, family: family)
    }

    /// Begins the part of the table whose blocks are sorted by address. No area may follow.
    package func beginSorted() {
        firstSorted = count
        for area in areas.sorted(by: { $0.base < $1.base }) {
            places.append(
                Place(
                    base: area.base, end: area.end, reciprocal: area.reciprocal, bits: area.bits.base,
                    ranks: area.ranks.base, words: area.bits.count))
        }
    }

    /// Adds a block, which must be behind all blocks that were added since ``beginSorted()``.
    package func addSorted(start: UInt64, size: UInt64, stack: UInt32, family: UInt32) {
        let end = start &+ max(size, 1)
        sortedRange = sortedRange.isEmpty ? start..<end : sortedRange.lowerBound..<max(end, sortedRange.upperBound)
        widen(start..<end)
        append(start: start, size: size, stack: stack, family: family)
    }

    private func append(start: UInt64, size: UInt64, stack: UInt32, family: UInt32) {
        if size >= UInt64(UInt32.max) { largeSizes[UInt32(count)] = size }
        starts.append(start)
        sizes.append(UInt32(clamping: size))
        stacks.append(stack)
        shapes.append(family << 28 | Self.shapeBits)
    }

    private func widen(_ range: Range<UInt64>) {
        lowest = min(lowest, range.lowerBound)
        highest = max(highest, range.upperBound)
    }

    /// Speeds up the lookup of areas that begin at multiples of 2^`shift` after `base`: a shift replaces the search.
    package func index(regionsAt base: UInt64, shift: UInt64, count: Int) {
        guard shift > 0, shift < 63 else { return }
        regions = (base, shift)
        for region in 0..<count {
            let start = base &+ UInt64(region) << shift
            // The first slot of a region may lie behind its beginning.
            let found = (0..<places.count).first { places[$0].base &- start < 1 << shift }
            areaOfRegion.append(Int32(found ?? -1))
        }
    }

    // MARK: Properties of a block

    @inline(__always)
    package func size(of block: UInt32) -> UInt64 {
        let size = sizes.base[Int(block)]
        return size == .max ? largeSizes[block] ?? UInt64(size) : UInt64(size)
    }

    package func family(of block: UInt32) -> UInt32 { shapes.base[Int(block)] >> 28 & 7 }

    /// Number of the block's first word in ``FirstWords``; nil if that word is no candidate for a class pointer.
    package func firstWord(of block: UInt32) -> Int? {
        let shape = shapes.base[Int(block)] & Self.shapeBits
        return shape == Self.shapeBits ? nil : Int(shape)
    }

    package func setFirstWord(_ number: UInt32, of block: UInt32) {
        precondition(number < Self.shapeBits)
        shapes.base[Int(block)] = shapes.base[Int(block)] & ~Self.shapeBits | number
    }

    /// A table of the blocks whose start and allocation stack fulfil a condition.
    func filter(_ isWanted: (_ start: UInt64, _ stack: UInt32) -> Bool) -> BlockTable {
        let numbers = (0..<UInt32(count)).filter { isWanted(starts.base[Int($0)], stacks.base[Int($0)]) }
        let table = BlockTable()
        table.beginSorted()
        for block in numbers.sorted(by: { starts.base[Int($0)] < starts.base[Int($1)] }) {
            table.addSorted(
                start: starts.base[Int(block)], size: size(of: block), stack: stacks.base[Int(block)],
                family: family(of: block))
        }
        return table
    }

    // MARK: Which block

    /// The live block that contains an address, or in whose slot it is; ``none`` if there is none.
    @inline(__always)
    package func block(at address: UInt64) -> UInt32 {
        if address &- lowest >= highest &- lowest { return Self.none }
        return found(at: address)
    }

    private func found(at address: UInt64) -> UInt32 {
        if address &- sortedRange.lowerBound < sortedRange.upperBound &- sortedRange.lowerBound {
            let block = sortedBlock(at: address)
            if block != Self.none { return block }
        }
        let region = Int(truncatingIfNeeded: (address &- regions.base) >> regions.shift)
        let number = region >= 0 && region < areaOfRegion.count ? Int(areaOfRegion.base[region]) : area(before: address)
        if number < 0 { return Self.none }
        let place = places.base[number]
        if address < place.base || address >= place.end { return Self.none }
        let slot = Int((address &- place.base).multipliedFullWidth(by: place.reciprocal).high)
        let word = slot >> 6
        if word >= place.words { return Self.none }
        let bits = place.bits[word]
        let bit: UInt64 = 1 << UInt64(slot & 63)
        if bits & bit == 0 { return Self.none }
        return place.ranks[word] &+ UInt32((bits & (bit &- 1)).nonzeroBitCount)
    }

    // Number of the last area that does not begin behind an address; -1 if there is none.
    private func area(before address: UInt64) -> Int {
        var low = 0
        var high = places.count
        while low < high {
            let middle = (low &+ high) / 2
            if places.base[middle].base > address { high = middle } else { low = middle &+ 1 }
        }
        return low &- 1
    }

    private func sortedBlock(at address: UInt64) -> UInt32 {
        var low = firstSorted
        var high = count
        while low < high {
            let middle = (low &+ high) / 2
            if starts.base[middle] > address { high = middle } else { low = middle &+ 1 }
        }
        if low == firstSorted { return Self.none }
        let block = UInt32(low &- 1)
        return address &- starts.base[low &- 1] < max(size(of: block), 1) ? block : Self.none
    }
}
