// Finds the parts of one unit in a package of split debug information (.dwp).

import CDwarf

/// The index .debug_cu_index of a package, versions 2 (GNU, DWARF 4) and 5.
struct DwarfPackage {
    /// Offsets of one unit's contributions in the sections of the package.
    struct Part {
        var info: UInt64
        var abbreviations: UInt64 = 0
        var textOffsets: UInt64 = 0
        var rangeLists: UInt64 = 0
    }

    // Section identifiers (DW_SECT_…) of the index.
    private enum Column { static let info = 1, abbreviations = 3, textOffsets = 6, rangeLists = 8 }

    private static let mostColumns: UInt64 = 16

    /// The contributions of the unit with this dwo_id; nil if the package does not have it.
    static func part(of id: UInt64, in elf: ELFFile) -> Part? {
        let index = elf.contents(".debug_cu_index")
        var cursor = ByteCursor(index)
        let version: UInt32 = cursor.number()
        let columns = UInt64(cursor.number(UInt32.self))
        let units = UInt64(cursor.number(UInt32.self))
        let slots = UInt64(cursor.number(UInt32.self))
        // In version 5, two zero bytes of padding follow the two bytes of this field, so 4 bytes can be read in both
        // versions.
        guard version == 2 || version == 5, !cursor.failed, (1...mostColumns).contains(columns),
            slots <= UInt64(index.count) / 12
        else {
            return nil
        }
        var row: UInt64?
        for slot in 0..<slots {
            var hash = ByteCursor(index, at: 16 + slot * 8)
            var number = ByteCursor(index, at: 16 + slots * 8 + slot * 4)
            let found = UInt64(number.number(UInt32.self))
            if hash.number(UInt64.self) == id, found > 0, found <= units { row = found }
        }
        guard let row else { return nil }
        let header = 16 + slots * 12
        var part = Part(info: 0)
        var hasInfo = false
        for column in 0..<columns {
            var name = ByteCursor(index, at: header + column * 4)
            var value = ByteCursor(index, at: header + (row * columns + column) * 4)
            let offset = UInt64(value.number(UInt32.self))
            if value.failed { return nil }
            switch Int(name.number(UInt32.self)) {
            case Column.info: (part.info, hasInfo) = (offset, true)
            case Column.abbreviations: part.abbreviations = offset
            case Column.textOffsets: part.textOffsets = offset
            case Column.rangeLists where version == 5: part.rangeLists = offset
            default: break
            }
        }
        return hasInfo ? part : nil
    }
}
