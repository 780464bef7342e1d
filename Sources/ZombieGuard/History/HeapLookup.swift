// Finds the block at an address of another process's guarded heap, as blocks/lookup.c and zombies/zombie.c do.

import CZombie
import Glibc

/// A block, as its record describes it.
package struct BlockRecord {
    package var block: zg_block
    var death: zg_death
    package var start: UInt64
    /// Size that the program requested.
    package var size: UInt64
    /// Bytes from `start` to the end of the slot or span, without the guard page of an isolated block.
    var room: UInt64
    /// Whether the block is isolated (has pages of its own, followed by a guard page) or in a window.
    var isIsolated: Bool
    var guardIsOpen: Bool
    /// Whether the block is in a window, a second mapping of pages that it shares with other blocks.
    var isInWindow = false
    /// Whether the record kept changing while it was read.
    var isChanging = false

    var state: zg_state { zg_state(rawValue: block.state) }
    package var isLive: Bool { state == zg_state_live }
    /// Addresses of the block, at least one. Clamped if the end overflows, because the process is not trusted.
    package var range: Range<UInt64> {
        let (end, overflows) = start.addingReportingOverflow(max(size, 1))
        return start..<(overflows ? .max : end)
    }
    /// Whether the block is freed, and its death record describes the object that it held.
    var isZombie: Bool {
        block.isZombie && [zg_state_quarantined, zg_state_retired, zg_state_reusable, zg_state_held].contains(state)
    }
    /// Number of the class of the object that the block held when it was freed; nil if none is known.
    package var freedClass: UInt32? { isZombie ? death.class_number : nil }
    /// Whether an address is in the block.
    package func contains(_ address: UInt64) -> Bool { address &- start < size }
    /// Like `isZombie`, but false once the slot may be reused.
    var isHeldZombie: Bool { isZombie && state != zg_state_reusable }
}

