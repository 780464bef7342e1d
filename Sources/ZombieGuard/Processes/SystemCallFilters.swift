// Finds the seccomp filters that zguard inherited and passes on to its children, such as SystemCallFilter= of a systemd
// service.

import CSystem
import CZombie
import Glibc

/// The seccomp filters that this process inherited, and their effect on the system calls that the runtime needs.
package struct SystemCallFilters {
    /// Number of filters.
    let count: UInt64
    private let passing: UInt64

    /// nil if there is no filter, the kernel does not report the number of filters, the system calls cannot be tried,
    /// or all filters are those of a container and kill nothing.
    package init?() {
        guard let count = Self.count(of: "self"), count > 0 else { return nil }
        var passing: UInt64 = 0
        guard zg_system_try_calls(Self.calls.map(\.number), Int32(Self.calls.count), &passing) == 0 else { return nil }
        self.count = count
        self.passing = passing
        // Ignore the filters of a container, which apply to its PID 1 as well: they make forbidden calls fail with an
        // error (SECCOMP_RET_ERRNO), which the runtime in the guarded program handles itself.
        if passing == UInt64.max >> UInt64(64 - Self.calls.count), !Self.forbidsTracing, Self.count(of: "1") == count {
            return nil
        }
    }

    /// The number of filters of a thread, named by its folder in /proc; nil if the thread has ended, or if the kernel
    /// does not report their number (before Linux 5.9).
    static func count(of thread: String) -> UInt64? {
        let lines = String(decoding: (try? readFile("/proc/\(thread)/status")) ?? [], as: UTF8.self).split(
            separator: "\n")
        func value(_ key: String) -> UInt64? {
            lines.first { $0.hasPrefix(key) }.flatMap {
                UInt64($0.dropFirst(key.count).drop { $0 == "\t" || $0 == " " })
            }
        }
        return value("Seccomp:") == 0 ? 0 : value("Seccomp_filters:")
    }

    /// Value of `ZGUARD_FILTERS` for the guarded programs, which cannot test the filters themselves.
    package var variable: String {
        passing == UInt64.max >> UInt64(64 - Self.calls.count) ? "\(count)" : "\(count):0x\(String(passing, radix: 16))"
    }

    /// System calls of the runtime and of zguard for which a filter would kill the caller, in no particular order.
    package var forbidden: [String] {
        Self.calls.indices.filter { passing >> UInt64($0) & 1 == 0 }.map { Self.calls[$0].name }
            + (Self.forbidsTracing ? ["ptrace", "pidfd_getfd"] : [])
    }

    /// Whether a filter would kill zguard for stopping threads of other processes.
    package static let forbidsTracing = (count(of: "self") ?? 0) > 0 && zg_system_tracing_kills() != 0

    private static let calls: [(name: String, number: Int32)] = withUnsafeBytes(of: zg_filtered_calls) { bytes in
        bytes.bindMemory(to: zg_filtered_call.self).map { call in
            (withUnsafeBytes(of: call.name) { fieldText($0) }, call.number)
        }
    }
}
