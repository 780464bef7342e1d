// Decides whether a thread may be stopped in its current system call. The kernel resumes most calls after a stop, but
// some calls return early, which a program without signal handlers does not expect.

import CUnwind
import Glibc

/// State of a thread that determines whether a stop changes the program's behavior.
package enum StopPlace {
    /// Running or runnable, in user or kernel mode.
    case running
    /// In a system call that the kernel resumes after a stop.
    case undisturbed
    /// In a system call that returns early if the thread is stopped.
    case disturbed(SystemCall)

    /// The state is valid only at the moment of the check: the thread may continue before it is stopped.
    package init(of thread: Int32, in process: Int) {
        let number = UInt32(bitPattern: thread)
        var call = SystemCall(of: process, thread: number)
        // Classifying a descriptor takes time: check that the thread is still in the same call.
        for _ in 0..<3 {
            guard let current = call else { break }
            if !current.goesOnAfterStop(in: process) {
                self = .disturbed(current)
                return
            }
            call = SystemCall(of: process, thread: number)
            if call == current {
                self = .undisturbed
                return
            }
        }
        self = call.map { .disturbed($0) } ?? .running
    }
}

/// Finds threads that compute. A running thread may be inside a system call and about to wait, for example in a large
/// write to a pipe. A stop would then cut the call short. A thread that has used CPU time without a wait is computing.
package struct ComputingThreads {
    private var since: [Int32: State] = [:]

    private struct State {
        var waits: UInt64, ran: UInt64
    }

    private static let leastNanoseconds: UInt64 = 2_000_000, pauseMicroseconds: UInt32 = 5000
    private static let mostThreads = 256

    package init() {}

    /// Blocks for up to 5 ms.
    package mutating func computes(_ thread: Int32, of process: Int) -> Bool {
        guard SystemCall(of: process, thread: UInt32(bitPattern: thread)) == nil else { return false }
        if hasComputed(thread, of: process) { return true }
        usleep(Self.pauseMicroseconds)
        return hasComputed(thread, of: process)
    }

    /// Whether the thread used at least 2 ms of CPU time since its last wait or since this function first saw it.
    private mutating func hasComputed(_ thread: Int32, of process: Int) -> Bool {
        guard let times = ThreadTimes(of: process, thread: UInt32(bitPattern: thread)),
            let waits = ThreadTimes.waits(of: thread, in: process)
        else { return false }
        if let state = since[thread], state.waits == waits {
            return times.ran &- state.ran >= Self.leastNanoseconds
        }
        if since.count >= Self.mostThreads { since = [:] }
        since[thread] = State(waits: waits, ran: times.ran)
        return false
    }
}

extension SystemCall {
    fileprivate func goesOnAfterStop(in process: Int) -> Bool {
        switch zg_call_when_stopped(number) {
        case zg_call_restarts: return true
        case zg_call_reads:
            switch CalledFile(Int32(truncatingIfNeeded: arguments[0]), of: process) {
            case .other: return false
            case .socket: return !zg_call_fills_buffer(number, arguments) && waitsForEver(in: process, toSend: false)
            case .pipe, .anonymous, .regular: return true
            }
        case zg_call_writes: return CalledFile(Int32(truncatingIfNeeded: arguments[0]), of: process) == .regular
        case zg_call_connects: return waitsForEver(in: process, toSend: true)
        default: return false
        }
    }

    private func waitsForEver(in process: Int, toSend: Bool) -> Bool {
        let copy = zg_socket_of_process(Int32(process), Int32(truncatingIfNeeded: arguments[0]))
        if copy < 0 { return false }
        defer { close(copy) }
        return zg_socket_waits_for_ever(copy, toSend)
    }
}

/// Type of an open file of a process. Only files of local file systems are accessed: access to other files may block.
private enum CalledFile {
    case socket, pipe, anonymous, regular, other

    /// Local file systems: access to their regular files never depends on another process or machine.
    private static let local: Set<String> = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "ramfs", "overlay", "squashfs",
        "erofs", "iso9660", "vfat", "exfat",
    ]

    init(_ descriptor: Int32, of process: Int) {
        let link = "/proc/\(process)/fd/\(descriptor)"
        let text = readLink(link) ?? ""
        if text.hasPrefix("/") {
            self = Self.isLocal(descriptor, of: process) ? Self.kind(of: link) : .other
        } else {
            self =
                text.hasPrefix("socket:")
                ? .socket : text.hasPrefix("pipe:") ? .pipe : text.hasPrefix("anon_inode:") ? .anonymous : .other
        }
    }

    private static func kind(of link: String) -> CalledFile {
        var status = stat()
        guard stat(link, &status) == 0 else { return .other }
        switch status.st_mode & S_IFMT {
        case S_IFREG, S_IFDIR: return .regular
        case S_IFIFO: return .pipe
        default: return .other
        }
    }

    // proc(5): fdinfo has the line "mnt_id: 29". A mountinfo line is "29 1 8:1 / / rw - ext4 /dev/sda1 rw", with
    // optional fields in front of the hyphen.
    private static func isLocal(_ descriptor: Int32, of process: Int) -> Bool {
        guard let about = lines("/proc/\(process)/fdinfo/\(descriptor)"),
            let number = about.lazy.compactMap({ $0.first == "mnt_id:" ? $0.last : nil }).first,
            let mount = lines("/proc/\(process)/mountinfo")?.first(where: { $0.first == number }),
            let hyphen = mount.firstIndex(of: "-"), hyphen + 1 < mount.count
        else { return false }
        return local.contains(String(mount[hyphen + 1]))
    }

    private static func lines(_ path: String) -> [[Substring]]? {
        guard let bytes = try? readFile(path) else { return nil }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map {
            $0.split(whereSeparator: \.isWhitespace)
        }
    }
}
