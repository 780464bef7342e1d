// Decodes the heap layout on the statistics page: addresses and sizes of the metadata of a guarded heap.

import CZombie

/// Addresses and sizes of the heap's metadata in the guarded process.
package struct HeapLayout: Sendable {
    package struct SizeClass: Sendable {
        package var slots: UInt64
        package var blocks: UInt64
        package var deaths: UInt64
        package var count: UInt64
        package var slotSize: UInt64
        package var trapISA: UInt64
        package var trapSide: UInt64
        package var trapWord: UInt64
    }

    /// Shifts, masks and bases that yield the trap pointers of zombies: see struct zg_layout.
    package struct Traps: Sendable {
        package var isaShift: UInt64
        package var sideShift: UInt64
        package var wordShift: UInt64
        package var slotMask: UInt64
        package var byteMask: UInt64
        package var spanISA: UInt64
        package var spanSide: UInt64
    }

    /// An area of address space with a map from its pages to large blocks.
    package struct Area: Sendable {
        package var start: UInt64
        package var size: UInt64
        package var map: UInt64
        package var pageSize: UInt64

        init(_ area: zg_layout_area) {
            start = area.base
            size = area.bytes
            map = area.map
            pageSize = area.page_bytes
        }

        package func contains(_ address: UInt64) -> Bool { address &- start < size }
    }

    /// Address space of the windows, in which each page has its own record of its current or last block.
    package struct Windows: Sendable {
        package var start: UInt64
        package var size: UInt64
        package var records: UInt64
        package var pageSize: UInt64
        package var trapISA: UInt64
        package var trapSide: UInt64

        init(_ windows: zg_layout_windows) {
            start = windows.base
            // The process is not trusted: smaller pages would need more records than fit in memory.
            size = windows.page_bytes >= 4096 ? windows.bytes : 0
            records = windows.records
            pageSize = UInt64(windows.page_bytes)
            trapISA = windows.trap_isa
            trapSide = windows.trap_side
        }

        package var pageCount: UInt64 { size == 0 ? 0 : size / pageSize }

        package func contains(_ address: UInt64) -> Bool { address &- start < size }
    }

    package var classes: [SizeClass]
    /// Regions of the size classes: contiguous, 2^shift bytes each.
    package var slabs: (start: UInt64, size: UInt64, shift: UInt64)
    package var large: Area
    package var isolated: Area
    package var windows: Windows
    /// Table of classes. Each word is a metadata pointer with the language in its low bits.
    package var classTable: UInt64
    package var classTableCount: UInt64
    /// Pairs of processor ticks and time of day: at the start, and at the last finding or check of memory pressure.
    package var firstTime: zg_layout_time
    package var lastTime: zg_layout_time
    /// Trap regions, as input of the runtime's own decoder; nil if there are none or their shifts are out of range.
    package var trapRegions: zg_traps?
    package var traps: Traps
    package var spans: UInt64
    package var spanCount: UInt64
    package var nodes: UInt64
    package var nodeCount: UInt64
    /// Layout of the retain and release history; nil if history is off or its layout is inconsistent.
    package var counts: zg_layout_counts?
    /// Table of the address ranges that the runtime has mapped: struct zg_layout_range.
    package var ownRanges: UInt64
    package var ownRangeCount: UInt64
    /// Code with which the stopped process can be copied; `code` 0 if there is none.
    package var snapshot: zg_layout_snapshot
    /// Whether the sizes of all records match this version.
    package var isKnown: Bool

    private static let mostOwnRanges: UInt64 = 1 << 16

    init(_ layout: zg_layout) {
        let all = withUnsafeBytes(of: layout.classes) { Array($0.bindMemory(to: zg_layout_class.self)) }
        classes = all.prefix(Int(layout.class_count)).map {
            SizeClass(
                slots: $0.slots_base, blocks: $0.blocks_base, deaths: $0.deaths_base,
                count: $0.slots_used, slotSize: UInt64($0.slot_bytes), trapISA: $0.trap_isa,
                trapSide: $0.trap_side, trapWord: $0.trap_word)
        }
        traps = Traps(
            isaShift: UInt64(layout.trap_isa_shift), sideShift: UInt64(layout.trap_side_shift),
            wordShift: UInt64(layout.trap_word_shift), slotMask: (1 << UInt64(layout.trap_slots_shift)) &- 1,
            byteMask: (1 << UInt64(layout.trap_words_shift)) &- 1, spanISA: layout.span_trap_isa,
            spanSide: layout.span_trap_side)
        slabs = (layout.slabs_base, layout.slabs_bytes, UInt64(layout.slabs_shift))
        large = Area(layout.large)
        isolated = Area(layout.isolated)
        windows = Windows(layout.windows)
        classTable = layout.class_table
        classTableCount = UInt64(layout.class_table_count)
        firstTime = layout.first_time
        lastTime = layout.last_time
        let shifts = (layout.traps.slots_shift, layout.traps.words_shift)
        trapRegions = (1...32).contains(shifts.0) && (4...48).contains(shifts.1) ? layout.traps : nil
        spans = layout.spans_base
        spanCount = layout.spans_used
        nodes = layout.nodes_base
        nodeCount = layout.nodes_used
        let entry = MemoryLayout<zg_count_entry>.size
        let change = MemoryLayout<zg_count_change>.size
        let isSensible =
            layout.counts.base != 0 && (40..<64).contains(layout.counts.set_shift) && layout.counts.changes <= 64
            && Int(layout.counts.entry_bytes) == entry + Int(layout.counts.changes) * change
        counts = isSensible ? layout.counts : nil
        snapshot = layout.snapshot
        ownRanges = layout.own_ranges
        ownRangeCount = min(layout.own_range_count, Self.mostOwnRanges)
        isKnown =
            Int(layout.block_bytes) == MemoryLayout<zg_block>.size
            && Int(layout.death_bytes) == MemoryLayout<zg_death>.size
            && Int(layout.span_bytes) == MemoryLayout<zg_span>.size
            && (windows.size == 0 || Int(layout.windows.record_bytes) == MemoryLayout<zg_alias>.size)
            && Int(layout.node_bytes) == MemoryLayout<zg_depot_node>.size
    }
}

extension zg_block {
    package var state: UInt32 { header & 0xff }
    /// Whether the block is quarantined and its contents are still the fill. False for zombies whose contents were
    /// restored after a finding (on_finding=continue), and for blocks with pages that were never touched.
    package var isQuarantined: Bool {
        state == zg_state_quarantined.rawValue && header & (ZG_HEADER_CONTENTS_RESTORED | ZG_HEADER_SPARSE) == 0
    }
    package var isSwiftZombie: Bool { header & ZG_HEADER_SWIFT != 0 }
    package var isZombie: Bool { header & (ZG_HEADER_SWIFT | ZG_HEADER_CXX) != 0 }
    package var slack: UInt64 { UInt64(header >> 16) }

    func isSame(as other: zg_block) -> Bool {
        header == other.header && alloc_stack == other.alloc_stack && free_stack == other.free_stack
            && alloc_thread == other.alloc_thread && free_thread == other.free_thread
    }
}
