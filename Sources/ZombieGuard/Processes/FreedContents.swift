// What the runtime writes into freed blocks, and where it differs: read from outside.

import CZombie

/// What the contents of one freed block must be: the common fill, or what a dead object of a known class is made of.
struct FreedContents {
    /// The first two words; nil: the common fill.
    private var head: (UInt64, UInt64)?
    /// The third word, and the difference from each to the next.
    private var word = FreedContents.fill
    private var step: UInt64 = 0

    /// What stands everywhere, where there is no head.
    private var usual = UInt8(ZG_FILL_FREED)

    private static let fill = UInt64(ZG_FILL_FREED) &* 0x0101_0101_0101_0101

    /// Contents of the slot with this number. See trap.h and zombie.h of the runtime.
    init(_ block: zg_block, slot: UInt64, of sizeClass: HeapLayout.SizeClass, _ traps: HeapLayout.Traps) {
        guard block.isZombie else { return }
        let number = slot & traps.slotMask
        head = (sizeClass.trapISA &+ number << traps.isaShift, Self.fill)
        guard block.isSwiftZombie else { return }
        head?.1 = sizeClass.trapSide &+ number << traps.sideShift
        let byte = (slot &* sizeClass.slotSize) & traps.byteMask
        step = 1 << traps.wordShift
        word = sizeClass.trapWord &+ (byte >> 3) << traps.wordShift &+ 2 &* step
    }

    /// Contents of the large block with this number.
    init(_ block: zg_block, span: UInt64, _ traps: HeapLayout.Traps) {
        guard block.isZombie else { return }
        let number = span & traps.slotMask
        head = (
            traps.spanISA &+ number << traps.isaShift,
            block.isSwiftZombie ? traps.spanSide &+ number << traps.sideShift : Self.fill
        )
    }

    /// Contents of the block at this page of the windows.
    init(_ block: zg_block, page: UInt64, _ windows: HeapLayout.Windows, _ traps: HeapLayout.Traps) {
        guard block.isZombie else { return }
        let number = page & traps.slotMask
        head = (
            windows.trapISA &+ number << traps.isaShift,
            block.isSwiftZombie ? windows.trapSide &+ number << traps.sideShift : Self.fill
        )
    }

    /// What surrounds a live block with pages of its own.
    static let gap = {
        var contents = FreedContents()
        contents.usual = UInt8(ZG_FILL_GAP)
        return contents
    }()

    private init() {}

    /// The byte that must stand at this distance from the block's start.
    func byte(at offset: UInt64) -> UInt8 {
        guard head != nil else { return usual }
        return UInt8(truncatingIfNeeded: word(at: offset & ~7) >> (offset % 8 * 8))
    }

    // The eight bytes of a block with a head, at a multiple of eight.
    private func word(at offset: UInt64) -> UInt64 {
        let index = offset / 8
        return index == 0 ? head?.0 ?? word : index == 1 ? head?.1 ?? word : word &+ (index - 2) &* step
    }

    /// First and last byte that differ, counted from the slice's start; nil where none does. `offset` is the distance of the
    /// slice from the block's start.
    func changes(in contents: ArraySlice<UInt8>, from offset: UInt64 = 0) -> ClosedRange<Int>? {
        // The common fill is looked for in one go; most blocks are done then.
        if head == nil || (offset >= 16 && step == 0) {
            guard let first = contents.withUnsafeBytes({ $0.firstIndex { $0 != usual } }),
                let last = contents.lastIndex(where: { $0 != usual })
            else { return nil }
            return first...(last - contents.startIndex)
        }
        return contents.withUnsafeBytes { bytes in
            var range: ClosedRange<Int>?
            var index = 0
            while index < bytes.count {
                // Whole words that are as they must be are passed over at once.
                let place = offset &+ UInt64(index)
                if place % 8 == 0, index + 8 <= bytes.count,
                    bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) == word(at: place)
                {
                    index += 8
                    continue
                }
                if bytes[index] != byte(at: place) { range = (range?.lowerBound ?? index)...index }
                index += 1
            }
            return range
        }
    }
}
