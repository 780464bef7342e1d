// Why a process cannot be looked into.

import Glibc

/// Why a process cannot be looked into.
public enum ProcessError: Error, Hashable, Sendable, CustomStringConvertible {
    /// There is no such process, or it ended meanwhile.
    case gone(Int)
    /// The kernel does not let us look into it: the process, and what is in the way.
    case notOurs(Int, ProcessObstacle)
    /// It runs without the library.
    case notGuarded(Int)
    /// It is not guarded, and by preloading it cannot be.
    case unguardable(Int, ProgramRefusal)
    /// It runs no program.
    case kernelThread(Int)
    /// It is guarded, but has no statistics page: switched off, or refused by the system.
    case withoutStatistics(Int)
    /// It runs with a runtime whose statistics this version cannot read.
    case otherVersion(Int, UInt32)
    /// What it shows as its statistics page is another file than the runtime makes: not in memory, not sealed, or somebody else's.
    case foreignPage(Int)
    /// The kernel refused: the process, and why.
    case system(Int, SystemError)

    /// `wantsMemory`: what failed needs the right to debug the process, not only to look at it.
    init(_ process: Int, _ error: SystemError, wantsMemory: Bool = false) {
        switch error.number {
        case ENOENT, ESRCH: self = .gone(process)
        case EACCES, EPERM: self = .notOurs(process, ProcessObstacle(processID: process, wantsMemory: wantsMemory))
        default: self = .system(process, error)
        }
    }

    /// One line for people, lower case.
    public var description: String {
        switch self {
        case .gone(let process) where !OwnProgram.isInProc: "cannot look into process \(process): /proc is not mounted"
        case .gone(let process): "process \(process) does not exist"
        case .notOurs(let process, let obstacle):
            "no permission to look into process \(process): \(obstacle.description)"
        case .notGuarded(let process): "process \(process) is not guarded"
        case .unguardable(let process, let refusal): "process \(process) is not guarded; \(refusal.message)"
        case .kernelThread(let process): "process \(process) is a thread of the kernel, not a program"
        case .withoutStatistics(let process): "process \(process) is guarded, but shows no statistics"
        case .otherVersion(let process, let version):
            "process \(process) is guarded by another version of zguard (statistics version \(version))"
        case .foreignPage(let process):
            "process \(process) shows a statistics page that is not its runtime's: not sealed, or of another user"
        case .system(let process, let error): "cannot look into process \(process): \(error)"
        }
    }

    /// What one can do about it, if anything.
    public var hint: String? {
        switch self {
        case .notOurs(_, let obstacle): obstacle.hint
        case .unguardable(_, let refusal): refusal.hint
        case .notGuarded: "start it with: zguard run -- PROGRAM"
        case .withoutStatistics: "its options have stats=0, or the system refused it memfd_create"
        default: nil
        }
    }
}
