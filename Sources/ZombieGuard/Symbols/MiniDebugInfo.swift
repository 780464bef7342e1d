// The compressed symbol table that some distributions leave in stripped files: .gnu_debugdata.

enum MiniDebugInfo {
    private static let mostBytes = 64 << 20

    /// The file in the section; nil where there is none.
    static func file(of elf: ELFFile) -> ELFFile? {
        let bytes = elf.contents(".gnu_debugdata")
        guard !bytes.isEmpty, bytes.count <= mostBytes, let file = Decompression.xz(bytes, most: mostBytes) else {
            return nil
        }
        return try? ELFFile(bytes: file, path: elf.path)
    }
}
