// Asks a guarded process to give memory back.

import CSystem
import CZombie
import Glibc

extension GuardedProcess {
    /// How a process answered.
    public enum TrimResult: Hashable, Sendable {
        /// It gave this many bytes back.
        case given(UInt64)
        /// It has no maintenance thread: it will do it when it allocates or frees next and has time for it.
        case postponed
        /// It has a maintenance thread, which did not answer in time: the process is stopped or very busy.
        case silent
    }

    /// Asks the process to give memory back, and waits for its answer for at most `seconds`.
    ///
    /// - Parameter seconds: how long to wait for the answer.
    /// - Returns: what the process gave back, as far as it has answered.
    /// - Throws: ``ProcessError`` where it is gone, or not ours to ask.
    public func trim(waiting seconds: Double = 1.5) throws(ProcessError) -> TrimResult {
        let folder = try folder()
        let file = try openPage(in: folder)
        let size = Int(ZG_STATS_BYTES)
        // Nothing is written into a page that this version does not know.
        let bytes: [UInt8]
        do throws(SystemError) { bytes = try file.read(at: 0, upTo: size) } catch {
            throw ProcessError(processID, error)
        }
        let before = try decode(bytes)
        // The seals keep the size: memory that is mapped does not go.
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
            // A process that ended does not answer any more.
            if folder.stat == nil { throw .gone(processID) }
            usleep(step)
        }
        return before.has_maintenance_thread != 0 ? .silent : .postponed
    }
}
