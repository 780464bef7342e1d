// Reads stack traces from the stack depot of another process.

import CZombie

/// Reads stack traces from the depot of a guarded process.
package struct StackDepotReader {
    private let memory: any MemoryReader
    private let layout: HeapLayout

    // The runtime records at most 128 frames per stack. A longer chain is corrupt.
    private static let longestChain = 128

    package init(memory: any MemoryReader, layout: HeapLayout) {
        self.memory = memory
        self.layout = layout
    }

    /// Return addresses of a stack, innermost first; empty if the id is unknown.
    package func returnAddresses(of stack: UInt32) -> [UInt64] {
        var addresses: [UInt64] = []
        var index = stack
        while index != 0, UInt64(index) < layout.nodeCount, addresses.count < Self.longestChain {
            let at = layout.nodes &+ UInt64(index) &* UInt64(MemoryLayout<zg_depot_node>.stride)
            guard let node = memory.record(zg_depot_node.self, at: at) else { break }
            addresses.append(node.pc_and_depth & 0xffff_ffff_ffff)
            index = node.parent
        }
        return addresses
    }
}
