// Why a process cannot be looked into.

import Glibc

/// Why a process cannot be looked into.
public enum ProcessError: Error, Hashable, Sendable, CustomStringConvertible {
    /// There is no such process, or it ended meanwhile.
    case gone(Int)
    /// It belongs to another user, or the system forbids looking into it.
    case notOurs(Int)
    case notGuarded(Int)
    /// It is guarded, but has no statistics page: switched off, or refused by the system.
    case withoutStatistics(Int)
    /// It runs with a runtime whose statistics this version cannot read.
    case otherVersion(Int, UInt32)
    case system(Int, SystemError)

    init(_ process: Int, _ error: SystemError) {
        switch error.number {
        case ENOENT, ESRCH: self = .gone(process)
        case EACCES, EPERM: self = .notOurs(process)
        default: self = .system(process, error)
        }
    }

    /// One line for people, lower case.
    public var description: String {
        switch self {
        case .gone(let process): "process \(process) does not exist"
        case .notOurs(let process): "no permission to look into process \(process)"
        case .notGuarded(let process): "process \(process) is not guarded"
        case .withoutStatistics(let process): "process \(process) is guarded, but shows no statistics"
        case .otherVersion(let process, let version):
            "process \(process) is guarded by another version of zguard (statistics version \(version))"
        case .system(let process, let error): "cannot look into process \(process): \(error)"
        }
    }

    /// What one can do about it, if anything.
    public var hint: String? {
        switch self {
        case .notOurs:
            "only the owner of a process and root can do that; /proc/sys/kernel/yama/ptrace_scope may forbid more"
        case .notGuarded: "start it with: zguard run -- PROGRAM"
        case .withoutStatistics: "its options have stats=0, or the system refused it memfd_create"
        default: nil
        }
    }
}
