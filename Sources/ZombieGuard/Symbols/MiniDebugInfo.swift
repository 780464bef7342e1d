// The compressed symbol table that some distributions leave in stripped files: .gnu_debugdata.

import CDwarf
import CSystem
import Glibc

enum MiniDebugInfo {
    private static let mostBytes = 64 << 20

    /// The file in the section; nil where there is none. libdw takes compressed files from a descriptor.
    static func file(of elf: ELFFile) -> ELFFile? {
        let bytes = elf.contents(".gnu_debugdata")
        guard !bytes.isEmpty, bytes.count <= mostBytes, let name = temporaryFile(bytes) else { return nil }
        elf_version(UInt32(EV_CURRENT))
        guard let handle = dwelf_elf_begin(name.number) else { return nil }
        defer { elf_end(handle) }
        var size = 0
        guard let start = elf_rawfile(handle, &size), size > 0, size <= mostBytes else { return nil }
        return try? ELFFile(bytes: UnsafeRawBufferPointer(start: start, count: size), path: elf.path)
    }

    private static func temporaryFile(_ bytes: UnsafeRawBufferPointer) -> Descriptor? {
        let number = zg_system_memfd("zguard-symbols")
        guard number >= 0 else { return nil }
        let descriptor = Descriptor(adopting: number)
        var written = 0
        while written < bytes.count {
            let count = write(number, bytes.baseAddress! + written, bytes.count - written)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return nil }
            written += count
        }
        return lseek(number, 0, SEEK_SET) == 0 ? descriptor : nil
    }
}
