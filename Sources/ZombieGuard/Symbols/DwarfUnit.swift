// Reads the root entry of one unit, and resolves the addresses, strings and ranges that its entries refer to.

import CDwarf

final class DwarfUnit {
    // Unowned: the file owns its units and outlives them.
    unowned(unsafe) let file: DwarfFile
    let header: DwarfUnitHeader
    let encoding: DwarfEncoding
    let isSplit: Bool

    /// Base address of the unit's range lists.
    private(set) var base: UInt64 = 0
    /// Offset of the line table in .debug_line; nil if the unit has none.
    private(set) var statements: UInt64?
    /// Working directory of the compiler.
    private(set) lazy var directory = text(directoryValue)
    /// Name of the split debug file (.dwo), and the dwo_id that the skeleton shares with the split unit.
    private(set) lazy var splitName = text(splitValue)
    private(set) var splitID: UInt64?

    private var directoryValue = DwarfValue.none
    private var splitValue = DwarfValue.none

    private var high = DwarfValue.none
    private var low = DwarfValue.none
    private var list = DwarfValue.none
    private var textOffsets: UInt64
    private(set) var addresses: UInt64
    private var rangeLists: UInt64
    // Base offset of a split unit's ranges, which in version 4 are in the skeleton's file (DW_AT_GNU_ranges_base).
    private var gnuRangesBase: UInt64 = 0
    private let skeleton: DwarfUnit?

    private(set) lazy var abbreviations = file.abbreviations(at: header.abbreviations, encoding)
    private(set) lazy var functions = {
        isRead = true
        ELFFile.fetch(bytes)
        return DwarfFunctions(self)
    }()

    /// Whether `functions` has been built. Building it reads all entries.
    private(set) var isRead = false

