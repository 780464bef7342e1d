// Defines the errors of opening a process.

import Glibc

/// Why zguard cannot read a process.
public enum ProcessError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The process does not exist, or has ended.
    case gone(Int)
    /// The kernel denies access to the process: its ID and the reason.
    case notOurs(Int, ProcessObstacle)
    /// The process runs without the runtime.
    case notGuarded(Int)
    /// The process is not guarded, and preloading cannot guard its program.
    case unguardable(Int, ProgramRefusal)
    /// The process is a kernel thread.
    case kernelThread(Int)
    /// The process is guarded but has no statistics page: stats=0, or memfd_create failed.
    case withoutStatistics(Int)
    /// The process is guarded by another runtime version: its ID and the version of the statistics page.
    case otherVersion(Int, UInt32)
    /// The file that the process shows as its statistics page is not the runtime's: not a memfd, not sealed, or owned
    /// by another user.
    case foreignPage(Int)
    /// A system call failed: the process ID and the error.
    case system(Int, SystemError)

    /// `wantsMemory`: the failed call needs PTRACE_MODE_ATTACH, not only PTRACE_MODE_READ.
    init(_ process: Int, _ error: SystemError, wantsMemory: Bool = false) {
        switch error.number {
        case ENOENT, ESRCH: self = .gone(process)
        case EACCES, EPERM: self = .notOurs(process, ProcessObstacle(processID: process, wantsMemory: wantsMemory))
        default: self = .system(process, error)
        }
    }

    /// The error as one line for users, lower case.
    public var description: String {
        switch self {
        case .gone(let process) where !OwnProgram.isInProc: "cannot look into process \(process): /proc is not mounted"
        case .gone(let process): "process \(process) does not exist"
        case .notOurs(let process, let obstacle):
            "no permission to look into process \(process): \(obstacle.description)"
        case .notGuarded(let process): "process \(process) is not guarded"
        case .unguardable(let process, let refusal): "process \(process) is not guarded; \(refusal.message)"
        case .kernelThread(let process): "process \(process) is a kernel thread"
        case .withoutStatistics(let process): "process \(process) is guarded, but shows no statistics"
        case .otherVersion(let process, let version):
            "process \(process) is guarded by another version of zguard (statistics version \(version))"
        case .foreignPage(let process):
            "process \(process) shows a statistics page that is not its runtime's: not sealed, or of another user"
        case .system(let process, let error): "cannot look into process \(process): \(error)"
        }
    }

    /// How the user can solve the problem; nil if there is no advice.
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
