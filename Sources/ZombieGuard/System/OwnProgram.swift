// Gives access to the arguments and the executable of this process, with or without /proc.

import CSystem
import Glibc

/// The arguments and the executable of this process.
package enum OwnProgram {
    /// The raw arguments, not necessarily UTF-8. The first is the program's name.
    package static var words: [UnsafeMutablePointer<CChar>?] {
        guard let first = zg_system_arguments() else { return [] }
        return Array(UnsafeBufferPointer(start: first, count: Int(zg_system_argument_count())))
    }

    /// The arguments as strings; invalid UTF-8 is replaced.
    package static var arguments: [String] { words.compactMap { $0.map { String(cString: $0) } } }

    /// The path of the executable; nil if unknown. Without /proc, the path that was executed is resolved.
    package static let path: String? = {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { readlink("/proc/self/exe", $0.baseAddress!, $0.count) }
        if count > 0 { return String(decoding: buffer.prefix(count), as: UTF8.self) }
        guard let executed = zg_system_executed_path(), let resolved = realpath(executed, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }()

    /// Whether /proc shows this process. Without /proc, other processes cannot be inspected.
    package static var isInProc: Bool { access("/proc/self/exe", F_OK) == 0 }
}
