// Determines whether this process is guarded, and if not, why.

import CZombie
import Glibc
import Testing
import ZombieGuardCore

enum Guarding {
    /// Message that says why the process is not guarded; nil if it is guarded.
    static let missing: String? = {
        if let sanitizer {
            return "ZombieGuard is not active: the tests are built with \(sanitizer), whose malloc cannot be replaced"
        }
        guard ZombieGuard.isActive, let interface = zg_api_find() else {
            return "ZombieGuard is not active: its runtime could not start in this process"
        }
        // Another allocator may precede the runtime in symbol search order. The program's blocks are not in the guarded
        // heap then, and no bug could be found.
        let block = malloc(24)
        defer { free(block) }
        if interface.pointee.is_live(UInt64(UInt(bitPattern: block))) != 0 { return nil }
        return "ZombieGuard is not active: another allocator replaces malloc in this process"
    }()

    /// Name of the sanitizer that this process was built with, if any.
    static let sanitizer: String? = [
        ("__asan_init", "AddressSanitizer"), ("__tsan_init", "ThreadSanitizer"), ("__msan_init", "MemorySanitizer"),
    ].first { dlsym(nil, $0.0) != nil }?.1
}

extension FindingLedger.Entry {
    /// Fails the current test with this finding, at the line that accessed the zombie, or at `location` if that line is
    /// unknown.
    func fail(else location: SourceLocation?) {
        let (message, place, report) = GuardRuntime.aside { failure(else: location) }
        CurrentTest.fail(message, at: place, report: report)
    }

    private func failure(else location: SourceLocation?) -> (message: String, place: SourceLocation, report: String) {
        var message = finding.message
        if !others.isEmpty {
            message +=
                "\nit may have been caused by \(others.joined(separator: ", ")) instead, which ran at the same time"
        }
        if isRepeated { message += "\nan earlier test with the same stacks had the same finding" }
        let place = finding.origin ?? location ?? finding.freeOrigin ?? .unknown
        return (message, place, finding.report)
    }
}

extension SourceLocation {
    /// Placeholder for an issue without a known source location.
    static let unknown = SourceLocation(fileID: "unknown/unknown", filePath: "<unknown>", line: 1, column: 1)
}
