// Decides whether a thread runs an event loop or works through a sequence of steps. Only an event loop delays clients
// when it stalls: a compiler driver, for example, waits for its children from time to time, but has no clients.

import CZombie
import Glibc
import ZombieGuard

/// Evidence that one thread runs an event loop. Its methods read /proc, so call them only while the thread waits or
/// after it has been busy for long.
struct EventLoop {
    /// How long the thread was seen waiting while it had no child process to wait for.
    private var idleMilliseconds: UInt64 = 0
    private var lastIdle: UInt64 = 0
    private var evidence: Evidence?

    /// Why the thread counts as an event loop.
    enum Evidence {
        /// The process has a listening socket.
        case listens
        /// The thread waits for timers, or for input from pipes, terminals and similar files, and not for its children.
        case timers, input
    }

    private static let idleEnough: UInt64 = 1000, longestIdle: UInt64 = 200

    /// Whether the evidence is a listening socket. Clients may then have waited during a stall, even if the program
    /// exits by itself after the stall.
    var listens: Bool { evidence == .listens }

    /// Adds the time since the previous call to the idle time, unless the thread has children. Call at each poll that
    /// finds the thread waiting, if the poll before it did so, too. Reads /proc only until the idle time reaches
    /// ``idleEnough``.
    mutating func waits(_ thread: UInt32, of process: Int, now: UInt64) {
        guard idleMilliseconds < Self.idleEnough, Self.children(of: thread, in: process).isEmpty else { return }
        // Between polls that are far apart, the thread may have been busy: count at most `longestIdle`.
        idleMilliseconds += lastIdle == 0 ? 0 : min(now - lastIdle, Self.longestIdle)
        lastIdle = now
    }

    /// Whether the thread, busy for `milliseconds`, runs an event loop.
    mutating func isOne(_ heartbeat: zg_heartbeat, in process: Int, busyFor milliseconds: UInt64) -> Bool {
        if evidence != nil { return true }
        let files = Self.files(of: process)
        let isSet = heartbeat.singles > 0 && files[heartbeat.file]?.hasPrefix("anon_inode:[eventpoll]") ?? false
        guard Int(heartbeat.waits) + (isSet ? Int(heartbeat.singles) : 0) >= Int(ZG_HEARTBEAT_WAITS) else {
            return false
        }
        if Self.listens(process: process, files) {
            evidence = .listens
        } else if idleMilliseconds >= Self.idleEnough || !Self.hadChildren(process, heartbeat.tid, before: milliseconds)
        {
            if heartbeat.times >= ZG_HEARTBEAT_WAITS || files.values.contains("anon_inode:[timerfd]") {
                evidence = .timers
            } else if !files.contains(where: { $0.key > STDERR_FILENO && Self.mayAnswer($0.value) }) {
                evidence = .input
            }
        }
        return evidence != nil
    }

    /// Whether input from the file may answer a request that the program itself has made: to another process through a
    /// socket, or to another of its threads through an eventfd.
    private static func mayAnswer(_ file: String) -> Bool {
        file.hasPrefix("socket:") || file == "anon_inode:[eventfd]"
    }

    // MARK: Files

    /// Link targets of the process's descriptors, by number.
    private static func files(of process: Int) -> [Int32: String] {
        var files: [Int32: String] = [:]
        for name in directoryEntries("/proc/\(process)/fd") {
            if let number = Int32(digits: name) { files[number] = readLink("/proc/\(process)/fd/\(name)") }
        }
        return files
    }

    /// Whether the process has a listening socket.
    static func listens(process: Int) -> Bool { listens(process: process, files(of: process)) }

    private static func listens(process: Int, _ files: [Int32: String]) -> Bool {
        let sockets = Set(
            files.values.compactMap { $0.hasPrefix("socket:[") ? Substring($0.dropFirst(8).dropLast()) : nil })
        if sockets.isEmpty { return false }
        // For each file /proc/net/NAME: index of the field with the socket's state (unix: flags), the value of that
        // field for a listening socket, and index of the field with the inode.
        return [("tcp", 3, "0A", 9), ("tcp6", 3, "0A", 9), ("unix", 3, "00010000", 6)].contains {
            name, place, state, inode in
            lines(of: "/proc/\(process)/net/\(name)").contains { line in
                let fields = line.split(separator: " ")
                return fields.count > inode && fields[place] == state && sockets.contains(fields[inode])
            }
        }
    }

    // MARK: Children

    private static func children(of thread: UInt32, in process: Int) -> [Int] {
        lines(of: "/proc/\(process)/task/\(thread)/children").flatMap {
            $0.split(separator: " ").compactMap { Int(digits: $0) }
        }
    }

    /// Whether the process has ever reaped a child, or the thread has a child that is older than its busy time, which
    /// began `milliseconds` ago.
    private static func hadChildren(_ process: Int, _ thread: UInt32, before milliseconds: UInt64) -> Bool {
        // Fields 11, 13, 16 and 17 of /proc/PID/stat (proc(5), counted from 1): page faults and CPU times of reaped
        // children.
        let own = stat(of: process)
        if [11, 13, 16, 17].contains(where: { own.count >= $0 - 2 && own[$0 - 3] != 0 }) { return true }
        let perSecond = max(sysconf(Int32(_SC_CLK_TCK)), 1)
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        // Start times are in clock ticks (usually 1/100 s), rounded down: allow one tick.
        let start = (now.tv_sec * 1000 + now.tv_nsec / 1_000_000 - Int(milliseconds)) * perSecond / 1000 - 1
        return children(of: thread, in: process).contains { child in
            let fields = stat(of: child) // field 22: start time
            return fields.count > 19 && fields[19] < start
        }
    }

    /// Fields of /proc/PID/stat from field 3 on; 0 for the state, which is a letter.
    private static func stat(of process: Int) -> [Int] {
        let text = lines(of: "/proc/\(process)/stat").first ?? ""
        guard let end = text.lastIndex(of: ")") else { return [] }
        return text[text.index(after: end)...].split(separator: " ").map { Int(signedDigits: $0) ?? 0 }
    }

    // MARK: Reading

    private static func lines(of path: String) -> [Substring] {
        guard let bytes = try? readFile(path) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }
}
