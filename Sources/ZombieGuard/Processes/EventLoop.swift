// Whether a thread that has waited now and then is a loop of events, which others count on, or a program that does one thing after the
// other: a compiler that has waited for another one holds up nobody while it compiles.

import CZombie
import Glibc

/// What is known of one thread. All is asked from outside, and only where the thread is busy for long, or while it waits.
struct EventLoop {
    /// It has been seen waiting, with no child that it could have waited for, for so long.
    private var idleMilliseconds: UInt64 = 0
    private var lastIdle: UInt64 = 0
    private var evidence: Evidence?

    /// What says that it is one.
    enum Evidence {
        /// Strangers connect to its process.
        case listens
        /// It waits for times, or for what comes by pipes, terminals and the like, and not for its children.
        case timers, comings
    }

    private static let idleEnough: UInt64 = 1000, longestIdle: UInt64 = 200

    /// Strangers may be waiting for it, also where it comes to its end by itself.
    var listens: Bool { evidence == .listens }

    /// The thread waits, as it did at the last look. Costs nothing once that has been seen for long.
    mutating func waits(_ thread: UInt32, of process: Int, now: UInt64) {
        guard idleMilliseconds < Self.idleEnough, Self.children(of: thread, in: process).isEmpty else { return }
        // What was in between is not known where nobody has looked for long.
        idleMilliseconds += lastIdle == 0 ? 0 : min(now - lastIdle, Self.longestIdle)
        lastIdle = now
    }

    /// The thread has been busy for so many milliseconds.
    mutating func isOne(_ pulse: zg_pulse, in process: Int, busyFor milliseconds: UInt64) -> Bool {
        if evidence != nil { return true }
        let files = Self.files(of: process)
        let isSet = pulse.singles > 0 && files[pulse.file]?.hasPrefix("anon_inode:[eventpoll]") ?? false
        guard Int(pulse.waits) + (isSet ? Int(pulse.singles) : 0) >= Int(ZG_PULSE_WAITS) else { return false }
        if Self.listens(process: process, files) {
            evidence = .listens
        } else if idleMilliseconds >= Self.idleEnough || !Self.hadChildren(process, pulse.tid, before: milliseconds) {
            if pulse.times >= ZG_PULSE_WAITS || files.values.contains("anon_inode:[timerfd]") {
                evidence = .timers
            } else if !files.contains(where: { $0.key > STDERR_FILENO && Self.mayAnswer($0.value) }) {
                evidence = .comings
            }
        }
        return evidence != nil
    }

    /// What comes there may be the answer to what the program asked for: of others, or of its own threads.
    private static func mayAnswer(_ file: String) -> Bool {
        file.hasPrefix("socket:") || file == "anon_inode:[eventfd]"
    }

    // MARK: Files

    /// What its descriptors are.
    private static func files(of process: Int) -> [Int32: String] {
        var files: [Int32: String] = [:]
        for name in directoryEntries("/proc/\(process)/fd") {
            if let number = Int32(digits: name) { files[number] = readLink("/proc/\(process)/fd/\(name)") }
        }
        return files
    }

    /// Strangers may connect to it.
    static func listens(process: Int) -> Bool { listens(process: process, files(of: process)) }

    private static func listens(process: Int, _ files: [Int32: String]) -> Bool {
        let sockets = Set(
            files.values.compactMap { $0.hasPrefix("socket:[") ? Substring($0.dropFirst(8).dropLast()) : nil })
        if sockets.isEmpty { return false }
        // The fields of /proc/net: the state or the flags, and the number of the socket.
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

    /// It has had children so many milliseconds ago.
    private static func hadChildren(_ process: Int, _ thread: UInt32, before milliseconds: UInt64) -> Bool {
        // Faults and times of those that it has waited for: fields 11, 13, 16 and 17, counted from 1.
        let own = stat(of: process)
        if [11, 13, 16, 17].contains(where: { own.count >= $0 - 2 && own[$0 - 3] != 0 }) { return true }
        let perSecond = max(sysconf(Int32(_SC_CLK_TCK)), 1)
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        // A thread began in the hundredth of a second that is said, or later in it.
        let start = (now.tv_sec * 1000 + now.tv_nsec / 1_000_000 - Int(milliseconds)) * perSecond / 1000 - 1
        return children(of: thread, in: process).contains { child in
            let fields = stat(of: child) // the 22nd: when it began
            return fields.count > 19 && fields[19] < start
        }
    }

    /// The numbers behind the name, from the third field on, the state being 0.
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
