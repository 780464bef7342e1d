// Symbolicates findings with symbols that were sent to `zguard serve`, in a background thread, because this takes long.
// The thread runs while builds are queued. The methods take the object's only lock.

import CSystem
import Glibc
import Synchronization
import ZombieGuard

/// Applies symbols to a store, one tenant after the other.
final class SymbolNaming: Sendable {
    private struct State {
        /// Build-ids to apply, by tenant.
        var waiting: [String: Set<String>] = [:]
        var isRunning = false
    }

    private let address: FleetAddress
    private let state = Mutex(State())

    init(_ address: FleetAddress) { self.address = address }

    /// Queues a build, whose findings the background thread names.
    func apply(_ buildID: String, _ tenant: String) {
        let isIdle = state.withLock { state in
            state.waiting[tenant, default: []].insert(buildID)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if !isIdle { return }
        let work = Unmanaged.passRetained(self)
        let result = zg_system_start_thread(
            "zguard-symbols", { Unmanaged<SymbolNaming>.fromOpaque($0!).takeRetainedValue().run() }, work.toOpaque())
        if result != 0 {
            work.release()
            // No thread could be started: the next upload, or `zguard symbols apply`, names the findings.
            state.withLock { $0.isRunning = false }
        }
    }

    private func run() {
        var failures = 0
        while true {
            let next = state.withLock { state -> (tenant: String, builds: Set<String>)? in
                guard let tenant = state.waiting.keys.min(), let builds = state.waiting.removeValue(forKey: tenant)
                else {
                    state.isRunning = false
                    return nil
                }
                return (tenant, builds)
            }
            guard let next else { return }
            do throws(FleetError) {
                _ = try SymbolStore(address, tenant: next.tenant).apply(
                    builds: next.builds.sorted(), mostUnpacked: SymbolStore.mostUnpacked)
                failures = 0
            } catch {
                // Others may lock or prune the store: retry. After the last retry, `zguard symbols apply` can name the
                // remaining findings.
                failures += 1
                if failures > Self.mostFailures { continue }
                state.withLock { $0.waiting[next.tenant, default: []].formUnion(next.builds) }
                sleep(Self.pause)
            }
        }
    }

    private static let mostFailures = 30
    private static let pause: UInt32 = 10
}
