// Finds symbols in the symbol tables of one module: by the address they contain, by start address, and by name.

import CDwarf

/// Maps addresses to symbol names. One pass over the tables serves all addresses of a query, and only the names of
/// matching symbols are read: a large program has hundreds of thousands of symbols.
final class SymbolTables {
    private struct Table {
        var file: ELFFile
        var symbols: UnsafeRawBufferPointer
        var names: UnsafeRawBufferPointer
    }

    /// A symbol table entry.
    private struct Symbol {
        var table: Int
        var name: UInt32
        var info: UInt8
        var section: UInt16
        var address: UInt64
        var size: UInt64

        var kind: Int32 { Int32(info & 15) }
        var binding: Int32 { Int32(info >> 4) }
    }

    private let tables: [Table]
    private var holding: [UInt64: [String]] = [:]
    private var starting: [UInt64: [String]] = [:]

    private static let symbolSize = 24

    /// Makes the tables without reading symbols. Uses .symtab if a file has it, else .dynsym: .symtab includes the
    /// symbols of .dynsym.
    init(_ files: [ELFFile]) {
        tables = files.flatMap { file -> [Table] in
            let types = file.sections.contains { $0.type == SHT_SYMTAB } ? [SHT_SYMTAB] : [SHT_DYNSYM]
            return file.sections.enumerated().filter { types.contains(Int32(bitPattern: $0.element.type)) }.map {
                index, section in
                let symbols = file.contents(at: index)
                let names = file.sections.indices.contains(section.link - 1) ? file.contents(at: section.link - 1) : nil
                ELFFile.prefetch(symbols)
                if let names { ELFFile.prefetchIfSmall(names) }
                return Table(
                    file: file, symbols: symbols,
                    names: names ?? UnsafeRawBufferPointer(start: nil, count: 0))
            }
        }
    }

    /// The symbol whose code or data contains an address, with its aliases, best name first. A symbol that ends before
    /// the address does not match. A symbol without a size is an assembler label, which extends to the next symbol of
    /// its section.
    func names(holding address: UInt64) -> [String] {
        prepare([address])
        return holding[address] ?? []
    }

    /// Looks up many addresses at once.
    func prepare(_ addresses: some Sequence<UInt64>) {
        let new = Set(addresses).filter { holding[$0] == nil }.sorted()
        if new.isEmpty { return }
        var sized = [[Symbol]](repeating: [], count: new.count)
        // For each address: the nearest label at or before it, and the highest end of a sized symbol that ends at or
        // before it. Both are recorded at the first address that they apply to. The last loop copies them to later
        // addresses.
        var labels = [[Symbol]](repeating: [], count: new.count)
        var ends = [UInt64](repeating: 0, count: new.count)
        forEachSymbol { symbol in
            let first = partition(new.count) { new[$0] >= symbol.address }
            guard first < new.count else { return }
            if symbol.size == 0 {
                Self.keepNearest(symbol, in: &labels[first])
                return
            }
            var index = first
            while index < new.count, new[index] - symbol.address < symbol.size {
                Self.keepNearest(symbol, in: &sized[index])
                index += 1
            }
            if index < new.count { ends[index] = max(ends[index], symbol.address + symbol.size) }
        }
        for symbol in (sized + labels).joined() {
            ELFFile.prefetch(tables[symbol.table].names, at: UInt64(symbol.name))
        }
        for (index, address) in new.enumerated() {
            if index > 0 {
                ends[index] = max(ends[index], ends[index - 1])
                if labels[index - 1].first?.address ?? 0 > labels[index].first?.address ?? 0 {
                    labels[index] = labels[index - 1]
                }
            }
            var found = sized[index]
            if found.isEmpty, let label = labels[index].first, label.address >= ends[index] {
                found = labels[index].filter { isSection(of: $0, holding: address) }
            }
            holding[address] = names(of: found)
        }
    }

    /// All symbols at an address; several if the linker folded equal functions.
    func names(at address: UInt64) -> [String] {
        if let known = starting[address] { return known }
        var found: [Symbol] = []
        forEachSymbol { if $0.address == address { found.append($0) } }
        let names = names(of: found)
        starting[address] = names
        return names
    }

