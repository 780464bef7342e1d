// Reads abbreviation tables (.debug_abbrev), which define the layout of the entries of a unit.

import CDwarf

/// One abbreviation: the layout of all entries that have its abbreviation code.
struct DwarfAbbreviation {
    struct Attribute {
        var name: UInt16
        var form: UInt64
        var constant: Int64
    }

    var tag: UInt16
    var hasChildren: Bool
    /// Whether these entries have addresses of their own (DW_AT_low_pc or DW_AT_ranges).
    var hasCode = false
    /// Total size of the values in bytes; nil if it varies between entries.
    var size: UInt32?
    /// Offset of the DW_AT_sibling value behind the abbreviation code; nil unless it is at a fixed offset and a
    /// DW_FORM_ref4.
    var sibling: UInt32?
    var attributes: Range<Int>
    /// The steps that skip all values, as indices of `DwarfAbbreviations.skips`.
    var skips: Range<Int>
}

/// The subset of an abbreviation that is needed to skip an entry. Compact, because units have millions of entries.
struct DwarfShape {
    /// As in `DwarfAbbreviation`; `differs` if the size varies.
    var size: UInt32
    var tag: UInt16
    var hasChildren: Bool
    /// Whether DW_AT_sibling is used to skip the subtree, because no child can be a function with code.
    var skipsChildren: Bool

    static let differs = UInt32.max

    init(_ abbreviation: DwarfAbbreviation) {
        size = abbreviation.size ?? Self.differs
        (tag, hasChildren) = (abbreviation.tag, abbreviation.hasChildren)
        switch Int(abbreviation.tag) {
        case DW_TAG_enumeration_type, DW_TAG_array_type, DW_TAG_subroutine_type, DW_TAG_call_site,
            DW_TAG_GNU_call_site:
            skipsChildren = abbreviation.sibling != nil
        default: skipsChildren = false
        }
    }
}

/// One abbreviation table.
final class DwarfAbbreviations {
    private(set) var entries: [DwarfAbbreviation] = []
    /// The shape of each element of `entries`.
    private(set) var shapes: [DwarfShape] = []
    private(set) var attributes: [DwarfAbbreviation.Attribute] = []
    private(set) var skips: [DwarfSkip] = []
    // Index by abbreviation code. Empty if the codes are 1, 2, 3, …: all compilers number them so.
    private var others: [UInt64: Int] = [:]

    /// Whether code n belongs to the nth entry.
    var isDense: Bool { others.isEmpty }

    private static let mostEntries = 1 << 20

    /// Reads the table at an offset, up to the first damaged entry.
    init(_ section: UnsafeRawBufferPointer, at offset: UInt64, _ encoding: DwarfEncoding) {
        var cursor = ByteCursor(section, at: offset)
        while entries.count < Self.mostEntries {
            let code = cursor.variableNumber()
            guard code != 0, !cursor.failed, let entry = readEntry(&cursor, encoding) else { return }
            if code != UInt64(entries.count + 1), others.isEmpty {
                for index in entries.indices { others[UInt64(index + 1)] = index }
            }
            if code != UInt64(entries.count + 1) || !others.isEmpty { others[code] = entries.count }
            entries.append(entry)
            shapes.append(DwarfShape(entry))
        }
    }

    /// Index of the entry with a code; nil if there is none.
    @inline(__always)
    func index(of code: UInt64) -> Int? {
        if !others.isEmpty { return others[code] }
        return code &- 1 < UInt64(entries.count) ? Int(code &- 1) : nil
    }

    private func readEntry(_ cursor: inout ByteCursor, _ encoding: DwarfEncoding) -> DwarfAbbreviation? {
        let tag = cursor.variableNumber()
        let hasChildren = cursor.number(UInt8.self) != 0
        let firstAttribute = attributes.count
        let firstSkip = skips.count
        var hasCode = false
        var sibling: UInt32?
        var fixed: UInt32 = 0
        while !cursor.failed {
            let name = cursor.variableNumber()
            let form = cursor.variableNumber()
            let constant = form == UInt64(DW_FORM_implicit_const) ? cursor.signedNumber() : 0
            if name == 0, form == 0 { break }
            attributes.append(
                DwarfAbbreviation.Attribute(name: UInt16(truncatingIfNeeded: name), form: form, constant: constant))
            switch Int(truncatingIfNeeded: name) {
            case DW_AT_low_pc, DW_AT_ranges: hasCode = true
            case DW_AT_sibling where skips.count == firstSkip && form == UInt64(DW_FORM_ref4): sibling = fixed
            default: break
            }
            let skip = DwarfForm.skip(form, encoding)
            if case .bytes(let count) = skip {
                fixed &+= count
            } else {
                if fixed > 0 { skips.append(.bytes(fixed)) }
                fixed = 0
                skips.append(skip)
            }
        }
        if cursor.failed { return nil }
        let isFixed = skips.count == firstSkip
        if fixed > 0, !isFixed { skips.append(.bytes(fixed)) }
        return DwarfAbbreviation(
            tag: UInt16(truncatingIfNeeded: tag), hasChildren: hasChildren, hasCode: hasCode,
            size: isFixed ? fixed : nil, sibling: sibling, attributes: firstAttribute..<attributes.count,
            skips: firstSkip..<skips.count)
    }
}
