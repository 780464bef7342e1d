// Finds the functions of one unit by address, and the calls inlined into them.

import CDwarf

/// The functions of a unit that have code. Built by walking all entries once, because a function entry can be nested in
/// any other entry.
final class DwarfFunctions {
    struct Function {
        var range: Range<UInt64>
        /// Offset of the function's entry.
        var entry: UInt64
    }

    let unit: DwarfUnit
    // `functions` is sorted by start address. `ends[i]` is the largest end address among `functions[...i]`.
    private var functions: [Function] = []
    private var ends: [UInt64] = []

    private var scopesByEntry: [UInt64: Scopes] = [:]
    private static let mostScopes = 1024

    private static let entriesCountedAtOnce = 64

    /// A namespace, class or function, which may contain other entries.
    struct Scope {
        var entry: UInt64
        var end: UInt64
        var tag: Int
        /// Index of the innermost scope around this one.
        var outer: Int?
    }

    // All scopes of the unit, in file order. Read only when a function has no linkage name.
    private lazy var allScopes: [Scope] = {
        var all: [Scope] = []
        var open: [(depth: Int, index: Int)] = []
        walk(from: unit.header.entries, only: nil) { entry, _ in
            while let last = open.last, last.depth >= entry.depth {
                all[last.index].end = entry.offset
                open.removeLast()
            }
            switch entry.tag {
            case DW_TAG_namespace, DW_TAG_class_type, DW_TAG_structure_type, DW_TAG_union_type, DW_TAG_subprogram:
                all.append(Scope(entry: entry.offset, end: unit.header.end, tag: entry.tag, outer: open.last?.index))
                open.append((entry.depth, all.count - 1))
            default: break
            }
        }
        return all
    }()

    /// The scopes that an entry is in, innermost first.
    func scopes(of entry: UInt64) -> [Scope] {
        var found: [Scope] = []
        let after = partition(allScopes.count) { allScopes[$0].entry >= entry }
        var next = after > 0 ? after - 1 : nil
        while let index = next {
            if allScopes[index].end > entry { found.append(allScopes[index]) }
            next = allScopes[index].outer
        }
        return found
    }

    init(_ unit: DwarfUnit) {
        self.unit = unit
        collect()
        functions.sort { ($0.range.lowerBound, $0.entry) < ($1.range.lowerBound, $1.entry) }
        var end: UInt64 = 0
        ends = functions.map { function in
            end = max(end, function.range.upperBound)
            return end
        }
    }

    /// The function that contains an address. If several do, the function whose entry is last in the unit, because that
    /// is the innermost.
    func function(at address: UInt64) -> Function? {
        var index = partition(functions.count) { functions[$0].range.lowerBound > address }
        var found: Function?
        while index > 0, ends[index - 1] > address {
            index -= 1
            let function = functions[index]
            if function.range.contains(address), function.entry >= found?.entry ?? 0 { found = function }
        }
        return found
    }

    /// The functions inlined at an address of a function, outermost first.
    func inlined(at address: UInt64, in function: Function) -> [DwarfEntry] {
        let scopes = scopes(of: function)
        var chain: [DwarfEntry] = []
        var next = scopes.innermost(at: address)
        while let number = next {
            chain.append(DwarfEntry(unit: unit, offset: scopes.entries[number].entry))
            next = scopes.entries[number].parent
        }
        return chain.reversed()
    }

    /// The entry of the innermost function inlined at an address; nil if there is none.
    func innermost(at address: UInt64, in function: Function) -> UInt64? {
        let scopes = scopes(of: function)
        return scopes.innermost(at: address).map { scopes.entries[$0].entry }
    }

    /// The calls inlined into one function.
    private struct Scopes {
        /// Entries of inlined calls, each with the index of its parent in this array.
        var entries: [(entry: UInt64, parent: Int?)] = []
        /// Address ranges of the entries, in file order, so that inner calls follow outer ones.
        var ranges: [(range: Range<UInt64>, number: Int)] = []

        func innermost(at address: UInt64) -> Int? { ranges.last { $0.range.contains(address) }?.number }
    }

