// Determines from snapshots which blocks are younger than one of the snapshots: the records of blocks have no time.

import ZombieGuard

/// The blocks of a process at the last snapshot, and for each block the first snapshot that had it. A block costs 24
/// bytes, regardless of the number of snapshots.
///
/// A block is identified by its address and its allocation stack. If it is freed, and a new block from the same stack
/// gets the same address, the new block counts as the old one.
final class BlockAges {
    private var blocks = BlockTable()
    private var firstLooks = FlatArray<UInt32>()
    private var look: UInt32 = 0

    /// Records a snapshot of the blocks.
    ///
    /// - Parameter blocks: the blocks that exist now.
    /// - Returns: the number of the snapshot, for ``isNew(start:stack:since:)``.
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

    /// Whether a block was allocated after the snapshot with the number `moment`.
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
