// Virtual functions of a C++ class, out of the file that has its vtable.

import CDwarf

extension ModuleSymbols {
    /// The function in a slot of the class whose deleting destructor has this symbol; nil where that cannot be told.
    func virtualFunction(_ slot: Int, ofClassWith destructor: String) -> SymbolName? {
        // _ZN3geo6CircleD0Ev: the class is 3geo6Circle, its vtable _ZTVN3geo6CircleE, or _ZTV6Circle where nothing encloses it.
        guard destructor.hasPrefix("_ZN"), destructor.hasSuffix("D0Ev"), slot >= 0 else { return nil }
        let name = destructor.dropFirst("_ZN".count).dropLast("D0Ev".count)
        guard let table = address(of: "_ZTVN\(name)E") ?? address(of: "_ZTV\(name)"),
            let entry = UInt64(exactly: slot).map({ table.rawValue &+ 16 &+ 8 &* $0 }), // behind offset and typeinfo
            let function = pointer(at: Address(entry))
        else { return nil }
        let names = Set(symbols(at: function).map { SymbolName(symbol: $0) }.filter { $0.member != nil })
        return names.count == 1 ? names.first : nil
    }

    /// The value that a pointer in the file's data has once the file is loaded, as the file counts addresses.
    private func pointer(at offset: Address) -> Address? {
        guard let file else { return nil }
        for (index, section) in file.sections.enumerated() where section.type == SHT_RELA {
            let entrySize: UInt64 = 24
            let relocations = file.contents(at: index)
            for number in 0..<UInt64(relocations.count) / entrySize {
                var relocation = ByteCursor(relocations, at: number * entrySize)
                guard relocation.number(UInt64.self) == offset.rawValue else { continue }
                let information: UInt64 = relocation.number()
                let addend: UInt64 = relocation.number()
                // Relative ones add the load address; the others name a symbol, which may be another file's.
                let symbol = information >> 32
                return symbol == 0 ? Address(addend) : value(of: symbol, inSection: section.link - 1, of: file)
            }
        }
        let bytes = bytes(at: offset, count: 8)
        return bytes.count == 8 ? Address(bytes.number(at: 0)) : nil
    }

    private func value(of symbol: UInt64, inSection index: Int, of file: ELFFile) -> Address? {
        guard file.sections.indices.contains(index) else { return nil }
        let entrySize: UInt64 = 24
        var entry = ByteCursor(file.contents(at: index), at: symbol * entrySize)
        entry.skip(6) // name, kind, visibility
        let section: UInt16 = entry.number()
        let address: UInt64 = entry.number()
        return entry.failed || Int32(section) == SHN_UNDEF ? nil : Address(address)
    }
}
