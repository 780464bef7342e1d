// Whose finding is it? Gives every finding of the process to the tests that it belongs to.

import Glibc
import Synchronization
import ZombieGuardCore

/// Hands findings out to the open scopes. Several tests may run at the same time, and a finding does not say in which of
/// them it was made. It goes to the innermost open scope; where there are several, to the one whose test function stands
/// in one of its stacks; where none does, to all of them, so that it is not lost.
enum FindingLedger {
    /// A finding, with the names of the other scopes that may have caused it as well.
    struct Entry: Sendable {
        var finding: Finding
        var others: [String] = []
        /// It was made before, too, in a test with the same stacks; the runtime reports equal findings once.
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
        /// Freed blocks that have been found changed: each is told of once, whoever notices it again.
        var changedBlocks: Set<Address> = []
    }

    private static let state = Mutex(State())

    // Findings that were made again: the runtime counts them, but lists equal ones once.
    private static var repetitions: UInt64 { GuardRuntime.current?.statistics["findings_suppressed"] ?? 0 }

    /// From now on findings may belong to the scope.
    static func open(_ scope: FindingScope) {
        GuardRuntime.aside {
            state.withLock {
                deliver(&$0)
                $0.open.append(OpenScope(scope: scope, repetitionsBefore: repetitions))
            }
        }
        if scope.parent == nil { GuardRuntime.current?.beginTest() }
    }

    /// Verifies all freed blocks and returns what belongs to the scope.
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

    /// Verifies all freed blocks and returns what came outside of every scope. For the end of the process.
    static func closeAll() -> [Finding] {
        _ = GuardRuntime.current?.verify()
        return GuardRuntime.aside {
            state.withLock {
                deliver(&$0)
                return $0.unclaimed + $0.open.flatMap { $0.entries.map(\.finding) }
            }
        }
    }

    /// The outermost open scope where there is just one: the current test of XCTest.
    static var outermost: FindingScope? {
        state.withLock { state in
            let roots = state.open.filter { $0.scope.parent == nil }
            return roots.count == 1 ? roots[0].scope : nil
        }
    }

    // Findings with the same stacks as one of an earlier test: they have the test's function in common.
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
            owners = [] // of a test that nobody guards
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

    /// Whether it is of a test with this function: no other stands in its stacks.
    func belongs(to functionName: String?) -> Bool { mentions(functionName) || !isInTest }

    /// Whether a test of Swift Testing stands in one of the stacks: the function that its macro makes calls it, unless it
    /// is asynchronous.
    fileprivate var isInTest: Bool { frames.contains { $0.function?.contains("4TestfMp_") ?? false } }

    /// Whether a function of that name stands in one of the stacks.
    fileprivate func mentions(_ name: String?) -> Bool {
        guard let name else { return false }
        return frames.contains { $0.function?.asDeclared.containsName(name) ?? false }
    }
}

extension String {
    // Names that are no identifiers stand between backticks, and the compiler writes their spaces as no-break spaces.
    fileprivate var asDeclared: String { filter { $0 != "`" }.replacing("\u{a0}", with: " ") }

    /// Whether the text stands in this one and is not the end of a longer name.
    fileprivate func containsName(_ text: String) -> Bool {
        ranges(of: text).contains { range in
            guard range.lowerBound > startIndex else { return true }
            let before = self[index(before: range.lowerBound)]
            return !before.isLetter && !before.isNumber && before != "_"
        }
    }
}
