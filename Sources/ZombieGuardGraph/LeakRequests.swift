// Searches processes of a run for leaks when they are about to end.

import CSystem
import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// Answers the requests of ending processes on the run's shared page (zg_collector.h).
package final class LeakRequests {
    private let page: RunPage
    /// Processes, and parts of processes, that could not be searched; one line each.
    package private(set) var notes: [String] = []
    private var isUnasked = true
    private var left = LeftThreads()
    private let child: () -> Int32?

    private static let mostNotes = 20

    /// Makes the processes of the run ask for a search before they end.
    ///
    /// - Parameters:
    ///   - page: the run's shared page.
    ///   - child: process ID of the run's own child; nil before it has started.
    package init(page: Descriptor, child: @escaping () -> Int32?) throws(SystemError) {
        self.child = child
        self.page = try RunPage(page)
        self.page.contents.pointee.collector.wants_leaks = 1
    }

    /// Searches the message's sender, which waits meanwhile, and lets it end.
    ///
    /// - Returns: raw findings; empty if the message is no such request, or has been answered.
    package func answer(_ message: RunMessage) -> [Finding] {
        guard case .ending(let index, let place, let nonce) = message.content,
            let request = CollectorRequest(index, at: place, nonce, of: message.sender.number, on: page)
        else { return [] }
        defer { request.finish() }
        guard let ending = request.question else { return [] }
        isUnasked = false
        return search(
            message.sender.number,
            waiting: .init(
                id: Int32(truncatingIfNeeded: ending.tid), stackPointer: ending.allRegisters[Int(ZG_THREAD_SP)],
                left: { [unowned self] stopped in left.add(stopped, except: child()) }))
    }

    /// Resumes threads that stopped late, and reaps those that ended while they were traced. Call periodically.
    package func clean() { left.clean() }

    private func search(_ process: Int, waiting: HeapSnapshot.Waiting) -> [Finding] {
        do {
            let guarded = try GuardedProcess(processID: process)
            let search = try LeakSearch.of { try HeapSnapshot.of(guarded, .graph, waiting: waiting) }
            let snapshot = search.snapshot
            for note in snapshot.notes + snapshot.source.notes { self.note(note) }
            return search.findings(time: Timestamp.now.description)
        } catch {
            note("process \(process) was not searched for leaks: \(error)")
            return []
        }
    }

    /// Adds a note if no process has asked. Call at the end of the run.
    package func finish() {
        if isUnasked { note("no process was searched for leaks: all ended by a signal, by _exit, or unguarded") }
    }

    private func note(_ text: String) {
        if notes.count < Self.mostNotes, !notes.contains(text) { notes.append(text) }
    }
}