    /// The unit's bytes in .debug_info, header included.
    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: file.info[Int(header.offset)..<Int(header.end)])
    }

    /// Reads the root entry. `part` locates the unit's sections in a package. nil for type units and unreadable ones.
    init?(_ file: DwarfFile, _ header: DwarfUnitHeader, skeleton: DwarfUnit? = nil, part: DwarfPackage.Part? = nil) {
        self.file = file
        self.header = header
        self.skeleton = skeleton
        encoding = header.encoding
        isSplit = file.isSplit
        splitID = header.splitID
        let isNew = encoding.version >= 5
        let headerSize: UInt64 = encoding.offsetSize == 8 ? 16 : 8
        textOffsets = (part?.textOffsets ?? 0) + (isNew ? headerSize : 0)
        rangeLists = (part?.rangeLists ?? 0) + headerSize + 4
        addresses = skeleton?.addresses ?? headerSize
        gnuRangesBase = skeleton?.gnuRangesBase ?? 0
        base = skeleton?.base ?? 0
        if header.isTypeUnit { return nil }

        var values: [(name: Int, value: DwarfValue)] = []
        guard readRoot(into: &values) else { return nil }
        func value(_ names: Int...) -> DwarfValue {
            values.first { names.contains($0.name) }?.value ?? .none
        }
        // Read the section bases first: the other values are relative to them.
        if case .sectionOffset(let offset) = value(DW_AT_str_offsets_base) { textOffsets = offset }
        if let offset = value(DW_AT_addr_base, DW_AT_GNU_addr_base).number { addresses = offset }
        if case .sectionOffset(let offset) = value(DW_AT_rnglists_base) { rangeLists = offset }
        if let offset = value(DW_AT_GNU_ranges_base).number { gnuRangesBase = offset }
        (low, high, list) = (value(DW_AT_low_pc), value(DW_AT_high_pc), value(DW_AT_ranges))
        if let start = address(low) { base = start }
        statements = value(DW_AT_stmt_list).number
        directoryValue = value(DW_AT_comp_dir)
        splitValue = value(DW_AT_dwo_name, DW_AT_GNU_dwo_name)
        if let id = value(DW_AT_GNU_dwo_id).number { splitID = id }
    }

    // Reads only the abbreviation of the root entry, because the table may be large.
    private func readRoot(into values: inout [(name: Int, value: DwarfValue)]) -> Bool {
        var cursor = ByteCursor(file.info, at: header.entries, end: header.end)
        let code = cursor.variableNumber()
        guard !cursor.failed, code != 0 else { return false }
        var table = ByteCursor(file.abbreviations, at: header.abbreviations)
        while case let next = table.variableNumber(), next != 0, !table.failed {
            let tag = Int(truncatingIfNeeded: table.variableNumber())
            _ = table.number(UInt8.self)
            var count = 1
            while !table.failed {
                let name = Int(truncatingIfNeeded: table.variableNumber())
                let form = table.variableNumber()
                let constant = form == UInt64(DW_FORM_implicit_const) ? table.signedNumber() : 0
                if name == 0, form == 0 { break }
                count += 1
                if next == code {
                    values.append((name, DwarfForm.read(form, constant: constant, &cursor, encoding)))
                }
            }
            if next == code {
                return [DW_TAG_compile_unit, DW_TAG_partial_unit, DW_TAG_skeleton_unit].contains(tag) && !table.failed
            }
            guard file.countWork(count) else { return false }
        }
        return false
    }

    // MARK: Values

    func address(_ value: DwarfValue) -> UInt64? {
        switch value {
        case .address(let address): return address
        case .addressIndex(let index): return address(at: index)
        default: return nil
        }
    }

    private func address(at index: UInt64) -> UInt64? {
        // A split unit uses .debug_addr of its skeleton's file.
        let section = (skeleton ?? self).file.addresses
        let (place, overflow) = index.multipliedReportingOverflow(by: 8)
        guard !overflow, place <= UInt64(section.count) else { return nil }
        var cursor = ByteCursor(section, at: addresses &+ place)
        let address: UInt64 = cursor.number()
        return cursor.failed ? nil : address
    }

    func text(_ value: DwarfValue) -> String? {
        var cursor: ByteCursor
        switch value {
        case .inlineText(let offset): cursor = ByteCursor(file.info, at: offset)
        case .text(let offset): cursor = ByteCursor(file.texts, at: offset)
        case .lineText(let offset): cursor = ByteCursor(file.lineTexts, at: offset)
        case .alternateText(let offset):
            guard let texts = file.alternate?.texts else { return nil }
            cursor = ByteCursor(texts, at: offset)
        case .textIndex(let index):
            let size = UInt64(encoding.offsetSize)
            guard index < UInt64(file.textOffsets.count) else { return nil }
            var place = ByteCursor(file.textOffsets, at: textOffsets &+ index * size)
            cursor = ByteCursor(file.texts, at: place.number(bytes: Int(size)))
            if place.failed { return nil }
        default: return nil
        }
        let text = cursor.text()
        return cursor.failed ? nil : text
    }

    /// The address ranges of the whole unit.
    var ranges: [Range<UInt64>] { ranges(low: low, high: high, list: list) }

    /// The address ranges of an entry with these attribute values.
    func ranges(low: DwarfValue, high: DwarfValue, list: DwarfValue) -> [Range<UInt64>] {
        if case .none = list {
            guard let start = address(low) else { return [] }
            let end = address(high) ?? high.number.map { start &+ $0 }
            guard let end, Self.isLive(start), start < end else { return [] }
            return [start..<end]
        }
        switch list {
        case .listIndex(let index):
            let size = UInt64(encoding.offsetSize)
            guard index < UInt64(file.rangeLists.count) else { return [] }
            var place = ByteCursor(file.rangeLists, at: rangeLists &+ index * size)
            let offset = place.number(bytes: Int(size))
            return place.failed ? [] : DwarfRanges.read(file.rangeLists, at: rangeLists &+ offset, in: self)
        default:
            guard let offset = list.number else { return [] }
            if encoding.version >= 5 { return DwarfRanges.read(file.rangeLists, at: offset, in: self) }
            guard isSplit, let skeleton else { return DwarfRanges.readDebugRanges(file.ranges, at: offset, in: self) }
            return DwarfRanges.readDebugRanges(skeleton.file.ranges, at: offset &+ gnuRangesBase, in: self)
        }
    }

    /// False for code that the linker discarded: its addresses are 0, or a tombstone of -1 or -2.
    @inline(__always)
    static func isLive(_ address: UInt64) -> Bool { address > 0 && address < .max - 1 }
}
