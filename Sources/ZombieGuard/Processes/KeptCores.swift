// Finds core files that systemd-coredump has stored, by process ID or program name.

import Glibc

/// The directory where systemd-coredump stores core files, named core.PROGRAM.USER.BOOT.PROCESS.TIME plus the suffix of
/// the compression.
public struct KeptCores {
    /// Default directory of systemd-coredump.
    public static let usualDirectory = "/var/lib/systemd/coredump"

    private let directory: String

    /// Makes a view of a directory, which is read at each query.
    ///
    /// - Parameter directory: a directory with such files.
    public init(in directory: String = usualDirectory) { self.directory = directory }

    /// The newest core file of a process or a program.
    ///
    /// - Parameter wanted: a process ID, or a program name as in /proc/PID/comm, at most 15 bytes.
    /// - Returns: the path; nil if no core file matches.
    /// - Throws: ``SystemError`` if the directory is unreadable.
    public func newest(of wanted: String) throws(SystemError) -> String? {
        guard let entries = opendir(directory) else { throw .last }
        defer { closedir(entries) }
        var newest: (name: String, time: UInt64)?
        while let entry = readdir(entries) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { fieldText($0) }
            guard let core = Name(name), core.process == wanted || core.program == wanted else { continue }
            if newest.map({ $0.time < core.time }) ?? true { newest = (name, core.time) }
        }
        return newest.map { "\(directory)/\($0.name)" }
    }

    private struct Name {
        var program: String
        var process: String
        var time: UInt64

        init?(_ name: String) {
            var parts = name.split(separator: ".", omittingEmptySubsequences: false)
            if let last = parts.last, UInt64(digits: last) == nil { parts.removeLast() } // suffix: zst, lz4, xz
            let fixed = 6
            guard parts.count >= fixed, parts[0] == "core", let time = UInt64(digits: parts[parts.count - 1]) else {
                return nil
            }
            self.time = time
            process = String(parts[parts.count - 2])
            program = Self.unescaped(parts[1..<(parts.count - 4)].joined(separator: "."))
        }

        // systemd escapes dots, slashes and blanks as \x2e and so on.
        private static func unescaped(_ text: String) -> String {
            var rest = Substring(text)
            var bytes: [UInt8] = []
            while let first = rest.utf8.first {
                let code = rest.hasPrefix("\\x") ? rest.utf8.dropFirst(2).prefix(2) : ""[...].utf8
                if code.count == 2, let byte = UInt8(digits: Substring(code), radix: 16) {
                    bytes.append(byte)
                    rest = Substring(rest.utf8.dropFirst(4))
                } else {
                    bytes.append(first)
                    rest = Substring(rest.utf8.dropFirst())
                }
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}
