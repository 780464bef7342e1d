// Tests which blocks count as new since an earlier inspection of the heap.

import Testing

@testable import ZombieGuardGraph

@Suite struct BlockAgesTests {
    private func table(_ blocks: [(start: UInt64, stack: UInt32)]) -> BlockTable {
        let table = BlockTable()
        table.beginSorted()
        for block in blocks { table.addSorted(start: block.start, size: 64, stack: block.stack, family: 0) }
        return table
    }

    @Test func tellsWhatIsNewer() {
        let ages = BlockAges()
        let first = ages.look(at: table([(0x1000, 1), (0x2000, 2)]))
        #expect(!ages.isNew(start: 0x1000, stack: 1, since: first))
        #expect(ages.isNew(start: 0x3000, stack: 1, since: first))
        let second = ages.look(at: table([(0x1000, 1), (0x3000, 3)]))
        #expect(ages.isNew(start: 0x3000, stack: 3, since: first))
        #expect(!ages.isNew(start: 0x3000, stack: 3, since: second))
        #expect(!ages.isNew(start: 0x1000, stack: 1, since: first))
        // The second inspection found this block freed, so a later block at its address is new.
        #expect(ages.isNew(start: 0x2000, stack: 2, since: first))
    }

    @Test func knowsBlocksByAddressAndStack() {
        let ages = BlockAges()
        let moment = ages.look(at: table([(0x1000, 1)]))
        #expect(ages.isNew(start: 0x1000, stack: 2, since: moment))
        #expect(ages.isNew(start: 0x1008, stack: 1, since: moment))
    }

    @Test func knowsNothingBeforeTheFirstLook() {
        #expect(BlockAges().isNew(start: 0x1000, stack: 1, since: 0))
    }

    @Test func keepsPartOfATable() {
        let all = table([(0x1000, 1), (0x2000, 2), (0x3000, 1)])
        let kept = all.filter { _, stack in stack == 1 }
        #expect(kept.starts.elements.map { $0 } == [0x1000, 0x3000])
        #expect(kept.block(at: 0x3020) == 1 && kept.block(at: 0x2000) == BlockTable.none)
        #expect(kept.size(of: 1) == 64)
    }
}
