// Reads the retain and release history of Swift objects from another process (the table of zombies/count_history.c).

import CZombie

/// Reads the recorded changes of an object's reference count.
struct CountHistoryReader {
    struct Change {
        var event: String
        var strong: Int?
        var thread: Int
        var stack: UInt32
    }

    private let memory: any MemoryReader
    private let counts: zg_layout_counts?

    init(_ source: HeapReader) {
        memory = source.memory
        counts = source.statistics.heapLayout.counts
    }

    /// Recorded changes of an object, newest first. Empty if the table has no entry for this address, or if the entry
    /// belongs to an object whose class is not `metadata`.
    func changes(of object: UInt64, class metadata: UInt64) -> [Change] {
        guard let counts else { return [] }
        let set = (object &* 0x9e37_79b9_7f4a_7c15) >> UInt64(counts.set_shift)
        for way in 0..<UInt64(ZG_COUNT_WAYS) {
            let at = counts.base &+ (set &* UInt64(ZG_COUNT_WAYS) &+ way) &* UInt64(counts.entry_bytes)
            guard let entry = memory.record(zg_count_entry.self, at: at), entry.object == object else { continue }
            guard entry.`class` == metadata else { return [] }
            return changes(at: at, entry, counts)
        }
        return []
    }

    private func changes(at place: UInt64, _ entry: zg_count_entry, _ counts: zg_layout_counts) -> [Change] {
        let size = UInt64(MemoryLayout<zg_count_change>.stride)
        return (0..<min(entry.count, counts.changes)).compactMap { age in
            let number = UInt64((entry.count - 1 - age) % counts.changes)
            let at = place &+ UInt64(MemoryLayout<zg_count_entry>.stride) &+ number &* size
            guard let change = memory.record(zg_count_change.self, at: at), change.stack != 0,
                let event = zg_count_event_text(UInt32(change.what & 0xf))
            else { return nil }
            let strong = Int(change.what >> 4)
            return Change(
                event: String(cString: event), strong: strong == 0 ? nil : strong, thread: Int(change.thread),
                stack: change.stack)
        }
    }
}
