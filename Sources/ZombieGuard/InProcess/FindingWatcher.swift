// Resumes tasks that wait for findings, from one thread that exists only while a task waits.

import CSystem
import Glibc
import Synchronization

/// Resumes tasks when a finding is made.
final class FindingWatcher: Sendable {
    private struct State {
        var waiters: [UInt64: (number: UInt64, continuation: CheckedContinuation<Void, Never>)] = [:]
        var lastID: UInt64 = 0
        var hasThread = false
    }

    private let state = Mutex(State())
    nonisolated(unsafe) private let word: UnsafeMutablePointer<UInt32>
    private let count: @Sendable () -> UInt64

    /// `word` is a futex that changes with every finding; `count` returns the number of findings.
    init(word: UnsafeMutablePointer<UInt32>, count: @escaping @Sendable () -> UInt64) {
        self.word = word
        self.count = count
    }

    /// Whether the thread exists at this moment.
    var isWaiting: Bool { state.withLock { $0.hasThread } }

    /// Returns when finding `number` exists, the task is canceled, or the waiting thread cannot be started.
    func wait(for number: UInt64) async {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isAdded = state.withLock { state in
                    // Check again under the lock: a finding or cancellation since the caller's check did not wake this
                    // task.
                    if Task.isCancelled || count() > number { return false }
                    if !state.hasThread {
                        guard startThread() else { return false }
                        state.hasThread = true
                    }
                    state.waiters[id] = (number, continuation)
                    return true
                }
                if !isAdded { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume()
            // Wake the thread: it ends if no waiter is left.
            zg_system_futex_wake_private(word)
        }
    }

    private func startThread() -> Bool {
        let watcher = Unmanaged.passRetained(self)
        let result = zg_system_start_thread(
            "zguard-findings", { Unmanaged<FindingWatcher>.fromOpaque($0!).takeRetainedValue().watch() },
            watcher.toOpaque())
        if result != 0 { watcher.release() }
        return result == 0
    }

    private func watch() {
        while true {
            let seen = zg_system_load(word)
            let (ready, isEnd) = state.withLock { state in
                let count = count()
                let ready = state.waiters.filter { $0.value.number < count }
                for id in ready.keys { state.waiters[id] = nil }
                if state.waiters.isEmpty { state.hasThread = false }
                return (ready.values.map(\.continuation), state.waiters.isEmpty)
            }
            for continuation in ready { continuation.resume() }
            if isEnd { return }
            // Time out after 500 ms: a cancellation does not change the futex word, so its wake-up may be lost.
            zg_system_futex_wait_private(word, seen, 500)
        }
    }
}
