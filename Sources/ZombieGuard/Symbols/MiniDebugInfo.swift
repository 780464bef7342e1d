// Reads .gnu_debugdata, the compressed symbol table that some distributions leave in stripped files (MiniDebugInfo).

enum MiniDebugInfo {
    private static let mostBytes = 64 << 20

    /// The ELF file embedded in the section; nil if there is none.
    static func file(of elf: ELFFile) -> ELFFile? {
        let bytes = elf.contents(".gnu_debugdata")
        guard !bytes.isEmpty, bytes.count <= mostBytes, let file = Decompression.xz(bytes, most: mostBytes) else {
            return nil
        }
        return try? ELFFile(bytes: file, path: elf.path)
    }
}