    /// The address of a symbol.
    func address(of name: String) -> UInt64? {
        var found: UInt64?
        var wanted = Array(name.utf8)
        wanted.append(0)
        forEachSymbol { symbol in
            let names = tables[symbol.table].names
            let start = Int(symbol.name)
            guard found == nil, start < names.count, names.count - start >= wanted.count,
                names[start] == wanted[0], names[start...].starts(with: wanted)
            else { return }
            found = symbol.address
        }
        return found
    }

    /// The thread-local variable that contains an offset in the module's thread-local data; nil if there is none.
    func threadLocal(at offset: UInt64) -> String? {
        var found: [Symbol] = []
        forEachSymbol(isThreadLocal: true) {
            if offset >= $0.address, offset - $0.address < max($0.size, 1) { found.append($0) }
        }
        return names(of: found).first
    }

    // MARK: Symbols

    @inline(__always)
    private func forEachSymbol(isThreadLocal: Bool = false, _ body: (Symbol) -> Void) {
        for (number, table) in tables.enumerated() {
            guard let base = table.symbols.baseAddress else { continue }
            ELFFile.fetch(table.symbols)
            for offset in stride(from: 0, to: table.symbols.count - Self.symbolSize + 1, by: Self.symbolSize) {
                let place = base + offset
                let symbol = Symbol(
                    table: number, name: place.loadUnaligned(as: UInt32.self),
                    info: place.loadUnaligned(fromByteOffset: 4, as: UInt8.self),
                    section: place.loadUnaligned(fromByteOffset: 6, as: UInt16.self),
                    address: place.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
                    size: place.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
                guard Int32(symbol.section) != SHN_UNDEF, Int32(symbol.section) != SHN_ABS, symbol.name != 0 else {
                    continue
                }
                switch symbol.kind {
                case STT_TLS: if isThreadLocal { body(symbol) }
                case _ where isThreadLocal: break
                case STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC: body(symbol)
                default: break
                }
            }
        }
    }

    @inline(__always)
    private static func keepNearest(_ symbol: Symbol, in nearest: inout [Symbol]) {
        if let known = nearest.first, known.address != symbol.address {
            if known.address > symbol.address { return }
            nearest.removeAll()
        }
        nearest.append(symbol)
    }

    private func isSection(of symbol: Symbol, holding address: UInt64) -> Bool {
        let sections = tables[symbol.table].file.sections
        let index = Int(symbol.section) - 1 // `sections` lacks the null section
        guard sections.indices.contains(index) else { return false }
        let section = sections[index]
        return section.flags & UInt64(SHF_ALLOC) != 0 && address >= section.address
            && address - section.address < section.size
    }

    /// The distinct names of symbols, best first: functions before data, names with fewer leading underscores (which
    /// mark library internals) before others, global before weak before local.
    private func names(of symbols: [Symbol]) -> [String] {
        var named: [(name: String, kind: Int, underscores: Int, binding: Int, order: Int)] = []
        for symbol in symbols {
            guard let name = name(of: symbol), !named.contains(where: { $0.name == name }) else { continue }
            let binding = [STB_GLOBAL, STB_WEAK].firstIndex(of: symbol.binding) ?? 2
            let underscores = name.hasPrefix("_Z") ? 0 : name.prefix { $0 == "_" }.count
            named.append((name, symbol.kind == STT_OBJECT ? 1 : 0, underscores, binding, named.count))
        }
        let ordered = named.sorted {
            ($0.kind, $0.underscores, $0.binding, $0.order) < ($1.kind, $1.underscores, $1.binding, $1.order)
        }
        return ordered.map(\.name)
    }

    private func name(of symbol: Symbol) -> String? {
        var cursor = ByteCursor(tables[symbol.table].names, at: UInt64(symbol.name))
        // Executables append symbol versions to names: memcpy@@GLIBC_2.14.
        let name = String(cursor.text().prefix { $0 != "@" })
        if cursor.failed || name.isEmpty { return nil }
        // Skip mapping symbols of arm64: "$x" code, "$d" data.
        if symbol.kind == STT_NOTYPE, ["$x", "$d"].contains(name) || name.hasPrefix("$x.") || name.hasPrefix("$d.") {
            return nil
        }
        return name
    }
}
