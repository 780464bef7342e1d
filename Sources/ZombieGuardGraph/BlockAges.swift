// Tells which blocks are younger than a moment: records of blocks have no time.

import ZombieGuard

/// The blocks of a process at the last look, and at which look each was seen first. A block costs 24 bytes, however
/// many moments are compared.
///
/// A block is known by its address and its allocation stack. If it is freed, and one from the same stack gets the same
/// address, the second one counts as the first.
final class BlockAges {
    private var blocks = BlockTable()
    private var firstLooks = FlatArray<UInt32>()
    private var look: UInt32 = 0

    /// Records the blocks that exist now.
    ///
    /// - Parameter blocks: the blocks that exist now.
    /// - Returns: the moment of this look, for ``isNew(start:stack:since:)``.
    func look(at blocks: BlockTable) -> Int {
        look += 1
        let looks = FlatArray<UInt32>(capacity: blocks.count)
        for block in 0..<blocks.count {
            looks.append(firstLook(start: blocks.starts.base[block], stack: blocks.stacks.base[block]) ?? look)
        }
        self.blocks = blocks
        firstLooks = looks
        return Int(look)
    }

    /// Whether a block was allocated after the look of this moment.
    func isNew(start: UInt64, stack: UInt32, since moment: Int) -> Bool {
        firstLook(start: start, stack: stack).map { Int($0) > moment } ?? true
    }

    private func firstLook(start: UInt64, stack: UInt32) -> UInt32? {
        let block = blocks.block(at: start)
        guard block != BlockTable.none, blocks.starts[Int(block)] == start, blocks.stacks[Int(block)] == stack else {
            return nil
        }
        return firstLooks[Int(block)]
    }
}
