// Determines which live blocks existed in earlier snapshots of the same process.

import ZombieGuard

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The age of each live block: the earliest snapshot that has it.
///
/// A block is taken for one of an earlier snapshot if address, size, allocation function and allocation stack are the
/// same. The slot may in fact have been freed and reused by the same call, so the numbers of survivors are upper
/// bounds. The quarantine delays reuse: a freed address is not reused before its eviction.
///
/// The blocks of an age are saved as the difference of addresses (zigzag and LEB128) and 16 bits of a hash for each
/// block: 4 to 5 bytes a block, 6 in base64.
package struct HeapAges {
    /// The live blocks that appeared first in one snapshot.
    package struct Look {
        /// ISO 8601, UTC.
        package var time: String
        package var amount = HeapSummary.Amount()
    }

    /// The snapshots, oldest first; the last is the current one. Blocks of the first snapshot may be older than it.
    package private(set) var looks: [Look]
    private let snapshot: HeapSnapshot
    /// Index into `looks` for each block.
    private let ages: FlatArray<UInt8>

    /// Maximum number of ages in a file. Above it, the two oldest are merged.
    private static let mostLooks = 8

    /// - Parameters:
    ///   - earlier: a saved heap. All blocks are new if it is nil, or of another process.
    ///   - time: time of this snapshot.
    package init(_ snapshot: HeapSnapshot, since earlier: SavedHeap?, time: String) {
        self.snapshot = snapshot
        let statistics = snapshot.source.statistics
        let isSame = earlier?.pid == Int(statistics.processID) && earlier?.started == statistics.started
        let before = isSame ? earlier?.ages ?? [] : []
        let excess = max(0, before.count + 1 - Self.mostLooks)
        looks = before.dropFirst(excess).map { Look(time: $0.time) } + [Look(time: time)]
        ages = FlatArray(repeating: UInt8(looks.count - 1), count: snapshot.blocks.count)
        for (number, age) in before.enumerated() { mark(age.members, as: UInt8(max(0, number - excess))) }
        for block in 0..<UInt32(snapshot.blocks.count) {
            looks[Int(ages[Int(block)])].amount.add(bytes: snapshot.blocks.size(of: block))
        }
    }

    /// Whether there is an earlier snapshot of this process.
    package var hasEarlier: Bool { looks.count > 1 }

    /// Whether a block was in an earlier snapshot.
    @inline(__always)
    package func isOld(_ block: UInt32) -> Bool { Int(ages.base[Int(block)]) < looks.count - 1 }

    private func mark(_ members: Data, as look: UInt8) {
        let blocks = snapshot.blocks
        members.withUnsafeBytes { bytes in
            var at = 0
            var address: UInt64 = 0
            while at < bytes.count {
                var (zigzag, shift) = (0 as UInt64, 0 as UInt64)
                while at < bytes.count, shift < 64 {
                    let byte = bytes[at]
                    at += 1
                    zigzag |= UInt64(byte & 0x7f) << shift
                    shift += 7
                    if byte & 0x80 == 0 { break }
                }
                guard at + 2 <= bytes.count else { return }
                address = address &+ (zigzag >> 1 ^ (0 &- (zigzag & 1)))
                let hash = UInt16(bytes[at]) | UInt16(bytes[at + 1]) << 8
                at += 2
                let block = blocks.block(at: address)
                if block != BlockTable.none, blocks.starts[Int(block)] == address, self.hash(of: block) == hash {
                    ages.base[Int(block)] = look
                }
            }
        }
    }

    /// The blocks of a look, to be saved.
    package func members(of look: Int) -> String {
        let blocks = snapshot.blocks
        var bytes = Data()
        var last: UInt64 = 0
        for block in 0..<blocks.count where Int(ages.base[block]) == look {
            let difference = blocks.starts.base[block] &- last
            last = blocks.starts.base[block]
            var zigzag = difference << 1 ^ (0 &- (difference >> 63))
            while zigzag >= 0x80 {
                bytes.append(UInt8(zigzag & 0x7f) | 0x80)
                zigzag >>= 7
            }
            bytes.append(UInt8(zigzag))
            let hash = hash(of: UInt32(block))
            bytes.append(UInt8(hash & 0xff))
            bytes.append(UInt8(hash >> 8))
        }
        return bytes.base64EncodedString()
    }

    private func hash(of block: UInt32) -> UInt16 {
        let blocks = snapshot.blocks
        let word = blocks.size(of: block) ^ UInt64(blocks.stacks.base[Int(block)]) << 32
        return UInt16(((word &+ UInt64(blocks.family(of: block)) << 60) &* 0x9e37_79b9_7f4a_7c15) >> 48)
    }
}
