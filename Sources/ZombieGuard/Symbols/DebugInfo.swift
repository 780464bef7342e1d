// Reads source lines and inlined functions from the debug information of one module.

import CDwarf

/// The debug information of a module. For large files, only the parts that the looked-up addresses need are read.
///
/// This reader replaces libdw, which gives the same answers in twice the time: libdw lists all rows of a unit before it
/// answers, does not find split files in other directories, and does not bound its work on crafted files.
/// docs/design/023-debug-information.md has the figures.
final class DebugInfo {
    /// A place in a source file.
    struct Location: Hashable {
        var file: String
        var line: Int?
        var column: Int?
    }

    /// One frame of an address: a function, possibly inlined, and the source location within it.
    struct Call: Hashable {
        /// The linkage name, or else the source name.
        var symbol: String?
        var location: Location?
        var isInlined: Bool
    }

    private let file: DwarfFile
    private let index: DwarfUnitIndex
    private let files: SymbolFiles
    private var lineTables: [UInt64: DwarfLines?] = [:]
    private var splitUnits: [UInt64: DwarfUnit?] = [:]
    // Owns the split files: a DwarfUnit has only an unowned reference to its file.
    private var splitFiles: [String: DwarfFile?] = [:]

    /// Names of split debug files (.dwo) that were not found.
    private(set) var missing: [String] = []

    /// `files` finds the files that belong to the module, besides `elf`.
    init(_ elf: ELFFile, files: SymbolFiles) {
        file = DwarfFile(elf) { elf in files.alternate(of: elf).map { DwarfFile($0) } }
        index = DwarfUnitIndex(file)
        self.files = files
    }

    /// Looks up the units of many addresses at once, which is cheaper than one by one.
    func prepare(_ addresses: some Sequence<UInt64>) {
        file.resetWorkLimit()
        for case let split? in splitFiles.values { split.resetWorkLimit() }
        index.find(addresses)
        var units: [UInt64: DwarfUnit] = [:]
        for address in addresses {
            if let unit = index.unit(of: address) { units[unit.header.offset] = unit }
        }
        for unit in units.values where !unit.isRead { ELFFile.prefetch(unit.bytes) }
        for unit in units.values where !unit.isRead {
            if let offset = unit.statements { ELFFile.prefetch(DwarfLines.bytes(at: offset, in: unit.file.lines)) }
        }
    }

    /// The functions that contain an address, innermost first; empty if the address is unknown.
    func calls(at address: UInt64) -> [Call] {
        guard let unit = index.unit(of: address) else { return [] }
        let lines = lines(of: unit)
        let functions = (split(unit) ?? unit).functions
        let function = functions.function(at: address)
        let inlined = function.map { functions.inlined(at: address, in: $0) } ?? []
        var location = lines?.rows(before: address, count: 1).first.flatMap { self.location(of: $0, lines) }
        if location?.line == nil, let function {
            location = nearestLine(before: address, lines, function, functions, inlined.last?.offset) ?? location
        }
        var calls: [Call] = []
        for entry in inlined.reversed() {
            calls.append(Call(symbol: entry.symbol, location: location, isInlined: true))
            location = entry.callSite.flatMap { site in
                lines.flatMap { self.location($0.path(site.file), line: site.line, column: site.column) }
            }
        }
        if calls.isEmpty, location == nil, function == nil { return [] }
        let symbol = function.flatMap { DwarfEntry(unit: functions.unit, offset: $0.entry).symbol }
        return calls + [Call(symbol: symbol, location: location, isInlined: false)]
    }

    // MARK: Lines

