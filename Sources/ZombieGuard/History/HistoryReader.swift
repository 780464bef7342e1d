// Looks up addresses in a guarded process or its core file.

import CZombie
import Glibc

/// Looks up addresses of a guarded process, and describes their current and former contents. Not thread-safe.
public struct HistoryReader {
    private let source: HeapReader
    private let lookup: HeapLookup
    private let names: ObjectNames
    private let depot: StackDepotReader
    private var modules: ProcessModules

    /// Makes a reader for a process or a core file.
    ///
    /// - Parameter source: the memory to read.
    public init(_ source: HeapReader) {
        self.source = source
        lookup = HeapLookup(source)
        names = ObjectNames(source)
        depot = StackDepotReader(memory: source.memory, layout: source.statistics.heapLayout)
        modules = ProcessModules(mappings: source.mappings, memory: source.memory)
    }

    /// Looks up an address. Frames have no symbols yet.
    ///
    /// - Parameter address: any value; it is never dereferenced.
    /// - Returns: what is known; ``AddressHistory/What/nothing`` if the address is unmapped.
    public mutating func history(of address: Address) -> AddressHistory {
        var history = AddressHistory(
            address: address, what: .nothing, processID: source.statistics.processID,
            program: source.statistics.program, isFromCore: !source.isRunning)
        if let trap = lookup.trap(at: address.rawValue) {
            describe(trap, in: &history)
            return history
        }
        switch lookup.place(of: address.rawValue) {
        case .block(let record):
            history.what = .block
            describe(record, offset: Int64(bitPattern: address.rawValue &- record.start), in: &history)
        case .unusedSlot(let start, let size):
            history.what = .unused
            history.block = Finding.Block(
                start: Address(start), size: size, offset: Int64(bitPattern: address.rawValue &- start),
                state: Finding.Block.State.unused.rawValue
            )
        case .unusedArea(let isolated):
            history.what = .unused
            history.isIsolated = isolated
        case .notOurs:
            describeElsewhere(&history)
        }
        return history
    }

    // MARK: Blocks

    private mutating func describe(_ record: BlockRecord, offset: Int64, in history: inout AddressHistory) {
        let block = record.block
        // The process may run during the lookup. Accept the names of a live object only if its record is unchanged
        // afterwards.
        var found: Finding.Block?
        for _ in 0..<3 where found == nil {
            let seen = named(record, offset: offset)
            if !source.isRunning || !record.isLive || isStillSo(record) { found = seen }
        }
        history.block = found ?? plain(record, offset: offset)
        history.isIsolated = record.isIsolated
        history.isInWindow = record.isInWindow
        history.isInGuard = record.isIsolated && !record.isInWindow && offset >= Int64(clamping: record.room)
        history.isChanging = record.isChanging
        history.family = Self.family(of: block)
        history.stacks.alloc = frames(of: block.alloc_stack)
        if record.state != zg_state_live, record.state != zg_state_freeing {
            history.stacks.free = frames(of: block.free_stack)
        }
        if record.isZombie { history.freeTime = timeOfDeath(record.death) }
        let known = record.isZombie ? names.class(number: record.death.class_number) : names.class(of: record)
        guard let known, known.isSwift else { return }
        history.changes = CountHistoryReader(source).changes(of: record.start, class: known.pointer).map { change in
            Finding.RefCountChange(
                event: change.event, strong: change.strong, thread: change.thread, stack: frames(of: change.stack))
        }
    }

    private func isStillSo(_ record: BlockRecord) -> Bool {
        guard case .block(let now) = lookup.place(of: record.start) else { return false }
        return now.block.isSame(as: record.block) && now.start == record.start
    }

    private func plain(_ record: BlockRecord, offset: Int64) -> Finding.Block {
        func thread(_ number: UInt16) -> Int? { number == 0 || number == .max ? nil : Int(number) }
        let isFreed = !record.isLive && record.state != zg_state_freeing
        return Finding.Block(
            start: Address(record.start), size: record.size, offset: offset,
            state: zg_block_state_text(record.state.rawValue).map { String(cString: $0) },
            allocatingThread: thread(record.block.alloc_thread),
            freeingThread: isFreed ? thread(record.block.free_thread) : nil)
    }

