// Creates and reads the shared page on which all processes of a run add up their coverage.

import CSystem
import CZombie
import Glibc

/// A memfd that the guarded processes of a run find through a link in the run's directory (zg_coverage.h). Each process
/// adds its counts while it runs, so counts of killed processes are included.
package struct RunCoverage {
    /// Descriptor of the page, for ``CrashRequests``.
    package let page: Descriptor
    private let start: UInt64

    /// Creates the page and a link to it. Throws the error of the failed system call.
    ///
    /// - Parameter path: path of the link.
    package init(at path: String) throws(SystemError) {
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
        if symlink("/proc/\(getpid())/fd/\(descriptor)", path) != 0 { throw .last }
        start = UInt64(max(0, Timestamp.now.rawValue))
    }

    /// Publishes the number of raw findings that zguard has reported. A process that dies of a finding waits until
    /// zguard has reported the finding before it writes more output.
    package func tell(shown: Int) {
        guard let offset = MemoryLayout<zg_coverage_page>.offset(of: \.shown) else { return }
        withUnsafeBytes(of: UInt64(shown)) { _ = pwrite(page.number, $0.baseAddress, $0.count, off_t(offset)) }
    }

    /// Number of raw findings that processes have written, as counted by themselves.
    package var written: Int {
        guard let offset = MemoryLayout<zg_coverage_page>.offset(of: \.written),
            let bytes = try? page.read(at: UInt64(offset), upTo: 8), bytes.count == 8
        else { return 0 }
        return Int(clamping: bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) })
    }

    /// Coverage of the run so far; nil if no process has found the page.
    package var coverage: Coverage? {
        var page = zg_coverage_page()
        guard let bytes = try? self.page.read(at: 0, upTo: MemoryLayout<zg_coverage_page>.size) else { return nil }
        withUnsafeMutableBytes(of: &page) { $0.copyBytes(from: bytes.prefix($0.count)) }
        if page.programs == 0 && page.exempt_programs == 0 { return nil }
        let sums = withUnsafeBytes(of: page.sums) { Array($0.bindMemory(to: UInt64.self)) }
        let times = withUnsafeBytes(of: page.first_ns) { Array($0.bindMemory(to: UInt64.self)) }
        var coverage = Coverage(
            counter: { name in Self.names.firstIndex(of: name).map { sums[$0] } ?? 0 }, firstTimes: times, start: start)
        coverage.waitingBytesMost = page.waiting_bytes_peak
        coverage.unguardedPrograms = page.unwatched_programs
        coverage.filteredPrograms = page.filtered_programs
        coverage.exemptPrograms = page.exempt_programs
        coverage.guardsNoProgram = page.programs == 0
        return coverage
    }

    private static let names: [String] = withUnsafeBytes(of: zg_coverage_sum_names) { bytes in
        let size = bytes.count / Int(zg_coverage_sum_count.rawValue)
        return stride(from: 0, to: bytes.count, by: size).map {
            fieldText(UnsafeRawBufferPointer(rebasing: bytes[$0..<$0 + size]))
        }
    }
}

extension zg_coverage_page {
    // "ZGUGRUN1". Swift does not import the macro ZG_COVERAGE_MAGIC.
    static let expectedMagic: UInt64 = 0x314e_5552_4755_475a
}
