// What is at an address of a guarded heap: the runtime's own look-up (blocks/lookup.c, zombies/zombie.c), done from outside.

import CZombie
import Glibc

/// A block as its record has it.
struct BlockRecord {
    var block: zg_block
    var death: zg_death
    var start: UInt64
    /// As the program asked for it.
    var size: UInt64
    /// Of the slot, or the pages that belong to the block alone: its end.
    var room: UInt64
    /// It has pages of its own, and a guard behind them.
    var isFenced: Bool
    var guardIsOpen: Bool
    /// Its page is one of several that lead to the same memory, in which blocks lie packed.
    var isInWindow = false
    /// The record changed while it was read, again and again.
    var isChanging = false

    var state: zg_state { zg_state(rawValue: block.state) }
    var isLive: Bool { state == zg_state_live }
    /// Dead, and its death record is about the object that it was.
    var isZombie: Bool {
        block.isZombie && [zg_state_quarantined, zg_state_retired, zg_state_reusable, zg_state_held].contains(state)
    }
    /// Dead, and what it was made of is still held.
    var isHeldZombie: Bool { isZombie && state != zg_state_reusable }
}

/// Finds blocks by address, from the records in a guarded program's memory.
struct HeapLookup {
    /// What an address of the heap is.
    enum Place {
        case block(BlockRecord)
        /// A place for a block of this size that was never used.
        case unusedSlot(start: UInt64, size: UInt64)
        /// Address space for large blocks, or for blocks with pages of their own, that was never used.
        case unusedArea(fenced: Bool)
        case notOurs
    }

    /// What a trap address stands for.
    struct Trap {
        var part: zg_trap_part
        /// Distance from the trap pointer.
        var offset: Int64
        /// Dead objects that it may stand for, and the byte of the object whose word it is (`zg_trap_word`).
        var objects: [(record: BlockRecord, byte: UInt64)]
    }

    let memory: any MemoryReader
    let layout: HeapLayout
    /// The program goes on meanwhile.
    let isRunning: Bool

    /// How many times a record that changes is read again, and how many times all records together are waited for.
    private static let attempts = 8
    private let patience = Patience()

    private final class Patience {
        private var pauses = 1000

        /// False where it was waited often enough.
        func pause() -> Bool {
            guard pauses > 0 else { return false }
            pauses -= 1
            usleep(200)
            return true
        }
    }

    init(_ source: HeapSource) {
        memory = source.memory
        layout = source.statistics.heapLayout
        isRunning = source.isRunning
    }

    func place(of address: UInt64) -> Place {
        if address &- layout.slabs.start < layout.slabs.size { return slot(at: address) }
        for area in [layout.large, layout.fenced] where area.contains(address) {
            return span(at: address, in: area) ?? .unusedArea(fenced: area.start == layout.fenced.start)
        }
        if layout.windows.contains(address) {
            let page = (address &- layout.windows.start) / layout.windows.pageSize
            return settled({ windowed(page) }).map { .block($0) } ?? .unusedArea(fenced: true)
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
        // Records of slots that were never used read as zero, or not at all.
        let record = sizeClass.blocks &+ number &* UInt64(MemoryLayout<zg_block>.stride)
        let death = sizeClass.deaths &+ number &* UInt64(MemoryLayout<zg_death>.stride)
        guard let block = memory.record(zg_block.self, at: record), block.state != zg_state_fresh.rawValue else {
            return nil
        }
        return BlockRecord(
            block: block, death: memory.record(zg_death.self, at: death) ?? zg_death(),
            start: sizeClass.slots &+ number &* sizeClass.slotSize,
            size: sizeClass.slotSize - min(block.slack, sizeClass.slotSize), room: sizeClass.slotSize,
            isFenced: false, guardIsOpen: false)
    }

    // MARK: Large and fenced blocks

    private func span(at address: UInt64, in area: HeapLayout.Area) -> Place? {
        guard area.pageSize > 0 else { return nil }
        let entry = area.map &+ (address &- area.start) / area.pageSize &* 4
        guard let number = memory.record(UInt32.self, at: entry), number != 0,
            let record = settled({ span(number) })
        else { return nil }
        return .block(follower(of: record, before: address, entry) ?? record)
    }

    // A guard lies between two blocks: the nearer one is meant. nil: the one in front.
    private func follower(of record: BlockRecord, before address: UInt64, _ entry: UInt64) -> BlockRecord? {
        let end = record.start &+ record.size
        guard record.isFenced, address >= record.start, address - record.start >= record.room, address >= end,
            let number = memory.record(UInt32.self, at: entry &+ 4), number != 0,
            let next = settled({ span(number) }), next.isFenced, next.start > address,
            next.start - address < address - end
        else { return nil }
        return next
    }

    private func span(_ number: UInt32) -> BlockRecord? {
        let at = layout.spans &+ UInt64(number) &* UInt64(MemoryLayout<zg_span>.stride)
        guard let span = memory.record(zg_span.self, at: at), span.block.state != zg_state_fresh.rawValue else {
            return nil
        }
        let isFenced = span.fenced != 0
        // A fenced block's last page is the guard behind it.
        let room =
            isFenced
            ? UInt64(max(span.units, 1) - 1) &* layout.fenced.pageSize : UInt64(span.units) &* layout.large.pageSize
        return BlockRecord(
            block: span.block, death: span.death, start: span.start, size: span.size,
            room: room &- (span.start &- span.base), isFenced: isFenced, guardIsOpen: span.guard_is_open != 0)
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
            size: room - min(alias.block.slack, room), room: room, isFenced: true, guardIsOpen: false, isInWindow: true)
    }

    // MARK: All

    /// A record that is the same when it is read again, if it is to be had: the program goes on meanwhile.
    private func settled(_ read: () -> BlockRecord?) -> BlockRecord? {
        guard var record = read() else { return nil }
        guard isRunning else { return record }
        for attempt in 0..<Self.attempts {
            guard let again = read() else { return nil }
            let isSame = again.isSame(as: record)
            record = again
            // Being freed takes no time, unless the program is stopped in the middle of it.
            if isSame, record.state != zg_state_freeing { return record }
            if isSame, attempt == Self.attempts - 1 { return record }
            if !patience.pause() { break }
        }
        record.isChanging = true
        return record
    }

    // MARK: Traps

    /// What a trap address says; nil where it is none.
    func trap(at address: UInt64) -> Trap? {
        guard var regions = layout.trapRegions else { return nil }
        // The count of a dead object as it stands in the object: the trap's address with two bits more, shifted.
        let isCount = address >> 62 == 3
        let place = zg_trap_place_of(&regions, isCount ? address << 3 & 0xffff_ffff_ffff : address)
        guard place.part != zg_trap_none, !isCount || place.part == zg_trap_side else { return nil }
        return Trap(part: place.part, offset: place.offset, objects: objects(at: place))
    }

    // As many slots of 16 bytes share a window where the regions are as large as they become. Smaller regions have fewer windows.
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
