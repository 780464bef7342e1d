// Distinguishes waits in glibc from waits in other code on memory that only looks like a lock of glibc.

import ZombieGuard

extension WaitChain {
    /// Whether every wait on memory that looks like a lock of glibc is executed by glibc's code. In other code, the
    /// same contents may mean something else.
    ///
    /// - Parameters:
    ///   - mappings: mappings of the process.
    ///   - memory: memory of the process.
    ///   - function: returns the name of the function at a frame.
    func isOfGlibc(
        _ mappings: [Mapping], memory: some MemoryReader, function: (Finding.Frame) -> String?
    ) -> Bool {
        var modules = ProcessModules(mappings: mappings, memory: memory)
        return awaited.compactMap(\.codeOfGlibc).allSatisfy { place in
            let frame = modules.frame(at: place)
            let file = (frame.module ?? "").split(separator: "/").last ?? ""
            // "libc.so.6", "libc-2.31.so"; before glibc 2.34 "libpthread.so.0". Excludes glibc's function `syscall`,
            // through which other code makes its waits.
            return ["libc.", "libc-", "libpthread"].contains { file.hasPrefix($0) } && function(frame) != "syscall"
        }
    }
}