/// Finds blocks by address, from the records in a guarded process's memory.
package struct HeapLookup {
    /// Kind of a heap address.
    package enum Place {
        case block(BlockRecord)
        /// A slot of this size without a record of a block.
        case unusedSlot(start: UInt64, size: UInt64)
        /// Address space for large or isolated blocks, without a record of a block.
        case unusedArea(isolated: Bool)
        case notOurs
    }

    /// The meaning of a trap word.
    struct Trap {
        var part: zg_trap_part
        /// Distance of the address from the trap word.
        var offset: Int64
        /// Freed objects that share the trap word. `byte`: for `zg_trap_word`, the offset of the word in the object;
        /// else 0.
        var objects: [(record: BlockRecord, byte: UInt64)]
    }

    let memory: any MemoryReader
    let layout: HeapLayout
    /// Whether the process runs during the lookup.
    let isRunning: Bool

    /// Maximum number of times that a changing record is read. `patience` limits the pauses for all records together.
    private static let attempts = 8
    private let patience = Patience()

    private final class Patience {
        private var pauses = 1000

        /// Pauses briefly. Returns false, without a pause, once all allowed pauses are used up.
        func pause() -> Bool {
            guard pauses > 0 else { return false }
            pauses -= 1
            usleep(200)
            return true
        }
    }

    /// - Parameter isStopped: whether all threads that may change records are stopped.
    package init(_ source: HeapReader, isStopped: Bool = false) {
        memory = source.memory
        layout = source.statistics.heapLayout
        isRunning = source.isRunning && !isStopped
    }

    package func place(of address: UInt64) -> Place {
        if address &- layout.slabs.start < layout.slabs.size { return slot(at: address) }
        for area in [layout.large, layout.isolated] where area.contains(address) {
            return span(at: address, in: area) ?? .unusedArea(isolated: area.start == layout.isolated.start)
        }
        if layout.windows.contains(address) {
            let page = (address &- layout.windows.start) / layout.windows.pageSize
            return settled({ windowed(page) }).map { .block($0) } ?? .unusedArea(isolated: true)
        }
        return .notOurs
    }

    // MARK: Slots

    private func slot(at address: UInt64) -> Place {
        let index = Int(clamping: (address &- layout.slabs.start) >> layout.slabs.shift)
        guard index < layout.classes.count, layout.classes[index].slotSize > 0 else { return .notOurs }
        let sizeClass = layout.classes[index]
        let number = (address &- sizeClass.slots) / sizeClass.slotSize
        let start = sizeClass.slots &+ number &* sizeClass.slotSize
        guard let record = settled({ slot(number, of: sizeClass) }) else {
            return .unusedSlot(start: start, size: sizeClass.slotSize)
        }
        return .block(record)
    }

    private func slot(_ number: UInt64, of sizeClass: HeapLayout.SizeClass) -> BlockRecord? {
        // Records of slots that were never used are zero or unreadable.
        let record = sizeClass.blocks &+ number &* UInt64(MemoryLayout<zg_block>.stride)
        let death = sizeClass.deaths &+ number &* UInt64(MemoryLayout<zg_death>.stride)
        guard let block = memory.record(zg_block.self, at: record), block.state != zg_state_fresh.rawValue else {
            return nil
        }
        return BlockRecord(
            block: block, death: memory.record(zg_death.self, at: death) ?? zg_death(),
            start: sizeClass.slots &+ number &* sizeClass.slotSize,
            size: sizeClass.slotSize - min(block.slack, sizeClass.slotSize), room: sizeClass.slotSize,
            isIsolated: false, guardIsOpen: false)
    }

    // MARK: Large and isolated blocks

    private func span(at address: UInt64, in area: HeapLayout.Area) -> Place? {
        guard area.pageSize > 0 else { return nil }
        let entry = area.map &+ (address &- area.start) / area.pageSize &* 4
        guard let number = memory.record(UInt32.self, at: entry), number != 0,
            let record = settled({ span(number) })
        else { return nil }
        return .block(follower(of: record, before: address, entry) ?? record)
    }

    // A guard page between two isolated blocks belongs to the nearer block. Returns the block behind the page, or nil
    // if the block in front is nearer.
    private func follower(of record: BlockRecord, before address: UInt64, _ entry: UInt64) -> BlockRecord? {
        let end = record.start &+ record.size
        guard record.isIsolated, address >= record.start, address - record.start >= record.room, address >= end,
            let number = memory.record(UInt32.self, at: entry &+ 4), number != 0,
            let next = settled({ span(number) }), next.isIsolated, next.start > address,
            next.start - address < address - end
        else { return nil }
        return next
    }

    private func span(_ number: UInt32) -> BlockRecord? {
        let at = layout.spans &+ UInt64(number) &* UInt64(MemoryLayout<zg_span>.stride)
        guard let span = memory.record(zg_span.self, at: at), span.block.state != zg_state_fresh.rawValue else {
            return nil
        }
        let isIsolated = span.protection != 0
        // The last page of an isolated block is its guard page.
        let room =
            isIsolated
            ? UInt64(max(span.units, 1) - 1) &* layout.isolated.pageSize : UInt64(span.units) &* layout.large.pageSize
        return BlockRecord(
            block: span.block, death: span.death, start: span.start, size: span.size,
            room: room &- (span.start &- span.base), isIsolated: isIsolated, guardIsOpen: span.guard_is_open != 0)
    }

    // MARK: Blocks in windows

    private func windowed(_ page: UInt64) -> BlockRecord? {
        let at = layout.windows.records &+ page &* UInt64(MemoryLayout<zg_alias>.stride)
        guard let alias = memory.record(zg_alias.self, at: at), alias.slot_bytes > 0,
            alias.block.state != zg_state_fresh.rawValue
        else { return nil }
        let room = UInt64(alias.slot_bytes)
        return BlockRecord(
            block: alias.block, death: alias.death,
            start: layout.windows.start &+ page &* layout.windows.pageSize &+ UInt64(alias.start),
            size: room - min(alias.block.slack, room), room: room, isIsolated: true, guardIsOpen: false,
            isInWindow: true)
    }

    // MARK: All

    /// Rereads a record until two successive reads agree, because the process may change the record meanwhile. After
    /// too many attempts, returns the last read, with `isChanging` set. nil if there is no block.
    private func settled(_ read: () -> BlockRecord?) -> BlockRecord? {
        guard var record = read() else { return nil }
        guard isRunning else { return record }
        for attempt in 0..<Self.attempts {
            guard let again = read() else { return nil }
            let isSame = again.isSame(as: record)
            record = again
            // `freeing` is a short-lived state, unless the process was stopped in it.
            if isSame, record.state != zg_state_freeing { return record }
            if isSame, attempt == Self.attempts - 1 { return record }
            if !patience.pause() { break }
        }
        record.isChanging = true
        return record
    }

    // MARK: Traps

    /// Decodes a trap word; nil if the address is not one.
    func trap(at address: UInt64) -> Trap? {
        guard var regions = layout.trapRegions else { return nil }
        // The reference count of a freed Swift object has the form of a side-table reference: the trap address >> 3,
        // with the two top bits set.
        let isCount = address >> 62 == 3
        let place = zg_trap_place_of(&regions, isCount ? address << 3 & 0xffff_ffff_ffff : address)
        guard place.part != zg_trap_none, !isCount || place.part == zg_trap_side else { return nil }
        return Trap(part: place.part, offset: place.offset, objects: objects(at: place))
    }

    // Limit on the listed objects. With the largest trap regions, at most 256 slots of 16 bytes share a trap word; with
    // smaller regions, more slots share one, and the list is incomplete.
    private static let mostObjects = 256
    private static let mostLooks = 1 << 16

    private func objects(at place: zg_trap_place) -> [(record: BlockRecord, byte: UInt64)] {
        let index = Int(place.class_number)
        if index == layout.classes.count {
            let number = UInt32(clamping: place.number)
            guard place.part != zg_trap_word, number > 0, let record = settled({ span(number) }), record.isHeldZombie
            else { return [] }
            return [(record, 0)]
        }
        if index == layout.classes.count + 1 { return windowedObjects(at: place) }
        guard index < layout.classes.count, layout.classes[index].slotSize > 0 else { return [] }
        let sizeClass = layout.classes[index]
        var found: [(record: BlockRecord, byte: UInt64)] = []
        var byte = place.part == zg_trap_word ? place.byte : place.number &* sizeClass.slotSize
        let step =
            place.part == zg_trap_word ? layout.traps.byteMask &+ 1 : (layout.traps.slotMask &+ 1) &* sizeClass.slotSize
        var looks = 0
        while byte < sizeClass.count &* sizeClass.slotSize, looks < Self.mostLooks, found.count < Self.mostObjects {
            looks += 1
            let number = byte / sizeClass.slotSize
            if slot(number, of: sizeClass)?.isHeldZombie == true,
                let record = settled({ slot(number, of: sizeClass) }), record.isHeldZombie
            {
                found.append((record, byte % sizeClass.slotSize))
            }
            let next = byte.addingReportingOverflow(step)
            if next.overflow { break }
            byte = next.partialValue
        }
        return found
    }

    private func windowedObjects(at place: zg_trap_place) -> [(record: BlockRecord, byte: UInt64)] {
        guard place.part != zg_trap_word else { return [] }
        var found: [(record: BlockRecord, byte: UInt64)] = []
        let (step, overflows) = layout.traps.slotMask.addingReportingOverflow(1)
        var page = place.number
        for _ in 0..<Self.mostLooks where page < layout.windows.pageCount && found.count < Self.mostObjects {
            if let record = settled({ windowed(page) }), record.isHeldZombie { found.append((record, 0)) }
            let next = page.addingReportingOverflow(step)
            if overflows || next.overflow { break }
            page = next.partialValue
        }
        return found
    }
}

extension BlockRecord {
    fileprivate func isSame(as other: BlockRecord) -> Bool {
        block.isSame(as: other.block) && death.class_number == other.death.class_number
            && death.time == other.death.time && start == other.start && size == other.size && room == other.room
            && guardIsOpen == other.guardIsOpen
    }
}