    private func scopes(of function: Function) -> Scopes {
        if let known = scopesByEntry[function.entry] { return known }
        var scopes = Scopes()
        var around: [(depth: Int, number: Int)] = []
        var nested: Int? // depth of a function entry nested in this one, whose inlined calls are skipped
        // Visit entries of every tag, because each one ends the deeper scopes before it.
        walk(from: function.entry, only: nil) { entry, read in
            let depth = entry.depth
            if depth == 0 { return }
            if let outer = nested, depth <= outer { nested = nil }
            while let last = around.last, last.depth >= depth { around.removeLast() }
            guard nested == nil else { return }
            if entry.tag == DW_TAG_subprogram { nested = depth }
            guard entry.tag == DW_TAG_inlined_subroutine else { return }
            let number = scopes.entries.count
            scopes.entries.append((entry.offset, around.last?.number))
            around.append((depth, number))
            if entry.hasCode { scopes.ranges += read().map { ($0, number) } }
        }
        if scopesByEntry.count >= Self.mostScopes { scopesByEntry.removeAll() }
        scopesByEntry[function.entry] = scopes
        return scopes
    }

    private func collect() {
        walk(from: unit.header.entries, only: DW_TAG_subprogram) { entry, read in
            guard entry.hasCode else { return }
            for range in read() { functions.append(Function(range: range, entry: entry.offset)) }
        }
    }

    /// An entry that a walk visits.
    private struct Visited {
        var offset: UInt64
        var tag: Int
        /// Depth below the entry from which the walk started.
        var depth: Int
        var hasCode: Bool
    }

    /// Walks an entry and its subtree in file order. Calls `body` for entries with the tag `wanted`, or for all if nil.
    /// `read` returns the addresses of the entry.
    @inline(__always)
    private func walk(
        from start: UInt64, only wanted: Int?, _ body: (_ entry: Visited, _ read: () -> [Range<UInt64>]) -> Void
    ) {
        let table = unit.abbreviations
        let encoding = unit.encoding
        var cursor = ByteCursor(unit.file.info, at: start, end: unit.header.end)
        table.shapes.withUnsafeBufferPointer { shapes in
            table.skips.withUnsafeBufferPointer { skips in
                guard let first = shapes.baseAddress else { return }
                let isDense = table.isDense
                var depth = 0
                var entriesLeft = 0
                while !cursor.isAtEnd {
                    if entriesLeft == 0 {
                        entriesLeft = Self.entriesCountedAtOnce
                        guard unit.file.countWork(entriesLeft) else { return }
                    }
                    entriesLeft &-= 1
                    let offset = cursor.position
                    let code = cursor.variableNumber()
                    if code == 0 {
                        depth &-= 1
                        if depth <= 0 { return }
                        continue
                    }
                    var index = Int(truncatingIfNeeded: code &- 1)
                    if isDense {
                        guard code <= UInt64(shapes.count) else { return }
                    } else {
                        guard let place = table.index(of: code) else { return }
                        index = place
                    }
                    let shape = first[index]
                    let tag = Int(shape.tag)
                    let values = cursor
                    if wanted == nil || tag == wanted {
                        let abbreviation = table.entries[index]
                        let entry = Visited(offset: offset, tag: tag, depth: depth, hasCode: abbreviation.hasCode)
                        body(entry) { ranges(values, abbreviation) }
                    }
                    if shape.size != DwarfShape.differs {
                        cursor.skip(UInt64(shape.size))
                    } else {
                        for skip in table.entries[index].skips {
                            guard DwarfForm.skip(skips[skip], &cursor, encoding) else { return }
                        }
                    }
                    if shape.hasChildren {
                        if !shape.skipsChildren || !pass(table.entries[index], values, &cursor) { depth &+= 1 }
                    }
                    if depth == 0 { return }
                }
            }
        }
    }

    /// Moves the cursor behind the children of an entry, using DW_AT_sibling. False if the entry has no valid
    /// DW_AT_sibling.
    private func pass(
        _ abbreviation: DwarfAbbreviation, _ values: ByteCursor, _ cursor: inout ByteCursor
    ) -> Bool {
        guard let place = abbreviation.sibling else { return false }
        var sibling = values
        sibling.skip(UInt64(place))
        let target = unit.header.offset &+ UInt64(sibling.number(UInt32.self))
        guard !sibling.failed, target > cursor.position, target <= unit.header.end else { return false }
        cursor.skip(target - cursor.position)
        return true
    }

    private func ranges(_ values: ByteCursor, _ abbreviation: DwarfAbbreviation) -> [Range<UInt64>] {
        var cursor = values
        var low = DwarfValue.none
        var high = DwarfValue.none
        var list = DwarfValue.none
        for attribute in unit.abbreviations.attributes[abbreviation.attributes] {
            let value = DwarfForm.read(attribute.form, constant: attribute.constant, &cursor, unit.encoding)
            switch Int(attribute.name) {
            case DW_AT_low_pc: low = value
            case DW_AT_high_pc: high = value
            case DW_AT_ranges: list = value
            default: break
            }
        }
        return cursor.failed ? [] : unit.ranges(low: low, high: high, list: list)
    }
}
