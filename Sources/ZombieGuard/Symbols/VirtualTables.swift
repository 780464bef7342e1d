// Resolves slots of C++ vtables to virtual functions.

import CDwarf

extension ModuleSymbols {
    /// The virtual function in a vtable slot of the class whose deleting destructor has this symbol; nil if ambiguous
    /// or unknown.
    func virtualFunction(_ slot: Int, ofClassWith destructor: String) -> SymbolName? {
        // _ZN3geo6CircleD0Ev: the class is 3geo6Circle, its vtable _ZTVN3geo6CircleE; without a namespace, _ZTV6Circle.
        guard destructor.hasPrefix("_ZN"), destructor.hasSuffix("D0Ev"), slot >= 0 else { return nil }
        let name = destructor.dropFirst("_ZN".count).dropLast("D0Ev".count)
        guard let table = address(of: "_ZTVN\(name)E") ?? address(of: "_ZTV\(name)"),
            // The address point is 16 bytes into the vtable, behind offset-to-top and typeinfo pointer.
            let entry = UInt64(exactly: slot).map({ table.rawValue &+ 16 &+ 8 &* $0 }),
            let function = pointer(at: Address(entry))
        else { return nil }
        let names = Set(symbols(at: function).map { SymbolName(symbol: $0) }.filter { $0.member != nil })
        return names.count == 1 ? names.first : nil
    }

    /// The value that a pointer in the file's data has after relocation, as a virtual address of the file.
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
                // A relative relocation adds the load address to the addend; other relocations name a symbol, possibly
                // one of another file.
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
        entry.skip(6) // st_name, st_info, st_other
        let section: UInt16 = entry.number()
        let address: UInt64 = entry.number()
        return entry.failed || Int32(section) == SHN_UNDEF ? nil : Address(address)
    }
}