    /// Finds code of a source line in the function that contains `address`, and returns the address of such code that
    /// is nearest to `address`. nil if `address` has a line itself, or the function has no code of that line. `file` is
    /// the last component of a path. For optimized code: optimizers merge equal ends of a function, such as the calls
    /// that end the program, into code without a line. The caller knows from another source, such as the program's last
    /// message, which line was executed.
    func address(ofLine line: Int, in file: String, near address: UInt64) -> UInt64? {
        guard let unit = index.unit(of: address), let lines = lines(of: unit),
            let function = (split(unit) ?? unit).functions.function(at: address),
            lines.rows(before: address, count: 1).first?.line == 0
        else { return nil }
        return lines.rows(before: function.range.upperBound - 1, count: Self.mostRowsOfFunction)
            .filter { row in
                row.line == line && function.range.contains(row.address)
                    && lines.path(row.file)?.split(separator: "/").last.map(String.init) == file
            }
            .map(\.address).min { max($0, address) - min($0, address) < max($1, address) - min($1, address) }
    }

    private static let mostRowsOfFunction = 1 << 16

    private func lines(of unit: DwarfUnit) -> DwarfLines? {
        guard let offset = unit.statements else { return nil }
        if let known = lineTables[offset] { return known }
        let lines = DwarfLines(unit, at: offset)
        lineTables[offset] = .some(lines)
        return lines
    }

    /// Finds the nearest nonzero line before an address: optimized code that releases objects often has line 0. The
    /// result has no column, because the column belongs to other code. `scope` is the entry of the innermost function
    /// inlined at the address.
    private func nearestLine(
        before address: UInt64, _ lines: DwarfLines?, _ function: DwarfFunctions.Function, _ functions: DwarfFunctions,
        _ scope: UInt64?
    ) -> Location? {
        let farthest = 256
        let farthestBytes: UInt64 = 1024
        var next = UInt64.max
        for row in lines?.rows(before: address, count: farthest) ?? [] {
            guard function.range.contains(row.address), address - row.address < farthestBytes else { break }
            // Among rows with equal addresses, only the last has code.
            let hasCode = row.address < next
            next = row.address
            // Skip rows of other inlined functions.
            if hasCode, row.line > 0, functions.innermost(at: row.address, in: function) == scope,
                let location = location(of: row, lines)
            {
                return Location(file: location.file, line: location.line, column: nil)
            }
        }
        return nil
    }

    private func location(of row: DwarfLines.Row, _ lines: DwarfLines?) -> Location? {
        location(lines?.path(row.file), line: row.line, column: row.column)
    }

    /// Line 0 marks compiler-generated code, which has no source line.
    private func location(_ file: String?, line: Int, column: Int) -> Location? {
        guard let file, !file.hasSuffix("<compiler-generated>") else { return nil }
        return Location(file: file, line: line > 0 ? line : nil, column: line > 0 && column > 0 ? column : nil)
    }

    // MARK: Split debug information

    /// The split unit (.dwo or .dwp) of a skeleton unit; nil if `unit` is not a skeleton, or its split unit was not
    /// found.
    private func split(_ unit: DwarfUnit) -> DwarfUnit? {
        guard let name = unit.splitName, let id = unit.splitID else { return nil }
        if let known = splitUnits[unit.header.offset] { return known }
        var found: DwarfUnit?
        for path in files.splitFiles(name, directory: unit.directory) {
            if splitFiles[path] == nil {
                splitFiles[path] = .some((try? files.open(path)).map { DwarfFile($0, isSplit: true) })
            }
            guard let file = splitFiles[path] ?? nil else { continue }
            found = Self.unit(id, of: unit, in: file)
            if found != nil { break }
        }
        if found == nil { missing.append(name) }
        splitUnits[unit.header.offset] = .some(found)
        return found
    }

    private static func unit(_ id: UInt64, of skeleton: DwarfUnit, in file: DwarfFile) -> DwarfUnit? {
        if let part = DwarfPackage.part(of: id, in: file.elf) {
            guard var header = DwarfUnitHeader(file.info, at: part.info) else { return nil }
            header.abbreviations &+= part.abbreviations
            let unit = DwarfUnit(file, header, skeleton: skeleton, part: part)
            return unit?.splitID == id ? unit : nil
        }
        for header in file.headers {
            if let unit = DwarfUnit(file, header, skeleton: skeleton), unit.splitID == id { return unit }
        }
        return nil
    }
}
