// Computes the expected contents of freed blocks (fill and trap words) and finds bytes that differ.

import CZombie

/// Expected contents of a freed block: the fill, or the trap words of a zombie.
struct ExpectedContents {
    /// Words 0 and 1 of a zombie; nil: the block holds the fill only.
    private var head: (UInt64, UInt64)?
    /// Word 2 of a zombie, and the difference between successive words behind it.
    private var word = ExpectedContents.fill
    private var step: UInt64 = 0

    /// Fill byte of a block without trap words, or of a red zone.
    private var usual = UInt8(ZG_FILL_FREED)

    private static let fill = UInt64(ZG_FILL_FREED) &* 0x0101_0101_0101_0101

    /// Expected contents of a slot of a size class, by slot number. See trap.h and zombie.h of the runtime.
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

    /// Expected contents of a large block, by span number.
    init(_ block: zg_block, span: UInt64, _ traps: HeapLayout.Traps) {
        guard block.isZombie else { return }
        let number = span & traps.slotMask
        head = (
            traps.spanISA &+ number << traps.isaShift,
            block.isSwiftZombie ? traps.spanSide &+ number << traps.sideShift : Self.fill
        )
    }

    /// Expected contents of a block in a window, by the number of its page.
    init(_ block: zg_block, page: UInt64, _ windows: HeapLayout.Windows, _ traps: HeapLayout.Traps) {
        guard block.isZombie else { return }
        let number = page & traps.slotMask
        head = (
            windows.trapISA &+ number << traps.isaShift,
            block.isSwiftZombie ? windows.trapSide &+ number << traps.sideShift : Self.fill
        )
    }

    /// Red zone of a live isolated block.
    static let gap = {
        var contents = ExpectedContents()
        contents.usual = UInt8(ZG_FILL_GAP)
        return contents
    }()

    private init() {}

    /// Expected byte at an offset from the block's start.
    func byte(at offset: UInt64) -> UInt8 {
        guard head != nil else { return usual }
        return UInt8(truncatingIfNeeded: word(at: offset & ~7) >> (offset % 8 * 8))
    }

    // Expected word of a zombie; `offset` is a multiple of 8.
    private func word(at offset: UInt64) -> UInt64 {
        let index = offset / 8
        return index == 0 ? head?.0 ?? word : index == 1 ? head?.1 ?? word : word &+ (index - 2) &* step
    }

    /// First and last differing byte, relative to the slice; nil if all bytes match. `offset` is the slice's distance
    /// from the block's start.
    func changes(in contents: ArraySlice<UInt8>, from offset: UInt64 = 0) -> ClosedRange<Int>? {
        // Most blocks hold only the fill: compare with one byte.
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
                // Fast path: skip whole words that match.
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
