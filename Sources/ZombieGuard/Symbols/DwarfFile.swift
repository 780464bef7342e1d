// The debug sections of one file, and its unit headers.

import CDwarf

/// The debug information of one file. Damaged sections give fewer answers; no byte outside a section is read.
final class DwarfFile {
    let elf: ELFFile
    let isSplit: Bool
    let info: UnsafeRawBufferPointer
    let abbreviations: UnsafeRawBufferPointer
    let ranges: UnsafeRawBufferPointer
    let rangeLists: UnsafeRawBufferPointer
    private(set) lazy var addresses = small(elf.contents(".debug_addr"))
    private(set) lazy var addressRanges = elf.contents(".debug_aranges")
    private(set) lazy var lines = section(".debug_line")
    private(set) lazy var lineTexts = elf.contents(".debug_line_str")
    private(set) lazy var texts = small(section(".debug_str"))
    private(set) lazy var textOffsets = small(section(".debug_str_offsets"))
    /// The supplementary file to which dwz moved common entries; nil if there is none, or if it belongs to another
    /// build.
    private(set) lazy var alternate: DwarfFile? = findAlternate(elf)

    private let findAlternate: (ELFFile) -> DwarfFile?
    private var tables: [TableKey: DwarfAbbreviations] = [:]
    private var units: [UInt64: DwarfUnit] = [:]

    /// Number of entries, tables and lists read since `resetWorkLimit()`. Bounded, because a damaged file can make
    /// lookups read the same entries repeatedly.
    @exclusivity(unchecked) private var work = 0
    private static let mostWork = 1 << 28

    private struct TableKey: Hashable {
        var offset: UInt64
        var encoding: DwarfEncoding
    }

    /// `findAlternate` opens the file that .gnu_debugaltlink names.
    init(_ elf: ELFFile, isSplit: Bool = false, findAlternate: @escaping (ELFFile) -> DwarfFile? = { _ in nil }) {
        self.elf = elf
        self.isSplit = isSplit
        self.findAlternate = findAlternate
        let suffix = isSplit ? ".dwo" : ""
        info = elf.contents(".debug_info" + suffix)
        abbreviations = elf.contents(".debug_abbrev" + suffix)
        ranges = elf.contents(".debug_ranges")
        rangeLists = elf.contents(".debug_rnglists" + suffix)
        for section in [abbreviations, ranges, rangeLists] { ELFFile.prefetchIfSmall(section) }
    }

    private func section(_ name: String) -> UnsafeRawBufferPointer { elf.contents(isSplit ? name + ".dwo" : name) }

    private func small(_ section: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        ELFFile.prefetchIfSmall(section)
        return section
    }

    /// Resets the work counter before a new lookup.
    func resetWorkLimit() { work = 0 }

    /// Counts `count` steps; false when the limit is reached.
    func countWork(_ count: Int) -> Bool {
        work &+= count
        return work < Self.mostWork
    }

    func abbreviations(at offset: UInt64, _ encoding: DwarfEncoding) -> DwarfAbbreviations {
        let key = TableKey(offset: offset, encoding: encoding)
        if let known = tables[key] { return known }
        guard countWork(0) else {
            return DwarfAbbreviations(UnsafeRawBufferPointer(start: nil, count: 0), at: 0, encoding)
        }
        let table = DwarfAbbreviations(abbreviations, at: offset, encoding)
        _ = countWork(table.attributes.count + table.entries.count)
        tables[key] = table
        return table
    }

    // MARK: Units

    /// The unit whose header is at an offset; nil if it is unreadable.
    func unit(at offset: UInt64) -> DwarfUnit? {
        if let known = units[offset] { return known }
        guard let header = DwarfUnitHeader(info, at: offset), let unit = DwarfUnit(self, header) else { return nil }
        units[offset] = unit
        return unit
    }

    /// The headers of all units except type units, in file order.
    private(set) lazy var headers: [DwarfUnitHeader] = {
        var headers: [DwarfUnitHeader] = []
        var offset: UInt64 = 0
        while let header = DwarfUnitHeader(info, at: offset) {
            if !header.isTypeUnit { headers.append(header) }
            offset = header.end
        }
        return headers
    }()

    /// The unit that contains an offset of .debug_info.
    func unit(around offset: UInt64) -> DwarfUnit? {
        let behind = partition(headers.count) { headers[$0].offset > offset }
        guard behind > 0, offset < headers[behind - 1].end else { return nil }
        return unit(at: headers[behind - 1].offset)
    }
}

/// A unit header in .debug_info.
struct DwarfUnitHeader {
    var offset: UInt64
    /// Offset of the next unit header.
    var end: UInt64
    /// Offset of the unit's first entry.
    var entries: UInt64
    var encoding: DwarfEncoding
    var abbreviations: UInt64
    var isTypeUnit: Bool
    /// The dwo_id that a skeleton unit and its split unit share.
    var splitID: UInt64?

    /// nil if the bytes are not a unit header.
    init?(_ info: UnsafeRawBufferPointer, at offset: UInt64) {
        var cursor = ByteCursor(info, at: offset)
        var length = UInt64(cursor.number(UInt32.self))
        let isLong = length == 0xffff_ffff
        if isLong { length = cursor.number() }
        guard !cursor.failed, length > 0, length <= UInt64(info.count) - cursor.position else { return nil }
        self.offset = offset
        end = cursor.position + length
        let version: UInt16 = cursor.number()
        let offsetSize = isLong ? 8 : 4
        var addressSize: UInt8 = 8
        var kind = DW_UT_compile
        if version >= 5 {
            kind = Int(cursor.number(UInt8.self))
            addressSize = cursor.number()
            abbreviations = cursor.number(bytes: offsetSize)
        } else {
            abbreviations = cursor.number(bytes: offsetSize)
            addressSize = cursor.number()
        }
        isTypeUnit = kind == DW_UT_type || kind == DW_UT_split_type
        if kind == DW_UT_skeleton || kind == DW_UT_split_compile { splitID = cursor.number() }
        encoding = DwarfEncoding(version: version, addressSize: addressSize, offsetSize: UInt8(offsetSize))
        entries = cursor.position
        guard !cursor.failed, entries <= end else { return nil }
        // The header of a unit with an unknown version or address size may have any layout. Treat the unit as a type
        // unit, which is skipped.
        if !(2...5).contains(version) || addressSize != 8 { isTypeUnit = true }
    }
}

/// Binary search: the first index below `count` for which `isInSecond` is true, or `count`. `isInSecond` must be false
/// for a prefix and true for the rest.
@inline(__always)
func partition(_ count: Int, _ isInSecond: (Int) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
        let middle = (low + high) / 2
        if isInSecond(middle) { high = middle } else { low = middle + 1 }
    }
    return low
}
