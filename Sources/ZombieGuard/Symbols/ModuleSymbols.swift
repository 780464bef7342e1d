// Names and lines of addresses in one ELF file, through elfutils' libdw.

import CDwarf
import Glibc

/// The names and lines of one executable or library. Not for use by several threads at once.
final class ModuleSymbols {
    enum Failure: Error, Hashable {
        case missing(SystemError)
        case otherBuild
        case unreadable
    }

    private let handle: OpaquePointer
    private let module: OpaquePointer
    private lazy var debugInfo = DebugInfo(module: module)
    private lazy var symbolsByAddress = makeSymbolsByAddress()

    // libdw keeps a pointer to the callbacks for as long as a handle lives.
    nonisolated(unsafe) private static let callbacks = {
        let callbacks = UnsafeMutablePointer<Dwfl_Callbacks>.allocate(capacity: 1)
        callbacks.initialize(
            to: Dwfl_Callbacks(
                find_elf: dwfl_build_id_find_elf, find_debuginfo: dwfl_standard_find_debuginfo,
                section_address: dwfl_offline_section_address, debuginfo_path: nil))
        return callbacks
    }()

    /// Opens a file. Where `buildID` is known, the file must still be that build.
    init(path: String, buildID: String?) throws(Failure) {
        do throws(SystemError) { _ = try Descriptor(opening: path) } catch { throw .missing(error) }
        guard let handle = dwfl_begin(Self.callbacks) else { throw .unreadable }
        dwfl_report_begin(handle)
        // At base 0 with the file's own addresses, what libdw calls an address is what the file calls one.
        guard let module = dwfl_report_elf(handle, path, path, -1, 0, true),
            dwfl_report_end(handle, nil, nil) == 0
        else {
            dwfl_end(handle)
            throw .unreadable
        }
        self.handle = handle
        self.module = module
        if let buildID, let own = ownBuildID, own != buildID { throw .otherBuild }
    }

    deinit { dwfl_end(handle) }

    private var ownBuildID: String? {
        var bytes: UnsafePointer<UInt8>?
        var address: GElf_Addr = 0
        var bias: GElf_Addr = 0
        guard dwfl_module_getelf(module, &bias) != nil else { return nil }
        let count = dwfl_module_build_id(module, &bytes, &address)
        guard count > 0, let bytes else { return nil }
        return hexadecimal(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    /// The functions that an address, as the file counts it, lies in, the innermost first; the last is the one that is
    /// not inlined, named by the symbol table if possible.
    func calls(at offset: Address) -> [DebugInfo.Call] {
        var calls = debugInfo.calls(at: offset.rawValue)
        if calls.isEmpty { calls = [DebugInfo.Call(symbol: nil, location: nil, isInlined: false)] }
        if let symbol = symbol(around: offset) { calls[calls.count - 1].symbol = symbol }
        return calls
    }

    /// The symbol whose code or data holds an address.
    func symbol(around offset: Address) -> String? {
        var distance: GElf_Off = 0
        var symbol = GElf_Sym()
        guard let name = dwfl_module_addrinfo(module, offset.rawValue, &distance, &symbol, nil, nil, nil) else {
            return nil
        }
        // libdw also hands out the nearest symbol before the address; one that ends before it names something else.
        if symbol.st_size > 0 && distance >= symbol.st_size { return nil }
        return Self.withoutVersion(name)
    }

    /// libdw's handle, for what is asked of the file itself.
    var handleOfModule: OpaquePointer { module }

    /// Where a symbol begins.
    func address(of symbol: String) -> Address? {
        symbolsByAddress.first { $0.value.contains(symbol) }.map { Address($0.key) }
    }

    /// Every symbol that begins at an address; several where the linker folded equal functions.
    func symbols(at offset: Address) -> [String] { symbolsByAddress[offset.rawValue] ?? [] }

    private func makeSymbolsByAddress() -> [UInt64: [String]] {
        let count = dwfl_module_getsymtab(module)
        var symbols: [UInt64: [String]] = [:]
        guard count > 0 else { return symbols }
        let kinds = [STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC]
        for index in 0..<count {
            var symbol = GElf_Sym()
            var address: GElf_Addr = 0
            guard let name = dwfl_module_getsym_info(module, index, &symbol, &address, nil, nil, nil),
                Int32(symbol.st_shndx) != SHN_UNDEF, kinds.contains(Int32(symbol.st_info & 15))
            else { continue }
            symbols[address, default: []].append(Self.withoutVersion(name))
        }
        return symbols
    }

    /// The bytes of the file at an address, as far as one section holds them.
    func bytes(at offset: Address, count: Int) -> [UInt8] {
        var bias: GElf_Addr = 0
        guard let elf = dwfl_module_getelf(module, &bias) else { return [] }
        var section: OpaquePointer?
        while let next = elf_nextscn(elf, section) {
            section = next
            var header = GElf_Shdr()
            // Sections that are in memory and in the file.
            guard gelf_getshdr(next, &header) != nil, header.sh_type != SHT_NOBITS,
                header.sh_flags & UInt64(SHF_ALLOC) != 0,
                let start = offset.distance(from: Address(header.sh_addr)), start < header.sh_size,
                let data = elf_rawdata(next, nil), let buffer = data.pointee.d_buf, start < data.pointee.d_size
            else { continue }
            let bytes = UnsafeRawBufferPointer(start: buffer, count: data.pointee.d_size)
            return Array(bytes.dropFirst(Int(start)).prefix(count))
        }
        return []
    }

    // The symbol table of an executable names versions as well: memcpy@@GLIBC_2.14.
    private static func withoutVersion(_ name: UnsafePointer<CChar>) -> String {
        String(String(cString: name).prefix { $0 != "@" })
    }
}

/// Bytes as lower-case hexadecimal digits.
func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
