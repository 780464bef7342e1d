// Counts processes killed by the kernel's out-of-memory killer.

import ZombieGuard

/// The number of OOM kills at initialization, in zguard's control group and in the whole system.
struct MemoryKills {
    private let counts: [UInt64?]

    init() { counts = Self.places.map(Self.count) }

    /// Whether there were OOM kills since initialization. If so, a process that died of SIGKILL was probably killed for
    /// memory, but the count may be due to any process of the system.
    var haveGrown: Bool {
        zip(counts, Self.places.map(Self.count)).contains { before, now in
            if let before, let now { now > before } else { false }
        }
    }

    // memory.events exists only in cgroup v2. The system-wide count in /proc/vmstat includes kills in cgroups v1.
    private static var places: [String] {
        let group = lines(of: "/proc/self/cgroup").first { $0.hasPrefix("0::") }?.dropFirst(3)
        return (group.map { ["/sys/fs/cgroup\($0)/memory.events"] } ?? []) + ["/proc/vmstat"]
    }

    private static func count(in path: String) -> UInt64? {
        lines(of: path).first { $0.hasPrefix("oom_kill ") }.flatMap { UInt64(digits: $0.dropFirst(9)) }
    }

    private static func lines(of path: String) -> [Substring] {
        guard let bytes = try? readFile(path) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }
}
