// The findings that the runtime in this process has reported, by number.

import CZombie
import Glibc
import ZombieGuard

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The runtime's own list of findings, raw. Empty where the process is not guarded.
enum FindingLog {
    // A constant table: what it points to is never changed.
    nonisolated(unsafe) private static let interface: UnsafePointer<zg_api>? = zg_api_find()

    /// Findings so far.
    static var count: UInt64 { interface?.pointee.finding_count?(nil) ?? 0 }

    /// Findings that were made again: the runtime counts them, but lists equal ones once.
    static var repetitions: UInt64 {
        guard let page = interface?.pointee.statistics else { return 0 }
        return withUnsafeBytes(of: page.pointee.counters) {
            $0.load(fromByteOffset: 8 * Int(zg_counter_findings_suppressed.rawValue), as: UInt64.self)
        }
    }

    /// Verifies all freed blocks, so that late writes are found now.
    static func verify() { _ = interface?.pointee.verify?() }

    /// The findings from number `first` on, raw; those that are no longer kept are left out.
    static func findings(from first: UInt64) -> [Finding] {
        guard let interface, let read = interface.pointee.finding else { return [] }
        var firstKept: UInt64 = 0
        let count = interface.pointee.finding_count?(&firstKept) ?? 0
        return (max(first, firstKept)..<max(count, first, firstKept)).compactMap { index in
            line(of: index, read).flatMap { try? JSONDecoder().decode(Finding.self, from: Data($0)) }
        }
    }

    private static func line(
        of index: UInt64, _ read: @convention(c) (UInt64, UnsafeMutablePointer<CChar>?, UInt64) -> UInt64
    ) -> [UInt8]? {
        var capacity = 16384
        while true {
            var length = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, filled in
                buffer.withMemoryRebound(to: CChar.self) {
                    length = Int(read(index, $0.baseAddress, UInt64(capacity)))
                }
                filled = min(length, capacity)
            }
            if length == 0 { return nil }
            if length <= capacity { return bytes }
            capacity = length
        }
    }
}
