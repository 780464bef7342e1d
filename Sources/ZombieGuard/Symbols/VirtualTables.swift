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
        guard let elf = file?.handle else { return nil }
        var section: OpaquePointer?
        while let next = elf_nextscn(elf, section) {
            section = next
            var header = GElf_Shdr()
            guard gelf_getshdr(next, &header) != nil, header.sh_type == SHT_RELA, header.sh_entsize > 0,
                let data = elf_getdata(next, nil)
            else { continue }
            for index in 0..<Int32(clamping: header.sh_size / header.sh_entsize) {
                var relocation = GElf_Rela()
                guard gelf_getrela(data, index, &relocation) != nil, relocation.r_offset == offset.rawValue else {
                    continue
                }
                // Relative ones add the load address; the others name a symbol, which may be another file's.
                let symbol = relocation.r_info >> 32
                return symbol == 0 ? Address(UInt64(bitPattern: relocation.r_addend)) : value(of: symbol, header, elf)
            }
        }
        let bytes = bytes(at: offset, count: 8)
        return bytes.count == 8 ? Address(bytes.number(at: 0)) : nil
    }

    private func value(of symbol: UInt64, _ relocations: GElf_Shdr, _ elf: OpaquePointer) -> Address? {
        var entry = GElf_Sym()
        guard let table = elf_getscn(elf, Int(relocations.sh_link)), let data = elf_getdata(table, nil),
            gelf_getsym(data, Int32(clamping: symbol), &entry) != nil, Int32(entry.st_shndx) != SHN_UNDEF
        else { return nil }
        return Address(entry.st_value)
    }
}
