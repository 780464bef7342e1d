// Filters of system calls that zguard runs under, as a service of systemd with SystemCallFilter= does: programs that it starts have them, too.

import CSystem
import CZombie
import Glibc

/// The filters (seccomp) that this process inherited, and what they do to the system calls that guarding needs.
package struct SystemCallFilters {
    /// How many there are.
    let count: UInt64
    private let passing: UInt64

    /// nil where there is no filter, or the kernel does not say.
    package init?() {
        guard let count = Self.count(of: "self"), count > 0 else { return nil }
        var passing: UInt64 = 0
        guard zg_system_try_calls(Self.calls.map(\.number), Int32(Self.calls.count), &passing) == 0 else { return nil }
        self.count = count
        self.passing = passing
        // A container's stand over its first process as well, and only refuse: that the guarded program sees by itself.
        if passing == UInt64.max >> UInt64(64 - Self.calls.count), !Self.forbidsTracing, Self.count(of: "1") == count {
            return nil
        }
    }

    // The kernel tells their number from Linux 5.9 on.
    private static func count(of process: String) -> UInt64? {
        let key = "Seccomp_filters:"
        return String(decoding: (try? readFile("/proc/\(process)/status")) ?? [], as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix(key) }.flatMap { UInt64($0.dropFirst(key.count).drop { $0 == "\t" || $0 == " " }) }
    }

    /// What tells the guarded programs (`ZGUARD_FILTERS`), which cannot try it.
    package var variable: String {
        passing == UInt64.max >> UInt64(64 - Self.calls.count) ? "\(count)" : "\(count):0x\(String(passing, radix: 16))"
    }

    /// The calls that guarding makes and that end a program here; in no order.
    package var forbidden: [String] {
        Self.calls.indices.filter { passing >> UInt64($0) & 1 == 0 }.map { Self.calls[$0].name }
            + (Self.forbidsTracing ? ["ptrace", "pidfd_getfd"] : [])
    }

    /// Whether zguard itself would be ended by stopping threads of others.
    package static let forbidsTracing = (count(of: "self") ?? 0) > 0 && zg_system_tracing_kills() != 0

    private static let calls: [(name: String, number: Int32)] = withUnsafeBytes(of: zg_filtered_calls) { bytes in
        bytes.bindMemory(to: zg_filtered_call.self).map { call in
            (withUnsafeBytes(of: call.name) { fieldText($0) }, call.number)
        }
    }
}
