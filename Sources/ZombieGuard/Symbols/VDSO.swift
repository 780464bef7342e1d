// The image of code that the kernel maps into every process, which is no file.

import CDwarf

enum VDSO {
    private static let mostBytes = 1 << 20

    /// Whether a module's name stands for the image: the dynamic linker's name, or that of /proc/PID/maps.
    static func isName(_ module: String) -> Bool {
        module == "[vdso]" || module.hasPrefix("linux-vdso.so") || module.hasPrefix("linux-gate.so")
    }

    /// This process's own image, which another process of the same machine and boot has too; nil where there is none.
    static func image() -> ELFFile? {
        let start = getauxval(UInt(AT_SYSINFO_EHDR))
        guard start != 0, let base = UnsafeRawPointer(bitPattern: UInt(start)) else { return nil }
        let size = mappedBytes(from: UInt64(start))
        guard size > 0 else { return nil }
        return try? ELFFile(bytes: UnsafeRawBufferPointer(start: base, count: size), path: "[vdso]")
    }

    // What the kernel mapped, by /proc/self/maps: the section headers lie behind everything that is loaded.
    private static func mappedBytes(from start: UInt64) -> Int {
        guard let maps = try? readFile("/proc/self/maps") else { return 0 }
        for line in maps.split(separator: UInt8(ascii: "\n")) {
            let range = String(decoding: line.prefix { $0 != UInt8(ascii: " ") }, as: UTF8.self).split(separator: "-")
            if range.count == 2, UInt64(digits: range[0], radix: 16) == start,
                let end = UInt64(digits: range[1], radix: 16),
                end > start
            {
                return Int(min(end - start, UInt64(mostBytes)))
            }
        }
        return 0
    }
}
