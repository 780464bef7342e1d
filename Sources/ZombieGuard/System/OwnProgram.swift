// How this process was started: its arguments and its program's file, with and without /proc.

import CSystem
import Glibc

/// What is known of this process's own start.
package enum OwnProgram {
    /// The arguments as they were given, which need not be UTF-8; the first is the program's name.
    package static var words: [UnsafeMutablePointer<CChar>?] {
        guard let first = zg_system_arguments() else { return [] }
        return Array(UnsafeBufferPointer(start: first, count: Int(zg_system_argument_count())))
    }

    /// The same as texts, repaired to UTF-8.
    package static var arguments: [String] { words.compactMap { $0.map { String(cString: $0) } } }

    /// The program's file; nil where the system does not tell. Without /proc it is found by the path that was executed.
    package static let path: String? = {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { readlink("/proc/self/exe", $0.baseAddress!, $0.count) }
        if count > 0 { return String(decoding: buffer.prefix(count), as: UTF8.self) }
        guard let executed = zg_system_executed_path(), let resolved = realpath(executed, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }()

    /// Whether /proc shows this process. Without it others cannot be looked into.
    package static var isInProc: Bool { access("/proc/self/exe", F_OK) == 0 }
}
