// Copies a guarded process by fork, if the copy cannot harm the process.

import CUnwind
import Glibc

/// A stopped copy of a process. It ends with this object, or with zguard.
package final class ProcessCopy {
    package let processID: Int

    /// - Parameter processID: ID of the copy, which this process traces.
    init(processID: Int) {
        self.processID = processID
        // Make the copy the first process that the kernel kills if memory gets short.
        try? Descriptor(opening: "/proc/\(processID)/oom_score_adj", flags: O_WRONLY).write("1000")
    }

    deinit { zg_snapshot_end(Int32(truncatingIfNeeded: processID)) }

    /// False if the kernel has killed the copy.
    package var exists: Bool { zg_snapshot_exists(Int32(truncatingIfNeeded: processID)) }
}

/// Whether a process is copied before its memory is read.
package enum CopyAdvice {
    /// - Parameter filters: number of seccomp filters, all of which allow the fork. A thread with another number of
    ///   filters must not fork.
    case possible(filters: UInt64)
    /// The process is already stopped, or so small that reading it while it is stopped takes no longer than a few
    /// copies.
    case needless
    /// The copy might harm the process, or cannot be made. Messages print the reason after "not copied: ".
    case impossible(String)

    /// Call before the process is stopped.
    package init(of process: GuardedProcess) {
        guard let folder = try? process.folder(), let layout = try? process.statistics(in: folder).heapLayout else {
            self = .impossible("the process has ended")
            return
        }
        self = CopyConditions(folder).advice(layout)
    }
}

/// Determines whether a copy might harm the process. While the copy exists, it counts as a process of the same user,
/// and the kernel copies each page that the process writes (copy-on-write).
private struct CopyConditions {
    private let folder: ProcessFolder
    private let status: [String: String]

    /// Smaller processes are stopped instead of copied: reading takes 1.7 s for each gigabyte
    /// (docs/design/039-copies.md).
    private static let smallKilobytes: UInt64 = 32 << 10

    init(_ folder: ProcessFolder) {
        self.folder = folder
        status = folder.status
    }

    func advice(_ layout: HeapLayout) -> CopyAdvice {
        if anonymousKilobytes < Self.smallKilobytes || (status["State"]?.hasPrefix("T") ?? true) { return .needless }
        if let obstacle = obstacle(layout) { return .impossible(obstacle) }
        guard let filters else { return .impossible("a seccomp filter might forbid a system call") }
        return .possible(filters: filters)
    }

    private func obstacle(_ layout: HeapLayout) -> String? {
        if layout.snapshot.code == 0 { return "not on this processor" }
        // The copy is an orphan, and the kernel makes orphans children of the first process in their PID namespace.
        // That process would be the copied one, which does not expect another child.
        if folder.innermostID == 1 { return "the process is the first of its PID namespace" }
        return memoryObstacle ?? descriptorObstacle ?? countObstacle
    }

    // Number of the process's seccomp filters, if all of them are known to allow the fork; nil if that is unknown. In a
    // container whose filters apply to zguard as well, zguard tries the system calls itself.
    private var filters: UInt64? {
        guard let count = SystemCallFilters.count(of: "\(folder.number)") else { return nil }
        if count == 0 { return 0 }
        guard count == SystemCallFilters.count(of: "self"), count == SystemCallFilters.count(of: "1") else {
            return nil
        }
        return zg_snapshot_calls_pass() ? count : nil
    }

    // MARK: Memory

    private func kilobytes(_ name: String) -> UInt64 {
        status[name]?.split(separator: " ").first.flatMap { UInt64(digits: $0) } ?? 0
    }

    private var anonymousKilobytes: UInt64 {
        status["RssAnon"] == nil ? kilobytes("VmRSS") : kilobytes("RssAnon")
    }

