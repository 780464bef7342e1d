// Reads how often the CPU quotas of a thread's cgroups were used up.

/// The cgroups with a CPU quota that contain a thread: its own cgroup and those above it. Throttled periods are counted
/// from `init` on.
package struct CPUQuotas {
    private var groups: [Group]
    /// Milliseconds of the periods in which the ``strictest`` quota was used up: an upper bound of the time for which
    /// it held the thread up.
    package private(set) var throttled: UInt64 = 0
    /// The quota that was used up for the longest time: "20 ms in every 100 ms, of cgroup /shop".
    package private(set) var strictest: String?

    /// A cgroup with a quota.
    private struct Group {
        var folder: String, name: String
        var quota: UInt64, period: UInt64 // microseconds
        /// Number of throttled periods at `init`.
        var first: UInt64

        init?(_ place: Place, _ name: String) {
            folder = place.folder + name
            self.name = name
            guard let limit = place.isUnified ? Self.limit(in: folder) : Self.olderLimit(in: folder),
                let first = Self.throttles(in: folder)
            else { return nil }
            (quota, period) = limit
            self.first = first
        }

        // "20000 100000", or "max 100000".
        private static func limit(in folder: String) -> (quota: UInt64, period: UInt64)? {
            let words = CPUQuotas.lines(of: folder + "/cpu.max").first?.split(separator: " ") ?? []
            guard words.count == 2, let quota = UInt64(digits: words[0]), let period = UInt64(digits: words[1]) else {
                return nil
            }
            return (quota, period)
        }

        // In cgroup v1, a quota of -1 means no quota; it does not parse, so the result is nil.
        private static func olderLimit(in folder: String) -> (quota: UInt64, period: UInt64)? {
            func number(_ name: String) -> UInt64? {
                CPUQuotas.lines(of: "\(folder)/cpu.cfs_\(name)_us").first.flatMap { UInt64(digits: $0) }
            }
            guard let quota = number("quota"), let period = number("period") else { return nil }
            return (quota, period)
        }

        /// Number of throttled periods. The kernel's `throttled_usec` is not used, because from Linux 6.18 on it misses
        /// most of the throttled time.
        static func throttles(in folder: String) -> UInt64? {
            let line = CPUQuotas.lines(of: folder + "/cpu.stat").first { $0.hasPrefix("nr_throttled ") }
            return line.flatMap { UInt64(digits: $0.dropFirst("nr_throttled ".utf8.count)) }
        }
    }

    /// Where a hierarchy of cgroups is mounted.
    private struct Place {
        var folder: String
        /// The cgroup at the root of the mount.
        var root: String
        var isUnified: Bool
    }

    private static let mostLevels = 32

    /// - Returns: nil if the cgroups cannot be read.
    package init?(of process: Int, thread: UInt32) {
        guard let place = Self.place,
            let name = Self.cgroup(in: Self.lines(of: "/proc/\(process)/task/\(thread)/cgroup"), place)
        else { return nil }
        var names = [""]
        for part in name.split(separator: "/").prefix(Self.mostLevels) {
            names.append(names[names.count - 1] + "/" + part)
        }
        // The root cgroup of the whole hierarchy has no quota file: `Group` returns nil for it.
        groups = names.compactMap { Group(place, $0) }
    }

    /// Reads the counts again.
    package mutating func look() {
        for group in groups {
            let count = (Group.throttles(in: group.folder) ?? 0).subtractingClamped(group.first)
            let milliseconds = min(count, UInt64(UInt32.max)) * min(group.period, UInt64(UInt32.max)) / 1000
            guard milliseconds > throttled else { continue }
            throttled = milliseconds
            let (quota, period) = (group.quota / 1000, group.period / 1000)
            strictest = "\(quota) ms in every \(period) ms, of cgroup \(group.name.isEmpty ? "/" : group.name)"
        }
    }

    // MARK: Places

    /// The hierarchy that has the controller `cpu`.
    private static let place = place(in: lines(of: "/proc/self/mountinfo"))

    // proc(5): "36 35 0:30 /docker/1 /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct".
    private static func place(in mounts: [Substring]) -> Place? {
        let places = mounts.compactMap { line -> Place? in
            let words = line.split(separator: " ")
            guard words.count > 6, let hyphen = words.firstIndex(of: "-"), hyphen + 3 < words.count else { return nil }
            let (root, folder) = (words[3] == "/" ? "" : String(words[3]), String(words[4]))
            switch words[hyphen + 1] {
            case "cgroup2": return Place(folder: folder, root: root, isUnified: true)
            case "cgroup" where words[hyphen + 3].split(separator: ",").contains("cpu"):
                return Place(folder: folder, root: root, isUnified: false)
            default: return nil
            }
        }
        return places.first { !$0.isUnified } ?? places.first
    }

    // "3:cpu,cpuacct:/docker/1/shop"; in cgroup v2 "0::/docker/1/shop".
    private static func cgroup(in lines: [Substring], _ place: Place) -> String? {
        for line in lines {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let isIt = place.isUnified ? fields[0] == "0" : fields[1].split(separator: ",").contains("cpu")
            guard isIt, fields[2].hasPrefix(place.root) else { continue }
            let name = fields[2].dropFirst(place.root.count)
            // A process outside of the mounted part is shown as "/../other".
            return name.split(separator: "/").contains("..") ? nil : String(name)
        }
        return nil
    }

    private static func lines(of path: String) -> [Substring] {
        guard let bytes = try? readFile(path) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }
}
