// Lines and inlined functions out of the debug information of one module.

import CDwarf

/// The debug information of a module. Of large files only what the addresses need is read.
///
/// It is read here and not by libdw, which gives the same answers in twice the time: it lists all rows of a unit before it
/// answers, finds no split files that lie elsewhere, and cannot be bounded on files that were made to take long. The figures
/// stand in ARCHITECTURE.md, rejected alternatives.
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

    private let file: DwarfFile
    private let index: DwarfUnitIndex
    private let files: SymbolFiles
    private var lineTables: [UInt64: DwarfLines?] = [:]
    private var splitUnits: [UInt64: DwarfUnit?] = [:]
    // Units do not keep their file.
    private var splitFiles: [String: DwarfFile?] = [:]

    /// Names of files with split debug information that are missing.
    private(set) var missing: [String] = []

    /// `files` finds what belongs to the module besides `elf`.
    init(_ elf: ELFFile, files: SymbolFiles) {
        file = DwarfFile(elf) { elf in files.alternate(of: elf).map { DwarfFile($0) } }
        index = DwarfUnitIndex(file)
        self.files = files
    }

    /// Looks for the units of addresses together, which is cheaper than one by one.
    func prepare(_ addresses: some Sequence<UInt64>) {
        file.allowWork()
        for case let split? in splitFiles.values { split.allowWork() }
        index.find(addresses)
        var units: [UInt64: DwarfUnit] = [:]
        for address in addresses {
            if let unit = index.unit(of: address) { units[unit.header.offset] = unit }
        }
        for unit in units.values where !unit.isRead { ELFFile.willRead(unit.bytes) }
        for unit in units.values where !unit.isRead {
            if let offset = unit.statements { ELFFile.willRead(DwarfLines.bytes(at: offset, in: unit.file.lines)) }
        }
    }

    /// The functions that an address lies in, the innermost first; empty where nothing is known of it.
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

    private func lines(of unit: DwarfUnit) -> DwarfLines? {
        guard let offset = unit.statements else { return nil }
        if let known = lineTables[offset] { return known }
        let lines = DwarfLines(unit, at: offset)
        lineTables[offset] = .some(lines)
        return lines
    }

    /// Optimized code often has line 0 where it releases objects: the line before it says where that is. The column, which
    /// would be that of something else, is left out. `scope` is the function that was inlined there.
    private func nearestLine(
        before address: UInt64, _ lines: DwarfLines?, _ function: DwarfFunctions.Function, _ functions: DwarfFunctions,
        _ scope: UInt64?
    ) -> Location? {
        let farthest = 256
        let farthestBytes: UInt64 = 1024
        var next = UInt64.max
        for row in lines?.rows(before: address, count: farthest) ?? [] {
            guard function.range.contains(row.address), address - row.address < farthestBytes else { break }
            // Of several rows with one address only the last has code.
            let hasCode = row.address < next
            next = row.address
            // What was inlined has lines of another function.
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

    /// Line 0 stands for code that the compiler made.
    private func location(_ file: String?, line: Int, column: Int) -> Location? {
        guard let file, !file.hasSuffix("<compiler-generated>") else { return nil }
        return Location(file: file, line: line > 0 ? line : nil, column: line > 0 && column > 0 ? column : nil)
    }

    // MARK: Split debug information

    /// The unit that the rest of a unit was split off to; nil where nothing was, or it cannot be found.
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
