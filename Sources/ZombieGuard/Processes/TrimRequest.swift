// Requests a guarded process to return memory to the kernel.

import CSystem
import CZombie
import Glibc

extension GuardedProcess {
    /// Answer of a process.
    public enum TrimResult: Hashable, Sendable {
        /// The process returned this many bytes.
        case given(UInt64)
        /// The process has no maintenance thread. It returns memory at its next slow allocation or free.
        case postponed
        /// The maintenance thread did not answer in time: the process is stopped or very busy.
        case silent
    }

    /// Requests the process to return memory, and waits for the answer.
    ///
    /// - Parameter seconds: longest time to wait.
    /// - Returns: the process's answer.
    /// - Throws: ``ProcessError`` if the process has ended or may not be written to.
    public func trim(waiting seconds: Double = 1.5) throws(ProcessError) -> TrimResult {
        let folder = try folder()
        let file = try openPage(in: folder)
        let size = Int(ZG_STATS_BYTES)
        // Check the version before writing to the page.
        let bytes: [UInt8]
        do throws(SystemError) { bytes = try file.read(at: 0, upTo: size) } catch {
            throw ProcessError(processID, error)
        }
        let before = try Self.decode(bytes, of: processID)
        // The page is sealed against shrinking, so accesses to the mapping cannot fault.
        let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0)
        guard let mapped, mapped != MAP_FAILED else { throw ProcessError(processID, .last) }
        defer { munmap(mapped, size) }

        func word(_ field: PartialKeyPath<zg_stats_page>) -> UnsafeMutablePointer<UInt32> {
            let offset = MemoryLayout<zg_stats_page>.offset(of: field)!
            return (mapped + offset).assumingMemoryBound(to: UInt32.self)
        }
        let answer = word(\zg_stats_page.answer)
        let request = word(\zg_stats_page.request)
        zg_system_store(word(\zg_stats_page.request_kind), zg_request_trim.rawValue)
        let number = zg_system_increment(request)
        _ = zg_system_futex_wake(request)

        let step: UInt32 = 5000
        for _ in 0..<max(1, Int(seconds * 1e6) / Int(step)) {
            if zg_system_load(answer) == number {
                let value = MemoryLayout<zg_stats_page>.offset(of: \zg_stats_page.answer_value)!
                return .given(mapped.load(fromByteOffset: value, as: UInt64.self))
            }
            // The process has ended.
            if folder.stat == nil { throw .gone(processID) }
            usleep(step)
        }
        return before.has_maintenance_thread != 0 ? .silent : .postponed
    }
}
