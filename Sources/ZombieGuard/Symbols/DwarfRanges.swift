// Reads address range lists: .debug_ranges (DWARF 2 to 4) and .debug_rnglists (DWARF 5).

import CDwarf

enum DwarfRanges {
    private static let mostRanges = 1 << 22

    static func readDebugRanges(_ section: UnsafeRawBufferPointer, at offset: UInt64, in unit: DwarfUnit) -> [Range<
        UInt64
    >] {
        let file = unit.file
        var cursor = ByteCursor(section, at: offset)
        var base = unit.base
        var ranges: [Range<UInt64>] = []
        while ranges.count < mostRanges, file.countWork(1) {
            let start: UInt64 = cursor.number()
            let end: UInt64 = cursor.number()
            if cursor.failed || start == 0 && end == 0 { break }
            if start == .max {
                base = end
            } else if start != .max - 1 {
                append(base &+ start, base &+ end, to: &ranges)
            }
        }
        return ranges
    }

    static func read(_ section: UnsafeRawBufferPointer, at offset: UInt64, in unit: DwarfUnit) -> [Range<UInt64>] {
        let file = unit.file
        var cursor = ByteCursor(section, at: offset)
        var base = unit.base
        // If the linker discarded a base address, the ranges relative to it are dead, too.
        var isLive = true
        var ranges: [Range<UInt64>] = []
        func address(_ index: UInt64) -> UInt64 { unit.address(.addressIndex(index)) ?? 0 }
        while ranges.count < mostRanges, file.countWork(1), !cursor.failed {
            switch Int(cursor.number(UInt8.self)) {
            case DW_RLE_base_addressx:
                base = address(cursor.variableNumber())
                isLive = DwarfUnit.isLive(base)
            case DW_RLE_startx_endx:
                let start = address(cursor.variableNumber())
                append(start, address(cursor.variableNumber()), to: &ranges)
            case DW_RLE_startx_length:
                let start = address(cursor.variableNumber())
                append(start, start &+ cursor.variableNumber(), to: &ranges)
            case DW_RLE_offset_pair:
                let start = base &+ cursor.variableNumber()
                let end = base &+ cursor.variableNumber()
                if isLive { append(start, end, to: &ranges) }
            case DW_RLE_base_address:
                base = cursor.number()
                isLive = DwarfUnit.isLive(base)
            case DW_RLE_start_end:
                let start: UInt64 = cursor.number()
                append(start, cursor.number(), to: &ranges)
            case DW_RLE_start_length:
                let start: UInt64 = cursor.number()
                append(start, start &+ cursor.variableNumber(), to: &ranges)
            default: return ranges // DW_RLE_end_of_list, or unknown
            }
        }
        return ranges
    }

    @inline(__always)
    private static func append(_ start: UInt64, _ end: UInt64, to ranges: inout [Range<UInt64>]) {
        if DwarfUnit.isLive(start), start < end { ranges.append(start..<end) }
    }
}
