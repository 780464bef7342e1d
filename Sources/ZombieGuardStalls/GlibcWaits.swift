// Distinguishes waits for glibc's locks from waits of other code for memory that only looks like a lock of glibc.

import ZombieGuard

extension WaitChain {
    /// Whether glibc's own code makes every futex wait of the chain whose memory looks like a lock or thread of glibc.
    /// Other code may use a futex with the same contents for another purpose.
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
            // because other code calls it to wait for its own futexes.
            return ["libc.", "libc-", "libpthread"].contains { file.hasPrefix($0) } && function(frame) != "syscall"
        }
    }
}
