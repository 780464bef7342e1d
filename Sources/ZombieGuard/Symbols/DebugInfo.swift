// Lines and inlined functions out of the debug information of one ELF file.

import CDwarf
import Glibc

/// The debug information of a module. Compilation units are read when an address falls into them.
///
/// libdw's own way from an address to its unit is the table .debug_aranges, which Swift and clang do not write.
final class DebugInfo {
    /// A place in a source file.
    struct Location: Hashable {
        var file: String
        var line: Int?
        var column: Int?
    }

    /// A function that an address lies in, and where in it.
    struct Call: Hashable {
        /// As the linker knows it, or else as the source does.
        var symbol: String?
        var location: Location?
        var isInlined: Bool
    }

    private struct Unit {
        var die: Dwarf_Die
        var bias: UInt64
        var functions: [(range: Range<UInt64>, value: Dwarf_Die)]?
    }

    private var units: [Unit] = []
    private var ranges: [(range: Range<UInt64>, value: Int)] = []

    /// Reads where the units of a module lie; empty where the module has no debug information.
    init(module: OpaquePointer) {
        var last: UnsafeMutablePointer<Dwarf_Die>?
        var bias: Dwarf_Addr = 0
        while let die = dwfl_module_nextcu(module, last, &bias) {
            last = die
            for range in die.pointee.ranges {
                ranges.append((range.lowerBound &+ bias..<range.upperBound &+ bias, units.count))
            }
            units.append(Unit(die: die.pointee, bias: bias))
        }
        ranges.sort { $0.range.lowerBound < $1.range.lowerBound }
    }

    /// The functions that an address lies in, the innermost first; empty where nothing is known of it.
    func calls(at address: UInt64) -> [Call] {
        guard let index = unit(of: address) else { return [] }
        let local = address &- units[index].bias
        let function = function(at: local, in: index)
        let inlined = function.map { $0.die.inlined(at: local) } ?? []
        var location = row(at: local, in: index).flatMap { self.location(of: $0.row) }
        if location?.line == nil, inlined.isEmpty, let function {
            location = nearestLine(before: local, in: index, function: function) ?? location
        }
        var calls: [Call] = []
        for die in inlined.reversed() {
            calls.append(Call(symbol: die.symbol, location: location, isInlined: true))
            location = callSite(of: die, in: index)
        }
        if calls.isEmpty, location == nil { return [] }
        return calls + [Call(symbol: function?.die.symbol, location: location, isInlined: false)]
    }

    // MARK: Units and functions

    private func unit(of address: UInt64) -> Int? { Self.find(address, in: ranges)?.value }

    private func function(at address: UInt64, in unit: Int) -> (range: Range<UInt64>, die: Dwarf_Die)? {
        if units[unit].functions == nil {
            var functions: [(range: Range<UInt64>, value: Dwarf_Die)] = []
            units[unit].die.collectFunctions(into: &functions)
            units[unit].functions = functions.sorted { $0.range.lowerBound < $1.range.lowerBound }
        }
        return Self.find(address, in: units[unit].functions ?? []).map { ($0.range, $0.value) }
    }

    private static func find<Value>(
        _ address: UInt64, in table: [(range: Range<UInt64>, value: Value)]
    ) -> (range: Range<UInt64>, value: Value)? {
        let behind = partition(table.count) { table[$0].range.lowerBound > address }
        return behind > 0 && table[behind - 1].range.contains(address) ? table[behind - 1] : nil
    }

    /// The first index that belongs to the second part of an ordered table.
    private static func partition(_ count: Int, _ isInSecond: (Int) -> Bool) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if isInSecond(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    // MARK: Lines

    /// The last row of the line table at or before an address.
    private func row(at address: UInt64, in unit: Int) -> (row: OpaquePointer, number: Int)? {
        guard let (lines, count) = lines(of: unit) else { return nil }
        let behind = Self.partition(count) { self.address(of: dwarf_onesrcline(lines, $0)) > address }
        guard behind > 0, let row = dwarf_onesrcline(lines, behind - 1) else { return nil }
        var isEnd = false
        return dwarf_lineendsequence(row, &isEnd) == 0 && !isEnd ? (row, behind - 1) : nil
    }

    /// Optimized code often has line 0 where it releases objects: the line before it says where that is.
    private func nearestLine(
        before address: UInt64, in unit: Int, function: (range: Range<UInt64>, die: Dwarf_Die)
    ) -> Location? {
        guard let (lines, _) = lines(of: unit), let last = row(at: address, in: unit)?.number else { return nil }
        let farthest = 256
        for number in (max(0, last - farthest)..<last).reversed() {
            guard let row = dwarf_onesrcline(lines, number), function.range.contains(self.address(of: row)) else {
                break
            }
            // What was inlined has lines of another function.
            if let location = location(of: row), location.line != nil,
                function.die.inlined(at: self.address(of: row)).isEmpty
            {
                return Location(file: location.file, line: location.line, column: nil)
            }
        }
        return nil
    }

    private func lines(of unit: Int) -> (lines: OpaquePointer, count: Int)? {
        var lines: OpaquePointer?
        var count = 0
        guard dwarf_getsrclines(&units[unit].die, &lines, &count) == 0, let lines else { return nil }
        return (lines, count)
    }

    private func location(of row: OpaquePointer) -> Location? {
        guard let path = dwarf_linesrc(row, nil, nil) else { return nil }
        var line: Int32 = 0
        var column: Int32 = 0
        dwarf_lineno(row, &line)
        dwarf_linecol(row, &column)
        return Self.location(path, line: Int(line), column: Int(column))
    }

    private func address(of row: OpaquePointer?) -> UInt64 {
        var address: Dwarf_Addr = 0
        guard let row, dwarf_lineaddr(row, &address) == 0 else { return .max }
        return address
    }

    private func callSite(of die: Dwarf_Die, in unit: Int) -> Location? {
        var files: OpaquePointer?
        var count = 0
        guard let file = die.number(DW_AT_call_file), dwarf_getsrcfiles(&units[unit].die, &files, &count) == 0,
            let files,
            file < count, let path = dwarf_filesrc(files, file, nil, nil)
        else { return nil }
        return Self.location(path, line: die.number(DW_AT_call_line) ?? 0, column: die.number(DW_AT_call_column) ?? 0)
    }

    /// Line 0 stands for code that the compiler made.
    private static func location(_ path: UnsafePointer<CChar>, line: Int, column: Int) -> Location? {
        let file = String(cString: path)
        if file.hasSuffix("<compiler-generated>") { return nil }
        return Location(file: file, line: line > 0 ? line : nil, column: line > 0 && column > 0 ? column : nil)
    }
}
