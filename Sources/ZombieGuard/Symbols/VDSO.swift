// Reads the vDSO, the ELF image that the kernel maps into every process.

import CDwarf

enum VDSO {
    private static let mostBytes = 1 << 20

    /// Whether a module name means the vDSO: as named by the dynamic linker, or by /proc/PID/maps.
    static func isName(_ module: String) -> Bool {
        module == "[vdso]" || module.hasPrefix("linux-vdso.so") || module.hasPrefix("linux-gate.so")
    }

    /// The vDSO of this process, which all processes on this machine share until the next boot; nil if there is none.
    static func image() -> ELFFile? {
        let start = getauxval(UInt(AT_SYSINFO_EHDR))
        guard start != 0, let base = UnsafeRawPointer(bitPattern: UInt(start)) else { return nil }
        let size = mappedBytes(from: UInt64(start))
        guard size > 0 else { return nil }
        return try? ELFFile(bytes: UnsafeRawBufferPointer(start: base, count: size), path: "[vdso]")
    }

    // Size of the mapping, from /proc/self/maps. Program headers are not enough: the section headers are behind the
    // loaded segments.
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
