// Where /proc shows what all threads of a process share.

import Glibc

/// A first thread that has ended before the others (`pthread_exit` in `main`) shows neither memory nor mappings any more; the others do.
enum ProcessFolder {
    /// The folder of the process, or of its first thread that has not ended.
    static func ofMemory(of process: Int) -> String {
        let own = "/proc/\(process)"
        guard !isThere(Int32(truncatingIfNeeded: process), process) else { return own }
        let other = StoppedThreads.threadIDs(of: process).first { isThere($0, process) }
        return other.map { "\(own)/task/\($0)" } ?? own
    }

    private static func isThere(_ thread: Int32, _ process: Int) -> Bool {
        ThreadTimes(of: process, thread: UInt32(bitPattern: thread)) != nil
    }
}
