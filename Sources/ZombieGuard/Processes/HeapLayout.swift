// Where the metadata of a guarded heap lies, and its records, read from outside.

import CZombie

/// Where the metadata of a guarded heap lies in its process.
struct HeapLayout: Sendable {
    struct SizeClass: Sendable {
        var slots: UInt64
        var blocks: UInt64
        var count: UInt64
        var slotSize: UInt64
        var trapISA: UInt64
        var trapSide: UInt64
        var trapWord: UInt64
    }

    /// Where dead objects' trap pointers lie: see struct zg_layout.
    struct Traps: Sendable {
        var isaShift: UInt64
        var sideShift: UInt64
        var wordShift: UInt64
        var slotMask: UInt64
        var byteMask: UInt64
        var spanISA: UInt64
        var spanSide: UInt64
    }

    var classes: [SizeClass]
    var traps: Traps
    var spans: UInt64
    var spanCount: UInt64
    var nodes: UInt64
    var nodeCount: UInt64
    /// Whether the records have the sizes that this version knows.
    var isKnown: Bool

    init(_ layout: zg_layout) {
        let all = withUnsafeBytes(of: layout.classes) { Array($0.bindMemory(to: zg_layout_class.self)) }
        classes = all.prefix(Int(layout.class_count)).map {
            SizeClass(
                slots: $0.slots_base, blocks: $0.blocks_base, count: $0.slots_used, slotSize: UInt64($0.slot_bytes),
                trapISA: $0.trap_isa, trapSide: $0.trap_side, trapWord: $0.trap_word)
        }
        traps = Traps(
            isaShift: UInt64(layout.trap_isa_shift), sideShift: UInt64(layout.trap_side_shift),
            wordShift: UInt64(layout.trap_word_shift), slotMask: (1 << UInt64(layout.trap_slots_shift)) &- 1,
            byteMask: (1 << UInt64(layout.trap_words_shift)) &- 1, spanISA: layout.span_trap_isa,
            spanSide: layout.span_trap_side)
        spans = layout.spans_base
        spanCount = layout.spans_used
        nodes = layout.nodes_base
        nodeCount = layout.nodes_used
        isKnown =
            Int(layout.block_bytes) == MemoryLayout<zg_block>.size
            && Int(layout.span_bytes) == MemoryLayout<zg_span>.size
            && Int(layout.node_bytes) == MemoryLayout<zg_depot_node>.size
    }
}

/// The memory of another process.
struct ProcessMemory {
    private let file: Descriptor

    init(processID: Int) throws(ProcessError) {
        do throws(SystemError) {
            file = try Descriptor(opening: "/proc/\(processID)/mem")
        } catch {
            throw ProcessError(processID, error)
        }
    }

    /// Up to `count` bytes; fewer where not all of them can be read.
    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        count <= 0 ? [] : (try? file.read(at: address, upTo: count)) ?? []
    }

    /// Records of a C type out of an array; fewer where not all of them can be read.
    func records<Record: BitwiseCopyable>(_: Record.Type, at address: UInt64, count: Int) -> [Record] {
        let size = MemoryLayout<Record>.stride
        let bytes = read(at: address, upTo: count * size)
        return bytes.withUnsafeBytes { buffer in
            (0..<(buffer.count / size)).map { buffer.loadUnaligned(fromByteOffset: $0 * size, as: Record.self) }
        }
    }
}

extension zg_block {
    var state: UInt32 { header & 0xff }
    /// Dead, and its contents are what the runtime wrote. Objects that the program goes on using after a finding are not.
    var isQuarantined: Bool { state == zg_state_quarantined.rawValue && header & ZG_HEADER_OPENED == 0 }
    var isSwiftZombie: Bool { header & ZG_HEADER_SWIFT != 0 }
    var isZombie: Bool { header & (ZG_HEADER_SWIFT | ZG_HEADER_CXX) != 0 }
    var slack: UInt64 { UInt64(header >> 16) }

    func isSame(as other: zg_block) -> Bool {
        header == other.header && alloc_stack == other.alloc_stack && free_stack == other.free_stack
            && alloc_thread == other.alloc_thread && free_thread == other.free_thread
    }
}
