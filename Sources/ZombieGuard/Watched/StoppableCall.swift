// Whether a thread may be stopped in the system call that it is in: most go on as if nothing had been, and some return early, which a
// program without signals has never seen them do.

import CUnwind
import Glibc

/// Where a thread is, as far as that matters for stopping it.
package enum StopPlace {
    /// On a processor or ready for one, in its own code or in the kernel.
    case running
    /// In a call that the kernel goes on with.
    case undisturbed
    /// In a call that the stop would end or cut short.
    case disturbed(SystemCall)

    /// What the thread does may have changed since, but for the few instructions until it is stopped.
    package init(of thread: Int32, in process: Int) {
        let number = UInt32(bitPattern: thread)
        var call = SystemCall(of: process, thread: number)
        // What a descriptor is takes a while to find out.
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

/// Threads that compute. One that runs may be within a call, and about to wait again: a write of much to a pipe that is being emptied, which a
/// stop would cut short. One that has run for a while since it last waited for anything is not.
package struct ComputingThreads {
    private var since: [Int32: State] = [:]

    private struct State {
        var waits: UInt64, ran: UInt64
    }

    private static let leastNanoseconds: UInt64 = 2_000_000, pauseMicroseconds: UInt32 = 5000
    private static let mostThreads = 256

    package init() {}

    /// Takes up to five milliseconds.
    package mutating func computes(_ thread: Int32, of process: Int) -> Bool {
        guard SystemCall(of: process, thread: UInt32(bitPattern: thread)) == nil else { return false }
        if hasComputed(thread, of: process) { return true }
        usleep(Self.pauseMicroseconds)
        return hasComputed(thread, of: process)
    }

    /// Since the last look at it, or since it last waited.
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
        case zg_call_goes_on: return true
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

/// What a descriptor of a process stands for. Found out without asking the file system, which may not answer.
private enum CalledFile {
    case socket, pipe, anonymous, regular, other

    /// File systems of this machine itself, in whose regular files nobody waits for somebody else.
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

    // proc(5): "mnt_id: 29" of a descriptor; "29 1 8:1 / / rw - ext4 /dev/sda1 rw" of a mount, with more words in front of the hyphen.
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
