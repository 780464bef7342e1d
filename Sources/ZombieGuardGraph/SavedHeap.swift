// The JSON form of a heap's summary, which `zguard heap --save` writes and `--since` reads.

import ZombieGuard

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A saved summary, with the data that is needed to compare another summary with it.
package struct SavedHeap: Decodable {
    /// The JSON schema that this version reads and writes.
    package static let schema = "zguard.heap/1"

    private struct ClassRow: Decodable {
        var name: String?
        var family: String?
        var blocks: Int
        var bytes: UInt64
        enum CodingKeys: String, CodingKey {
            case name = "class"
            case family, blocks, bytes
        }
    }
    private struct StackRow: Decodable {
        var identity: String
        var blocks: Int
        var bytes: UInt64
    }

    /// The blocks that appeared first in one snapshot.
    package struct Age: Decodable {
        package var time: String
        /// In base64: see ``HeapAges``.
        var members: Data
    }

    enum CodingKeys: String, CodingKey {
        case started = "started_ns"
        case schema, time, pid, ages, blocks, bytes, classes, stacks
    }

    private let schema: String
    package let time: String?
    /// Process, and time of its start: other processes have other blocks at the same addresses.
    let pid: Int?
    let started: UInt64?
    /// The oldest blocks first; nil in files of earlier versions.
    let ages: [Age]?
    package let blocks: Int
    package let bytes: UInt64
    private let classes: [ClassRow]
    private let stacks: [StackRow]

    /// Reads a saved summary.
    ///
    /// - Parameter bytes: contents of the file.
    /// - Returns: nil if the contents are not a summary of this version.
    package init?(_ bytes: [UInt8]) {
        guard let read = try? JSONDecoder().decode(SavedHeap.self, from: Data(bytes)), read.schema == Self.schema else {
            return nil
        }
        self = read
    }

    /// Amounts by label of the class, as ``HeapSummary/ClassRow/label``.
    package var byClass: [String: HeapSummary.Amount] {
        Dictionary(
            classes.map {
                ($0.name ?? "(\($0.family ?? "unknown"))", HeapSummary.Amount(blocks: $0.blocks, bytes: $0.bytes))
            },
            uniquingKeysWith: { a, _ in a })
    }

    /// Amounts by identity of the allocation stack.
    package var byStack: [UInt64: HeapSummary.Amount] {
        var all: [UInt64: HeapSummary.Amount] = [:]
        for row in stacks {
            guard let identity = UInt64(row.identity, radix: 16) else { continue }
            all[identity, default: .init()].blocks += row.blocks
            all[identity, default: .init()].bytes &+= row.bytes
        }
        return all
    }
}
