// One entry of a unit, and what reports need of it.

import CDwarf

/// An entry of debug information: a function, or one that was inlined.
struct DwarfEntry {
    var unit: DwarfUnit
    /// Where the entry stands in the section.
    var offset: UInt64

    // How many entries a name may be away from the function that has it.
    private static let mostReferences = 16

    /// What the linker calls the function, or else what the source does.
    var symbol: String? {
        text(of: [DW_AT_linkage_name, DW_AT_MIPS_linkage_name]) ?? text(of: [DW_AT_name])
    }

    /// Where an inlined function was called.
    var callSite: (file: UInt64, line: Int, column: Int)? {
        var file: UInt64?
        var line = 0
        var column = 0
        forEachAttribute { name, value in
            switch name {
            case DW_AT_call_file: file = value.number
            case DW_AT_call_line: line = value.number.flatMap { Int(exactly: $0) } ?? 0
            case DW_AT_call_column: column = value.number.flatMap { Int(exactly: $0) } ?? 0
            default: break
            }
        }
        return file.map { ($0, line, column) }
    }

    /// The first text that one of the attributes has, of this entry or of those that it stands for.
    private func text(of names: [Int]) -> String? {
        var waiting = [self]
        var asked = 0
        while let entry = waiting.popLast(), asked < Self.mostReferences {
            asked += 1
            var found: DwarfValue?
            entry.forEachAttribute { name, value in
                if names.contains(name) {
                    found = found ?? value
                } else if name == DW_AT_abstract_origin || name == DW_AT_specification {
                    if let next = entry.referred(value) { waiting.append(next) }
                }
            }
            if let found, let text = entry.unit.text(found) { return text }
        }
        return nil
    }

    private func referred(_ value: DwarfValue) -> DwarfEntry? {
        let file = unit.file
        switch value {
        case .unitReference(let distance):
            let (offset, overflow) = unit.header.offset.addingReportingOverflow(distance)
            return !overflow && offset < unit.header.end ? DwarfEntry(unit: unit, offset: offset) : nil
        case .reference(let offset):
            return file.unit(around: offset).map { DwarfEntry(unit: $0, offset: offset) }
        case .alternateReference(let offset):
            return file.alternate?.unit(around: offset).map { DwarfEntry(unit: $0, offset: offset) }
        default: return nil
        }
    }

    private func forEachAttribute(_ body: (Int, DwarfValue) -> Void) {
        var cursor = ByteCursor(unit.file.info, at: offset, end: unit.header.end)
        let table = unit.abbreviations
        guard let index = table.index(of: cursor.variableNumber()) else { return }
        for attribute in table.attributes[table.entries[index].attributes] {
            let value = DwarfForm.read(attribute.form, constant: attribute.constant, &cursor, unit.encoding)
            if cursor.failed { return }
            body(Int(attribute.name), value)
        }
    }
}
