// What forbids looking into a process, as far as /proc tells.

import Glibc

/// Why the kernel lets nobody look into a process, or not this one: what ptrace_may_access (kernel/ptrace.c) asks, in its order.
public enum ProcessObstacle: Hashable, Sendable {
    /// It is another user's, by number.
    case user(UInt32)
    /// It is another user's, and this root has no right over others.
    case rootWithoutRights(UInt32)
    /// It may do what this process may not.
    case capabilities
    /// It does not let itself be looked into, as programs with secrets do.
    case undumpable
    /// /proc/sys/kernel/yama/ptrace_scope.
    case scope(Int)
    /// This process has all rights in a user namespace, to which the other does not belong.
    case namespace
    /// Nothing of this: a security module.
    case module

    private static let ptraceRight = UInt64(1) << 19 // CAP_SYS_PTRACE

    /// What there is to know of both processes.
    struct Facts {
        var ownUser: UInt32
        /// Effective ones, a bit for each.
        var ownCapabilities: UInt64
        var hasAllUsers = true
        /// nil where the process cannot be asked.
        var user: UInt32?
        /// Permitted ones.
        var capabilities: UInt64 = 0
        var scope = 0
        /// Memory was asked for, which takes more than the list of mappings.
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
                // The effective one: behind the real one.
                user: other["Uid"].flatMap { $0.split { $0 == "\t" || $0 == " " }.dropFirst().first }.flatMap {
                    UInt32(digits: $0)
                },
                capabilities: Self.mask(other["CapPrm"]) ?? 0,
                scope: scope.flatMap { Int(digits: $0.prefix { $0.isNumber }) } ?? 0, wantsMemory: wantsMemory))
    }

    private static func mask(_ text: String?) -> UInt64? { text.flatMap { UInt64(digits: $0, radix: 16) } }

    /// Follows "no permission to look into process 1: ".
    var description: String {
        switch self {
        case .user(let user): "it belongs to \(Self.name(user))"
        case .rootWithoutRights(let user):
            "it belongs to \(Self.name(user)), and this root lacks the capability SYS_PTRACE"
        case .capabilities: "it has capabilities that zguard lacks"
        case .undumpable: "it does not let itself be looked into (prctl PR_SET_DUMPABLE)"
        case .scope(let scope): "/proc/sys/kernel/yama/ptrace_scope is \(scope)"
        case .namespace: "it is outside of this user namespace, in which alone zguard has the rights of root"
        case .module:
            "zguard runs as root and may do it, but a security module forbids it (landlock, AppArmor, SELinux or another)"
        }
    }

    var hint: String? {
        switch self {
        case .user(let user): user == 0 ? "run zguard as root" : "run zguard as that user or as root"
        case .rootWithoutRights: "give the container the capability: --cap-add SYS_PTRACE"
        case .capabilities, .undumpable: "run zguard as root with the capability SYS_PTRACE"
        case .scope(let scope): scope > 2 ? "until the machine starts anew, nobody may" : "run zguard as root"
        case .namespace, .module: "run zguard outside of the container or sandbox"
        }
    }

    private static func name(_ user: UInt32) -> String { user == 0 ? "root" : "user \(user)" }
}
