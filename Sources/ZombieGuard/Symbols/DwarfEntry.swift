// Reads the attributes of one debugging information entry that reports need.

import CDwarf

/// A debugging information entry (DIE) of a function or of an inlined call.
struct DwarfEntry {
    var unit: DwarfUnit
    /// Offset of the entry in .debug_info.
    var offset: UInt64

    // Limit on references followed from an entry to the entry that has the name.
    private static let mostReferences = 16

    /// The linkage name of the function, or else its source name qualified with its namespaces and classes.
    ///
    /// g++ gives no linkage name to functions that other files cannot call: static functions, those in anonymous
    /// namespaces, and members of local classes, such as a lambda's `operator()`.
    var symbol: String? { symbol(within: Self.mostReferences) }

    private func symbol(within depth: Int) -> String? {
        if let linkage = value(of: [DW_AT_linkage_name, DW_AT_MIPS_linkage_name]) { return linkage.text }
        guard let (entry, name) = value(of: [DW_AT_name]) else { return nil }
        var scopes: [String] = []
        var isInClass = false
        for scope in entry.unit.functions.scopes(of: entry.offset) where depth > 0 {
            let outer = DwarfEntry(unit: entry.unit, offset: scope.entry)
            if scope.tag == DW_TAG_subprogram {
                // Stop at the enclosing function, whose name includes its own scopes. Nested functions of C have plain
                // names.
                guard isInClass else { break }
                scopes.append(outer.symbol(within: depth - 1).map(readableName) ?? "?")
                break
            }
            isInClass = scope.tag != DW_TAG_namespace
            scopes.append(outer.value(of: [DW_AT_name])?.text ?? (isInClass ? "{lambda()}" : "(anonymous namespace)"))
        }
        return (scopes.reversed() + [name]).joined(separator: "::")
    }

    /// The call site of an inlined function.
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

    /// The first string among the attributes `names` of this entry, its abstract origin and its specification. Also
    /// returns the entry that has the string.
    private func value(of names: [Int]) -> (entry: DwarfEntry, text: String)? {
        var waiting = [self]
        var asked = 0
        while let entry = waiting.popLast(), asked < Self.mostReferences {
            asked += 1
            var found: DwarfValue?
            entry.forEachAttribute { name, value in
                if names.contains(name) {
                    found = found ?? value
                } else if name == DW_AT_abstract_origin || name == DW_AT_specification {
                    if let next = entry.resolveReference(value) { waiting.append(next) }
                }
            }
            if let found, let text = entry.unit.text(found) { return (entry, text) }
        }
        return nil
    }

    private func resolveReference(_ value: DwarfValue) -> DwarfEntry? {
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
