// Tells waits in glibc from waits of other code whose words look like glibc's locks.

import ZombieGuard

extension WaitChain {
    /// Whether all waits whose memory looks like glibc's are in glibc: other code may use words with such contents
    /// otherwise.
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
            // "libc.so.6", "libc-2.31.so"; before glibc 2.34 "libpthread.so.0". Other code waits in glibc's function
            // `syscall`.
            return ["libc.", "libc-", "libpthread"].contains { file.hasPrefix($0) } && function(frame) != "syscall"
        }
    }
}