    private func named(_ record: BlockRecord, offset: Int64) -> Finding.Block {
        var block = plain(record, offset: offset)
        let found = record.isZombie ? names.class(number: record.death.class_number) : names.class(of: record)
        guard let found else { return block }
        let name = names.name(of: found)
        block.language = (found.isSwift ? Finding.Block.Language.swift : .cxx).rawValue
        block.className = name.name
        block.classSymbol = name.symbol
        if offset >= 0, offset < Int64(clamping: record.size) {
            block.member = names.property(of: found, at: UInt64(offset))
        }
        return block
    }

    private static func family(of block: zg_block) -> String? {
        zg_block_family_text(block.header >> 8 & 0x7).map { String(cString: $0) }
    }

    // Death records hold bits 20 to 51 of the processor's clock.
    private func timeOfDeath(_ death: zg_death) -> UInt64? {
        let first = lookup.layout.firstTime
        // A core file has only the last recorded reading of the clock; the block may have been freed after that
        // reading.
        let last = source.isRunning ? zg_layout_time_now() : lookup.layout.lastTime
        guard death.time != 0, last.ns > first.ns, last.ticks > first.ticks else { return nil }
        let shift = UInt64(ZG_TIME_SHIFT)
        let difference = death.time &- UInt32(truncatingIfNeeded: last.ticks >> shift)
        let units = source.isRunning ? -Double(0 &- difference) : Double(Int32(bitPattern: difference))
        let nanoseconds =
            units * Double(UInt64(1) << shift) * Double(last.ns - first.ns) / Double(last.ticks - first.ticks)
        let time = Double(last.ns - first.ns) + nanoseconds
        // Tolerate a time up to 1 s before the start of the process: the clock rate is only an estimate.
        return time < -1e9 || time > 1e18 ? nil : first.ns &+ UInt64(max(0, time))
    }

    private mutating func frames(of stack: UInt32) -> [Finding.Frame] {
        depot.returnAddresses(of: stack).map { modules.frame(returningTo: $0) }
    }

    // MARK: Traps

    private mutating func describe(_ trap: HeapLookup.Trap, in history: inout AddressHistory) {
        history.what = .trap
        let part: AddressHistory.Trap.Part =
            switch trap.part {
            case zg_trap_isa: .classPointer
            case zg_trap_side: .referenceCount
            default: .contents
            }
        history.trap = AddressHistory.Trap(part: part, offset: trap.offset, objects: trap.objects.count)
        guard let (record, inside) = trap.objects.first else { return }
        let byte = part == .contents ? inside : part == .classPointer ? 0 : 8
        history.trap?.byte = byte
        describe(record, offset: Int64(byte), in: &history)
        guard part == .classPointer, let known = names.class(number: record.death.class_number) else { return }
        let slot = names.slot(of: known, at: trap.offset)
        history.trap?.access = slot.access
        history.block?.memberFrame = slot.code
        history.block?.member = slot.property
    }

    // MARK: Elsewhere

    private mutating func describeElsewhere(_ history: inout AddressHistory) {
        let address = history.address.rawValue
        guard let mapping = modules.mapping(at: address) else {
            history.what = Self.isFill(address) ? .fill : .nothing
            return
        }
        history.place = AddressHistory.Place(
            start: Address(mapping.start), end: Address(mapping.end), permissions: mapping.permissions,
            path: mapping.path.isEmpty ? nil : mapping.path)
        switch mapping.path {
        case "", Mapping.programBreakPath: history.what = .memory
        case Mapping.stackPath: history.what = .stack
        default:
            history.what = .file
            history.stacks.access = [modules.frame(at: address)]
        }
    }

    // Whether the address is a fill pattern read as a pointer, plus an offset between -64 KiB and 64 KiB.
    private static func isFill(_ address: UInt64) -> Bool {
        let near: UInt64 = 1 << 16
        return [ZG_FILL_FREED, ZG_FILL_NEW].contains { byte in
            address &- (UInt64(byte) &* 0x0101_0101_0101_0101) &+ near < 2 * near
        }
    }
}
