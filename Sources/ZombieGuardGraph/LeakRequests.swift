// Searches processes of a run for leaks when they are about to end.

import CSystem
import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Answers the requests of ending processes on the run's shared page (zg_collector.h).
package final class LeakRequests {
    private let page: RunPage
    /// Processes that could not be searched, and parts of others; one line each.
    package private(set) var notes: [String] = []

    private static let mostNotes = 20

    /// From now on, processes ask before they end.
    ///
    /// - Parameter page: the run's shared page.
    package init(page: Descriptor) throws(SystemError) {
        self.page = try RunPage(page)
        self.page.contents.pointee.collector.wants_leaks = 1
    }

    /// Searches the message's sender, which waits meanwhile, and lets it end.
    ///
    /// - Returns: raw findings; empty if the message is no such request, or has been answered.
    package func answer(_ message: RunMessage) -> [Finding] {
        guard case .ending(let index, let place, let nonce) = message.content, index < Int(ZG_COLLECTOR_REQUESTS)
        else { return [] }
        let requests: UnsafeMutablePointer<zg_collector_request> = page.place(of: \.collector.requests)
        let request = requests + index
        guard zg_system_load(&request.pointee.state) == zg_request_asked.rawValue else { return [] }
        // A late copy of a message may name a request that another process has made since.
        let process = message.sender.number
        guard let memory = try? ProcessMemory(processID: process),
            let ending = memory.record(zg_dying_process.self, at: place), ending.nonce == nonce
        else { return [] }
        zg_system_store(&request.pointee.state, zg_request_taken.rawValue)
        defer {
            zg_system_store(&request.pointee.state, zg_request_answered.rawValue)
            _ = zg_system_futex_wake(&request.pointee.state)
        }
        let stackPointer = withUnsafeBytes(of: ending.registers) { $0.bindMemory(to: UInt64.self)[Int(ZG_THREAD_SP)] }
        return search(
            process, waiting: .init(id: Int32(truncatingIfNeeded: ending.tid), stackPointer: stackPointer))
    }

    private func search(_ process: Int, waiting: HeapSnapshot.Waiting) -> [Finding] {
        do {
            let guarded = try GuardedProcess(processID: process)
            let search = try LeakSearch(of: { try HeapSnapshot.of(guarded, .graph, waiting: waiting) })
            let snapshot = search.snapshot
            for note in snapshot.notes + snapshot.source.notes { self.note(note) }
            return search.findings(time: Timestamp.now.description)
        } catch {
            note("process \(process) was not searched for leaks: \(error)")
            return []
        }
    }

    private func note(_ text: String) {
        if notes.count < Self.mostNotes, !notes.contains(text) { notes.append(text) }
    }
}
