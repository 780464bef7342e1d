// Decodes and skips attribute values by their DWARF form.

import CDwarf

/// Parameters that decide how values are encoded: DWARF version of the unit, size of an address and of an offset.
struct DwarfEncoding: Hashable {
    var version: UInt16
    var addressSize: UInt8
    /// 4, or 8 in the 64-bit format.
    var offsetSize: UInt8
}

/// An attribute value as encoded. Strings, lists and addresses in other sections are given by their offset or index.
enum DwarfValue {
    case none
    case number(UInt64)
    case signed(Int64)
    case address(UInt64)
    /// Index in the unit's part of .debug_addr.
    case addressIndex(UInt64)
    /// Offset in another section; the attribute determines the section.
    case sectionOffset(UInt64)
    /// Index in the unit's offset table of range lists.
    case listIndex(UInt64)
    /// Offset in .debug_info of a string stored in the entry itself.
    case inlineText(UInt64)
    case text(UInt64)
    case lineText(UInt64)
    case textIndex(UInt64)
    case alternateText(UInt64)
    /// Offset of an entry from the start of its unit.
    case unitReference(UInt64)
    /// Offset of an entry in .debug_info.
    case reference(UInt64)
    case alternateReference(UInt64)

    var number: UInt64? {
        switch self {
        case .number(let value), .sectionOffset(let value): value
        case .signed(let value): UInt64(exactly: value)
        default: nil
        }
    }
}

/// How to skip a value.
enum DwarfSkip {
    case bytes(UInt32)
    case variableNumber, text, block1, block2, block4, block
    /// The form is stored in front of the value (DW_FORM_indirect).
    case indirect
    case unknown
}

enum DwarfForm {
    static func skip(_ form: UInt64, _ encoding: DwarfEncoding) -> DwarfSkip {
        let offset = UInt32(encoding.offsetSize)
        let address = UInt32(encoding.addressSize)
        switch Int(truncatingIfNeeded: form) {
        case DW_FORM_flag_present, DW_FORM_implicit_const: return .bytes(0)
        case DW_FORM_data1, DW_FORM_ref1, DW_FORM_flag, DW_FORM_strx1, DW_FORM_addrx1: return .bytes(1)
        case DW_FORM_data2, DW_FORM_ref2, DW_FORM_strx2, DW_FORM_addrx2: return .bytes(2)
        case DW_FORM_strx3, DW_FORM_addrx3: return .bytes(3)
        case DW_FORM_data4, DW_FORM_ref4, DW_FORM_strx4, DW_FORM_addrx4, DW_FORM_ref_sup4: return .bytes(4)
        case DW_FORM_data8, DW_FORM_ref8, DW_FORM_ref_sig8, DW_FORM_ref_sup8: return .bytes(8)
        case DW_FORM_data16: return .bytes(16)
        case DW_FORM_addr: return .bytes(address)
        case DW_FORM_ref_addr: return .bytes(encoding.version < 3 ? address : offset)
        case DW_FORM_strp, DW_FORM_line_strp, DW_FORM_strp_sup, DW_FORM_sec_offset, DW_FORM_GNU_ref_alt,
            DW_FORM_GNU_strp_alt:
            return .bytes(offset)
        case DW_FORM_sdata, DW_FORM_udata, DW_FORM_ref_udata, DW_FORM_strx, DW_FORM_addrx, DW_FORM_loclistx,
            DW_FORM_rnglistx, DW_FORM_GNU_addr_index, DW_FORM_GNU_str_index:
            return .variableNumber
        case DW_FORM_string: return .text
        case DW_FORM_block1: return .block1
        case DW_FORM_block2: return .block2
        case DW_FORM_block4: return .block4
        case DW_FORM_block, DW_FORM_exprloc: return .block
        case DW_FORM_indirect: return .indirect
        default: return .unknown
        }
    }

