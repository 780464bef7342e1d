// Function, file and line of addresses in one ELF file, through elfutils' libdw.

import CDwarf
import Glibc

/// The names and lines of one executable or library. Not for use by several threads at once.
final class ModuleSymbols {
    enum Failure: Error, Hashable {
        case missing(SystemError)
        case otherBuild
        case unreadable
    }

    struct Place: Hashable {
        var function: String?
        var file: String?
        var line: Int?
        var column: Int?
    }

    private let handle: OpaquePointer
    private let module: OpaquePointer

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

    /// What is known of an address as the file counts it.
    func place(of offset: Address) -> Place {
        var place = Place(function: functionName(offset))
        guard let line = dwfl_module_getsrc(module, offset.rawValue) else { return place }
        var number: Int32 = 0
        var column: Int32 = 0
        if let file = dwfl_lineinfo(line, nil, &number, &column, nil, nil) {
            place.file = String(cString: file)
            if number > 0 { place.line = Int(number) }
            if column > 0 { place.column = Int(column) }
        }
        return place
    }

    private func functionName(_ offset: Address) -> String? {
        var distance: GElf_Off = 0
        var symbol = GElf_Sym()
        guard let name = dwfl_module_addrinfo(module, offset.rawValue, &distance, &symbol, nil, nil, nil) else {
            return nil
        }
        // libdw also hands out the nearest symbol before the address; one that ends before it names something else.
        if symbol.st_size > 0 && distance >= symbol.st_size { return nil }
        // The symbol table of an executable names versions as well: memcpy@@GLIBC_2.14.
        return demangle(String(String(cString: name).prefix { $0 != "@" }))
    }
}

/// Bytes as lower-case hexadecimal digits.
func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
