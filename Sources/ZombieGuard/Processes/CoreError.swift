// Why a core file cannot be looked into.

/// Why a core file cannot be looked into.
public enum CoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file cannot be read: its path, and why.
    case unreadable(String, SystemError)
    /// It is no core file; the second text says what it is instead, where that is known.
    case notCore(String, String?)
    /// It is packed by this program, and the library that unpacks is not installed.
    case packed(String, by: String, String)
    /// It cannot be unpacked: its path, and why.
    case notUnpacked(String, SystemError)
    /// It is of another architecture.
    case otherMachine(String)
    /// Its tables point to where nothing is.
    case damaged(String, String)
    /// It holds no statistics page; whether the file is cut off.
    case notGuarded(String, isCutOff: Bool)
    /// It is of a guarded process, but its statistics page was left out.
    case withoutPage(String)
    /// It is of another version of the runtime: path, and the version of its page.
    case otherVersion(String, UInt32)

    /// One line for people, lower case, safe to print.
    public var description: String {
        switch self {
        case .unreadable(let path, let error): "cannot read core file '\(visible(path))': \(error)"
        case .notCore(let path, let what): "'\(visible(path))' is no core file" + (what.map { " but \($0)" } ?? "")
        case .packed(let path, let program, let library):
            "core file '\(visible(path))' is packed by \(program), and \(library) is not installed"
        case .notUnpacked(let path, let error): "cannot unpack core file '\(visible(path))': \(error)"
        case .otherMachine(let path): "core file '\(visible(path))' is of another architecture"
        case .damaged(let path, let what): "core file '\(visible(path))' is damaged: \(what)"
        case .notGuarded(let path, let isCutOff):
            "core file '\(visible(path))' "
                + (isCutOff ? "is cut off, and what is left shows no guarded process" : "is not of a guarded process")
        case .withoutPage(let path): "core file '\(visible(path))' was written without the statistics page"
        case .otherVersion(let path, let version):
            "core file '\(visible(path))' is of another version of zguard (statistics version \(version))"
        }
    }

    /// What one can do about it, if anything.
    public var hint: String? {
        switch self {
        case .notUnpacked: "it is unpacked in TMPDIR, or else in /var/tmp"
        case .packed(_, let program, _): "unpack it first, for example with: \(program) -d"
        case .notGuarded(_, isCutOff: true): "let core files be complete: ulimit -c unlimited"
        case .notGuarded: "start the program with: zguard run -- PROGRAM"
        case .withoutPage:
            "shared memory must be in core files: bit 1 of /proc/PID/coredump_filter, which is set by default"
        default: nil
        }
    }
}
