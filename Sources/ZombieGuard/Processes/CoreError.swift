// Defines the errors of opening a core file.

/// Why zguard cannot read a core file.
public enum CoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file is unreadable: its path and the error.
    case unreadable(String, SystemError)
    /// The file is not an ELF core file. The second text names what it is instead, if known.
    case notCore(String, String?)
    /// The file is compressed with the program `by`; the library that decompresses it, named last, is not installed.
    case packed(String, by: String, String)
    /// Decompression failed: the path of the file and the error.
    case notUnpacked(String, SystemError)
    /// The core file was written on another architecture.
    case otherMachine(String)
    /// A header or table of the file is malformed or truncated: its path and the details.
    case damaged(String, String)
    /// No statistics page was found. `isCutOff`: the file is truncated.
    case notGuarded(String, isCutOff: Bool)
    /// The process was guarded, but the core file leaves out its statistics page.
    case withoutPage(String)
    /// The core file is of another runtime version: its path and the version of the statistics page.
    case otherVersion(String, UInt32)

    /// The error as one line for users: lower case, control characters escaped.
    public var description: String {
        switch self {
        case .unreadable(let path, let error): "cannot read core file '\(visible(path))': \(error)"
        case .notCore(let path, let what):
            "'\(visible(path))' is not a core file" + (what.map { ": it is \($0)" } ?? "")
        case .packed(let path, let program, let library):
            "cannot decompress core file '\(visible(path))' (\(program)): \(library) is not installed"
        case .notUnpacked(let path, let error): "cannot decompress core file '\(visible(path))': \(error)"
        case .otherMachine(let path): "core file '\(visible(path))' is of another architecture"
        case .damaged(let path, let what): "core file '\(visible(path))' is damaged: \(what)"
        case .notGuarded(let path, let isCutOff):
            "core file '\(visible(path))' "
                + (isCutOff
                    ? "is truncated and has no statistics page of zguard" : "was not written by a guarded process")
        case .withoutPage(let path): "core file '\(visible(path))' was written without the statistics page"
        case .otherVersion(let path, let version):
            "core file '\(visible(path))' is of another version of zguard (statistics version \(version))"
        }
    }

    /// How the user can solve the problem; nil if there is no advice.
    public var hint: String? {
        switch self {
        case .notUnpacked: "zguard decompresses it in TMPDIR (default: /var/tmp); check the free space there"
        case .packed(_, let program, _): "decompress it first, for example with: \(program) -d"
        case .notGuarded(_, isCutOff: true): "raise the limit on core files: ulimit -c unlimited"
        case .notGuarded: "start the program with: zguard run -- PROGRAM"
        case .withoutPage:
            "shared memory must be in core files: bit 1 of /proc/PID/coredump_filter, which is set by default"
        default: nil
        }
    }
}