    private var memoryObstacle: String? {
        // A write to a huge page that the copy shares needs another huge page, and none may be left.
        if kilobytes("HugetlbPages") > 0 { return "the process has huge pages of hugetlbfs" }
        // Strict accounting counts the copy's memory as used.
        if Self.number(in: "/proc/sys/vm/overcommit_memory") == 2 { return "vm.overcommit_memory is 2" }
        // At worst the process writes to each page while the copy exists, and the kernel then copies each page. In
        // addition, zguard itself needs a quarter of that amount.
        let needed = (anonymousKilobytes + anonymousKilobytes / 4 + kilobytes("VmPTE")) * 1024
        guard let available = Self.field("MemAvailable", of: "/proc/meminfo"), available >= needed / 1024 else {
            return "memory is short"
        }
        for group in controlGroups {
            guard let most = Self.number(in: group + "memory.max") ?? Self.number(in: group + "memory.limit_in_bytes")
            else { continue }
            let used = Self.number(in: group + "memory.current") ?? Self.number(in: group + "memory.usage_in_bytes")
            let isFirst = Self.number(in: group + "memory.current") != nil
            let files = ["active_file", "inactive_file"].compactMap {
                Self.field(isFirst ? $0 : "total_" + $0, of: group + "memory.stat")
            }
            let kept = (used ?? most) - min(used ?? most, files.reduce(0, +))
            if most < kept || most - kept < needed { return "the control group's memory is short" }
        }
        return nil
    }

    // MARK: Descriptors

    private var descriptorObstacle: String? {
        // userfaultfd: a fork waits until the descriptor's reader, which may be a stopped thread, has read the event.
        // io_uring and AIO: if a fork occurs during a direct read, Linux 6.3 and older may write the data to the
        // buffer's old page.
        for name in folder.entries(of: "fd") {
            switch folder.link("fd/\(name)") {
            case "anon_inode:[userfaultfd]": return "the process uses userfaultfd"
            case "anon_inode:[io_uring]": return "the process uses io_uring"
            default: break
            }
        }
        let usesAIO = ((try? Mapping.all(of: folder)) ?? []).contains { $0.path.hasPrefix("/[aio]") }
        return usesAIO ? "the process uses asynchronous I/O" : nil
    }

    // MARK: Numbers of processes

    /// Number of processes that the program must still be able to start while the copy exists.
    private static let spareProcesses: UInt64 = 64

    private var countObstacle: String? {
        for group in controlGroups {
            guard let most = Self.number(in: group + "pids.max"), let used = Self.number(in: group + "pids.current")
            else { continue }
            if most < used + Self.spareProcesses { return "the control group's number of processes is limited" }
        }
        let line = String(decoding: (try? folder.contents(of: "limits")) ?? [], as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("Max processes") }
        guard let most = line?.split(separator: " ").dropFirst(2).first.flatMap({ UInt64(digits: $0) }),
            let user = folder.owner?.users.first
        else { return nil }
        return most < Self.threads(of: user) + Self.spareProcesses ? "RLIMIT_NPROC is low" : nil
    }

    private static func threads(of user: uid_t) -> UInt64 {
        var count: UInt64 = 0
        for process in directoryEntries("/proc") where UInt64(digits: process) != nil {
            var status = stat()
            guard stat("/proc/\(process)/task", &status) == 0, status.st_uid == user else { continue }
            count += UInt64(status.st_nlink) - 2
        }
        return count
    }

    // MARK: Files

    /// Folders of the process's control groups and of all their parents; some may not be visible here.
    private var controlGroups: [String] {
        var folders: [String] = []
        for line in String(decoding: (try? folder.contents(of: "cgroup")) ?? [], as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let controllers = fields[1].split(separator: ",")
            let root = fields[1].isEmpty ? [""] : ["memory", "pids"].filter { controllers.contains(Substring($0)) }
            for name in root {
                var path = "/sys/fs/cgroup/" + (name.isEmpty ? "" : name + "/")
                folders.append(path)
                for part in fields[2].split(separator: "/") where part != ".." {
                    path += part + "/"
                    folders.append(path)
                }
            }
        }
        return folders
    }

    private static func number(in path: String) -> UInt64? {
        (try? readFile(path)).flatMap { UInt64(digits: String(decoding: $0, as: UTF8.self).dropLast()) }
    }

    private static func field(_ name: String, of path: String) -> UInt64? {
        String(decoding: (try? readFile(path)) ?? [], as: UTF8.self).split(separator: "\n").lazy
            .map { $0.split { $0 == " " || $0 == ":" } }
            .first { $0.first == Substring(name) && $0.count > 1 }.flatMap { UInt64(digits: $0[1]) }
    }
}