    /// Reads a value. Blocks and other values that reports do not need are skipped.
    static func read(
        _ form: UInt64, constant: Int64, _ cursor: inout ByteCursor, _ encoding: DwarfEncoding
    ) -> DwarfValue {
        let offsetSize = Int(encoding.offsetSize)
        switch Int(truncatingIfNeeded: form) {
        case DW_FORM_addr: return .address(cursor.number(bytes: Int(encoding.addressSize)))
        case DW_FORM_data1, DW_FORM_flag: return .number(UInt64(cursor.number(UInt8.self)))
        case DW_FORM_data2: return .number(UInt64(cursor.number(UInt16.self)))
        case DW_FORM_data4: return .number(UInt64(cursor.number(UInt32.self)))
        case DW_FORM_data8: return .number(cursor.number())
        case DW_FORM_udata: return .number(cursor.variableNumber())
        case DW_FORM_sdata: return .signed(cursor.signedNumber())
        case DW_FORM_implicit_const: return .signed(constant)
        case DW_FORM_flag_present: return .number(1)
        case DW_FORM_sec_offset: return .sectionOffset(cursor.number(bytes: offsetSize))
        case DW_FORM_rnglistx: return .listIndex(cursor.variableNumber())
        case DW_FORM_string:
            let start = cursor.position
            cursor.skipText()
            return .inlineText(start)
        case DW_FORM_strp: return .text(cursor.number(bytes: offsetSize))
        case DW_FORM_line_strp: return .lineText(cursor.number(bytes: offsetSize))
        case DW_FORM_strp_sup, DW_FORM_GNU_strp_alt: return .alternateText(cursor.number(bytes: offsetSize))
        case DW_FORM_strx, DW_FORM_GNU_str_index: return .textIndex(cursor.variableNumber())
        case DW_FORM_strx1, DW_FORM_strx2, DW_FORM_strx3, DW_FORM_strx4:
            return .textIndex(cursor.number(bytes: Int(form) - DW_FORM_strx1 + 1))
        case DW_FORM_addrx, DW_FORM_GNU_addr_index: return .addressIndex(cursor.variableNumber())
        case DW_FORM_addrx1, DW_FORM_addrx2, DW_FORM_addrx3, DW_FORM_addrx4:
            return .addressIndex(cursor.number(bytes: Int(form) - DW_FORM_addrx1 + 1))
        case DW_FORM_ref1: return .unitReference(cursor.number(bytes: 1))
        case DW_FORM_ref2: return .unitReference(cursor.number(bytes: 2))
        case DW_FORM_ref4: return .unitReference(cursor.number(bytes: 4))
        case DW_FORM_ref8: return .unitReference(cursor.number(bytes: 8))
        case DW_FORM_ref_udata: return .unitReference(cursor.variableNumber())
        case DW_FORM_ref_addr:
            return .reference(cursor.number(bytes: encoding.version < 3 ? Int(encoding.addressSize) : offsetSize))
        case DW_FORM_GNU_ref_alt: return .alternateReference(cursor.number(bytes: offsetSize))
        case DW_FORM_ref_sup4: return .alternateReference(cursor.number(bytes: 4))
        case DW_FORM_ref_sup8: return .alternateReference(cursor.number(bytes: 8))
        case DW_FORM_indirect:
            let inner = cursor.variableNumber()
            // A chain of DW_FORM_indirect is rejected: no compiler writes one, and each link would be a recursive call.
            guard inner != UInt64(DW_FORM_indirect), inner != UInt64(DW_FORM_implicit_const) else { return .none }
            return read(inner, constant: 0, &cursor, encoding)
        default:
            skip(form, &cursor, encoding)
            return .none
        }
    }

    /// Skips a value; false if the form is unknown, in which case nothing behind the value can be located either.
    @discardableResult
    static func skip(_ form: UInt64, _ cursor: inout ByteCursor, _ encoding: DwarfEncoding) -> Bool {
        skip(skip(form, encoding), &cursor, encoding)
    }

    @inline(__always) @discardableResult
    static func skip(_ skip: DwarfSkip, _ cursor: inout ByteCursor, _ encoding: DwarfEncoding) -> Bool {
        switch skip {
        case .bytes(let count): cursor.skip(UInt64(count))
        case .variableNumber: _ = cursor.variableNumber()
        case .text: cursor.skipText()
        case .block1: cursor.skip(UInt64(cursor.number(UInt8.self)))
        case .block2: cursor.skip(UInt64(cursor.number(UInt16.self)))
        case .block4: cursor.skip(UInt64(cursor.number(UInt32.self)))
        case .block: cursor.skip(cursor.variableNumber())
        case .indirect:
            let inner = cursor.variableNumber()
            return inner != UInt64(DW_FORM_indirect) && Self.skip(inner, &cursor, encoding)
        case .unknown: return false
        }
        return true
    }
}
