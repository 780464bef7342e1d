// Tests of the look-up of blocks by address.

import Testing

@testable import ZombieGuardGraph

@Suite struct BlockTableTests {
    private func table() -> BlockTable {
        let table = BlockTable()
        table.beginArea(base: 0x10000, slotSize: 48, slotCount: 1000)
        for slot in [0, 1, 63, 64, 65, 500] {
            table.add(slot: slot, start: 0x10000 + UInt64(slot) * 48, size: 40, stack: UInt32(slot), family: 1)
        }
        table.beginArea(base: 0x8000, slotSize: 4096, slotCount: 4)
        table.add(slot: 2, start: 0x8000 + 2 * 4096 + 100, size: 10, stack: 7, family: 2)
        table.beginSorted()
        table.addSorted(start: 0x100000, size: 5000, stack: 8, family: 0)
        table.addSorted(start: 0x200000, size: 0x1_8000_0000, stack: 9, family: 0)
        return table
    }

    @Test func findsSlotsByArithmetic() {
        let table = table()
        for (number, slot) in [0, 1, 63, 64, 65, 500].enumerated() {
            let start = 0x10000 + UInt64(slot) * 48
            for offset: UInt64 in [0, 1, 39, 47] { #expect(table.block(at: start + offset) == UInt32(number)) }
        }
        for slot: UInt64 in [2, 62, 66, 499, 501, 999] {
            #expect(table.block(at: 0x10000 + slot * 48) == BlockTable.none)
        }
    }

    @Test func findsEveryAddressOfEverySlotSize() {
        for size: UInt64 in [16, 32, 48, 80, 112, 160, 224, 1280, 1792, 28672] {
            let table = BlockTable()
            table.beginArea(base: 0x7000_0000_0000, slotSize: size, slotCount: 300)
            for slot in 0..<300 {
                table.add(slot: slot, start: 0x7000_0000_0000 + UInt64(slot) * size, size: size, stack: 0, family: 0)
            }
            table.beginSorted()
            for slot in 0..<300 {
                let start = 0x7000_0000_0000 + UInt64(slot) * size
                #expect(table.block(at: start) == UInt32(slot))
                #expect(table.block(at: start + size - 1) == UInt32(slot))
            }
            #expect(table.block(at: 0x7000_0000_0000 + 300 * size) == BlockTable.none)
        }
    }

    @Test func findsAreasInAnyOrder() {
        let table = table()
        #expect(table.block(at: 0x8000 + 2 * 4096 + 104) == 6)
        #expect(table.block(at: 0x8000 + 4096) == BlockTable.none)
        #expect(table.block(at: 0) == BlockTable.none)
        #expect(table.block(at: .max) == BlockTable.none)
    }

    @Test func findsIndexedRegions() {
        let table = BlockTable()
        // Three regions of 1 MiB: the second has no area, and the third begins with a hole.
        table.beginArea(base: 0x1000_0000, slotSize: 16, slotCount: 100)
        table.add(slot: 3, start: 0x1000_0030, size: 16, stack: 0, family: 0)
        table.beginArea(base: 0x1020_0040, slotSize: 32, slotCount: 100)
        table.add(slot: 1, start: 0x1020_0060, size: 32, stack: 0, family: 0)
        table.beginArea(base: 0x2000_0000, slotSize: 4096, slotCount: 4)
        table.add(slot: 0, start: 0x2000_0000, size: 4096, stack: 0, family: 0)
        table.beginSorted()
        table.index(regionsAt: 0x1000_0000, shift: 20, count: 3)
        #expect(table.block(at: 0x1000_0035) == 0)
        #expect(table.block(at: 0x1010_0030) == BlockTable.none)
        #expect(table.block(at: 0x1020_0020) == BlockTable.none)
        #expect(table.block(at: 0x1020_0060) == 1)
        #expect(table.block(at: 0x2000_0fff) == 2)
        #expect(table.block(at: 0x1000_0000 - 1) == BlockTable.none)
    }

    @Test func findsLargeBlocks() {
        let table = table()
        #expect(table.block(at: 0x100000 + 4999) == 7)
        #expect(table.block(at: 0x100000 + 5000) == BlockTable.none)
        #expect(table.block(at: 0x1_8000_0000) == 8)
        #expect(table.size(of: 8) == 0x1_8000_0000)
        #expect(table.size(of: 0) == 40)
    }

    @Test func keepsFamilyAndFirstWord() {
        let table = table()
        #expect(table.family(of: 6) == 2)
        #expect(table.firstWord(of: 6) == nil)
        table.setFirstWord(12345, of: 6)
        #expect(table.firstWord(of: 6) == 12345 && table.family(of: 6) == 2)
    }

    @Test func numbersFirstWordsOnce() {
        let words = FirstWords()
        for round in 0..<2 {
            for word in 0..<10_000 as Range<UInt64> {
                #expect(words.number(of: word &* 0x9e37_79b9_7f4a_7c15) == UInt32(word), "round \(round)")
            }
        }
        #expect(words.words.count == 10_000)
    }
}
