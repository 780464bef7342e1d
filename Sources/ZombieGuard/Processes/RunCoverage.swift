// The page on which all processes of a run add up what they watched.

import CSystem
import CZombie
import Glibc

/// A file in memory that the guarded processes of a run find through a symbolic link beside the raw findings (zg_coverage.h).
/// What processes counted that were killed is in it, too: each adds to it while it runs.
package struct RunCoverage {
    package static let suffix = ZG_COVERAGE_SUFFIX
    package static let untoldSuffix = ZG_COVERAGE_UNTOLD_SUFFIX

    private let page: Descriptor
    private let start: UInt64

    /// For the run whose raw findings go to this file. Throws where there is no memory for it, or no room for the link.
    package init(besides raw: String) throws(SystemError) {
        var contents = [UInt8](repeating: 0, count: Int(ZG_COVERAGE_BYTES))
        var head = zg_coverage_page()
        head.magic = zg_coverage_page.expectedMagic
        head.version = UInt32(ZG_STATS_VERSION)
        withUnsafeBytes(of: head) { head in contents.withUnsafeMutableBytes { $0.copyMemory(from: head) } }
        let descriptor = contents.withUnsafeBytes {
            zg_system_sealed_memfd("zguard-coverage", $0.baseAddress, $0.count)
        }
        if descriptor < 0 { throw SystemError(number: -descriptor) }
        page = Descriptor(adopting: descriptor)
        if symlink("/proc/\(getpid())/fd/\(descriptor)", raw + Self.suffix) != 0 { throw .last }
        start = UInt64(max(0, Timestamp.now.rawValue))
    }

    /// What has been watched until now; nil where no process has found the page.
    package var coverage: Coverage? {
        var page = zg_coverage_page()
        guard let bytes = try? self.page.read(at: 0, upTo: MemoryLayout<zg_coverage_page>.size) else { return nil }
        withUnsafeMutableBytes(of: &page) { $0.copyBytes(from: bytes.prefix($0.count)) }
        if page.programs == 0 { return nil }
        let sums = withUnsafeBytes(of: page.sums) { Array($0.bindMemory(to: UInt64.self)) }
        let times = withUnsafeBytes(of: page.first_ns) { Array($0.bindMemory(to: UInt64.self)) }
        var coverage = Coverage(
            counter: { name in Self.names.firstIndex(of: name).map { sums[$0] } ?? 0 }, firstTimes: times, start: start)
        coverage.unguardedPrograms = page.unwatched_programs
        return coverage
    }

    private static let names = withUnsafeBytes(of: zg_coverage_sum_names) { bytes in
        bytes.bindMemory(to: UnsafePointer<CChar>.self).map { String(cString: $0) }
    }
}

extension zg_coverage_page {
    // "ZGUGRUN1": a macro that Swift does not import.
    static let expectedMagic: UInt64 = 0x314e_5552_4755_475a
}
