// Assigns every finding of the process to the test that caused it.

import Glibc
import Synchronization
import ZombieGuardCore

/// Assigns findings to the open scopes. Several tests may run at the same time, and a finding does not name its test. A
/// finding is assigned to the innermost open scope. If several tests have open scopes, the scope whose test function is
/// in one of the finding's stacks gets the finding. If the stacks contain no test function, all these scopes get the
/// finding, so that it is not lost. A finding of a test without a scope is assigned to no scope.
enum FindingLedger {
    /// A finding, and the labels of the other scopes that may have caused it.
    struct Entry: Sendable {
        var finding: Finding
        var others: [String] = []
        /// Whether the finding was reported before the scope was opened and has probably occurred again since. The
        /// runtime reports equal findings only once.
        var isRepeated = false
    }

    private struct OpenScope {
        var scope: FindingScope
        var entries: [Entry] = []
        var repetitionsBefore: UInt64
    }

    private struct State {
        var next: UInt64 = 0
        var open: [OpenScope] = []
        var unclaimed: [Finding] = []
        var all: [Finding] = []
        /// Freed blocks with a late write. Each block is reported once, although later checks find the write again.
        var changedBlocks: Set<Address> = []
    }

    private static let state = Mutex(State())

    // Number of repeated findings, which the runtime counts but does not list.
    private static var repetitions: UInt64 { GuardRuntime.current?.statistics["findings_suppressed"] ?? 0 }

    /// Opens the scope: later findings may be assigned to it.
    static func open(_ scope: FindingScope) {
        GuardRuntime.aside {
            state.withLock {
                deliver(&$0)
                $0.open.append(OpenScope(scope: scope, repetitionsBefore: repetitions))
            }
        }
        HeapScope.know(scope.functionName)
        if scope.parent == nil { GuardRuntime.current?.beginTest() }
    }

    /// Verifies all freed blocks, closes the scope and returns its findings.
    static func close(_ scope: FindingScope) -> [Entry] {
        _ = GuardRuntime.current?.verify()
        return GuardRuntime.aside {
            state.withLock {
                deliver(&$0)
                guard let index = $0.open.firstIndex(where: { $0.scope === scope }) else { return [] }
                let closed = $0.open.remove(at: index)
                return closed.entries + repeated(closed, $0.all)
            }
        }
    }

    /// Verifies all freed blocks. Returns the findings that belong to no scope, or to scopes that are still open. Call
    /// at the end of the process.
    static func closeAll() -> [Finding] {
        _ = GuardRuntime.current?.verify()
        return GuardRuntime.aside {
            state.withLock {
                deliver(&$0)
                return $0.unclaimed + $0.open.flatMap { $0.entries.map(\.finding) }
            }
        }
    }

    /// The outermost open scope, such as that of the current XCTest test; nil if there are several.
    static var outermost: FindingScope? {
        state.withLock { state in
            let roots = state.open.filter { $0.scope.parent == nil }
            return roots.count == 1 ? roots[0].scope : nil
        }
    }

    // Findings outside the scope whose stacks contain the scope's test function, which has therefore probably repeated
    // them. Empty unless the runtime counted repeated findings while the scope was open.
    private static func repeated(_ closed: OpenScope, _ all: [Finding]) -> [Entry] {
        if repetitions == closed.repetitionsBefore { return [] }
        return all.filter { finding in
            finding.mentions(closed.scope.functionName) && !closed.entries.contains { $0.finding == finding }
        }.map { Entry(finding: $0, isRepeated: true) }
    }

    private static func deliver(_ state: inout State) {
        guard let runtime = GuardRuntime.current else { return }
        let numbers = runtime.findingNumbers
        let new = max(state.next, numbers.lowerBound)..<max(state.next, numbers.upperBound)
        state.next = new.upperBound
        for finding in new.compactMap({ runtime.finding($0) }) {
            if finding.kind == .writeAfterFree, let block = finding.block,
                !state.changedBlocks.insert(block.start).inserted
            {
                continue
            }
            state.all.append(finding)
            deliver(finding, &state)
        }
    }

    private static func deliver(_ finding: Finding, _ state: inout State) {
        let parents = state.open.compactMap { $0.scope.parent.map { ObjectIdentifier($0) } }
        var owners = state.open.indices.filter { !parents.contains(ObjectIdentifier(state.open[$0].scope)) }
        let named = owners.filter { finding.mentions(state.open[$0].scope.functionName) }
        if !named.isEmpty {
            owners = named
        } else if finding.isInTest {
            owners = [] // caused by a test without an open scope
        }
        if owners.isEmpty { state.unclaimed.append(finding) }
        for owner in owners {
            let others = owners.filter { $0 != owner }.map { state.open[$0].scope.label }
            state.open[owner].entries.append(Entry(finding: finding, others: others))
        }
    }
}

extension Finding {
    private var frames: [Frame] {
        stacks.access + stacks.thrown + stacks.free + stacks.alloc + (stall?.sampled.flatMap(\.stack) ?? [])
    }

    /// Whether the finding may belong to the test with this function: its stacks contain that test, or no test at all.
    func belongs(to functionName: String?) -> Bool { mentions(functionName) || !isInTest }

    /// Whether one of the stacks contains a synchronous Swift Testing test, which is called by a function that the
    /// @Test macro generates.
    fileprivate var isInTest: Bool { frames.haveTest }

    /// Whether one of the stacks contains a function with this name.
    fileprivate func mentions(_ name: String?) -> Bool { frames.mention(name) }
}
