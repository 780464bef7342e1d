// Determines why the kernel denies access to a process.

import Glibc

/// Why the kernel denies access to a process: a check of ptrace_may_access (kernel/ptrace.c) or of a security module.
public enum ProcessObstacle: Hashable, Sendable {
    /// The process belongs to another user.
    case user(UInt32)
    /// The process belongs to another user, and zguard is root without CAP_SYS_PTRACE.
    case rootWithoutRights(UInt32)
    /// The process has capabilities that zguard lacks.
    case capabilities
    /// The process is not dumpable (prctl PR_SET_DUMPABLE), as programs with secrets are.
    case undumpable
    /// The Yama security module restricts ptrace: the value of /proc/sys/kernel/yama/ptrace_scope.
    case scope(Int)
    /// zguard has CAP_SYS_PTRACE in a user namespace that does not contain the process.
    case namespace
    /// None of the other checks failed, so a security module denies access.
    case module

    private static let ptraceRight = UInt64(1) << 19 // CAP_SYS_PTRACE

    /// Properties of both processes that the checks compare.
    struct Facts {
        var ownUser: UInt32
        /// Effective capabilities, a bit for each.
        var ownCapabilities: UInt64
        var hasAllUsers = true
        /// Effective user; nil if unreadable.
        var user: UInt32?
        /// Permitted capabilities, a bit for each.
        var capabilities: UInt64 = 0
        var scope = 0
        /// Whether memory was to be accessed (PTRACE_MODE_ATTACH), which needs more rights than listing mappings.
        var wantsMemory = false
    }

    init(_ facts: Facts) {
        if facts.wantsMemory, facts.scope > 2 {
            self = .scope(facts.scope)
        } else if facts.ownCapabilities & Self.ptraceRight != 0 {
            self = facts.hasAllUsers ? .module : .namespace
        } else if let user = facts.user, user != facts.ownUser {
            self = facts.ownUser == 0 ? .rootWithoutRights(user) : .user(user)
        } else if facts.capabilities & ~facts.ownCapabilities != 0 {
            self = .capabilities
        } else {
            self = facts.wantsMemory && facts.scope > 0 ? .scope(facts.scope) : .undumpable
        }
    }

    init(processID: Int, wantsMemory: Bool) {
        let own = GuardedProcess.status(of: Int(getpid()))
        let other = GuardedProcess.status(of: processID)
        let map = (try? readFile("/proc/self/uid_map")).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let users = map.split { $0 == " " || $0 == "\n" }
        let scope = (try? readFile("/proc/sys/kernel/yama/ptrace_scope")).map { String(decoding: $0, as: UTF8.self) }
        self.init(
            Facts(
                ownUser: geteuid(), ownCapabilities: Self.mask(own["CapEff"]) ?? (geteuid() == 0 ? .max : 0),
                hasAllUsers: users.isEmpty || users == ["0", "0", "4294967295"],
                // The effective user is the second field, behind the real user.
                user: other["Uid"].flatMap { $0.split { $0 == "\t" || $0 == " " }.dropFirst().first }.flatMap {
                    UInt32(digits: $0)
                },
                capabilities: Self.mask(other["CapPrm"]) ?? 0,
                scope: scope.flatMap { Int(digits: $0.prefix { $0.isNumber }) } ?? 0, wantsMemory: wantsMemory))
    }

    private static func mask(_ text: String?) -> UInt64? { text.flatMap { UInt64(digits: $0, radix: 16) } }

    /// Completes "no permission to look into process 1: ".
    var description: String {
        switch self {
        case .user(let user): "it belongs to \(Self.name(user))"
        case .rootWithoutRights(let user):
            "it belongs to \(Self.name(user)), and this root lacks the capability SYS_PTRACE"
        case .capabilities: "it has capabilities that zguard lacks"
        case .undumpable: "it is not dumpable (prctl PR_SET_DUMPABLE)"
        case .scope(let scope): "/proc/sys/kernel/yama/ptrace_scope is \(scope)"
        case .namespace: "zguard is root only in its own user namespace, and the process is outside of it"
        case .module:
            "zguard runs as root and may do it, but a security module forbids it (landlock, AppArmor, SELinux or another)"
        }
    }

    var hint: String? {
        switch self {
        case .user(let user): user == 0 ? "run zguard as root" : "run zguard as that user or as root"
        case .rootWithoutRights: "give the container the capability: --cap-add SYS_PTRACE"
        case .capabilities, .undumpable: "run zguard as root with the capability SYS_PTRACE"
        case .scope(let scope): scope > 2 ? "ptrace is disabled until the next reboot" : "run zguard as root"
        case .namespace, .module: "run zguard outside of the container or sandbox"
        }
    }

    private static func name(_ user: UInt32) -> String { user == 0 ? "root" : "user \(user)" }
}
