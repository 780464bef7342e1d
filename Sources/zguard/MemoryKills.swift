// Processes that the kernel has killed because memory had run out.

import ZombieGuard

/// How many there were when this was made, in our own control group and in the whole system.
struct MemoryKills {
    private let counts: [UInt64?]

    init() { counts = Self.places.map(Self.count) }

    /// Whether there are more by now. A process that died of SIGKILL is then likely one of them, but any process of the system
    /// may be the one that was counted.
    var haveGrown: Bool {
        zip(counts, Self.places.map(Self.count)).contains { before, now in
            if let before, let now { now > before } else { false }
        }
    }

    // Of version 2 of control groups; the kernel's own count has those of groups of version 1 as well.
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
