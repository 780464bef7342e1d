// Expectations that some code does not hold up the main actor.

import Synchronization
import Testing
import ZombieGuardCore

/// Runs `body` and fails the current test for every time that the main actor gives no sign of life for longer than `over` meanwhile: each
/// computation, each wait for a lock, each blocking call on it. Works in tests of Swift Testing and of XCTest.
///
/// ```swift
/// await expectNoStalls(over: .milliseconds(100)) { await model.reload() }
/// ```
///
/// The failure stands at the line that was executed most often meanwhile, where it is known, else at the call of this function. Where the
/// process is not guarded, it says how long it took and has no stacks. Time that is spent waiting for a processor does not count.
///
/// - Parameters:
///   - over: how long the main actor may be held up.
///   - times: how often within ten seconds it must be held up for so long, such as 5 with 50 milliseconds.
///   - isolation: the actor that `body` runs on.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code to watch.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws.
@discardableResult
public func expectNoStalls<Value>(
    over: Duration = .milliseconds(250), times: Int = 1, isolation: isolated (any Actor)? = #isolation,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () async throws -> Value
) async rethrows -> Value {
    let scope = StallScope(over: over, times: times, test: Test.current)
    await scope.begin()
    defer { scope.fail(else: SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)) }
    return try await OlderTesting.inPlace { try await body() }
}

/// Runs `body` and fails the current test for every time that the main actor is held up for longer than `over` meanwhile, like the function
/// of the same name for asynchronous code. On the main thread, that is every `body` that takes longer.
///
/// - Parameters:
///   - over: how long the main actor may be held up.
///   - times: how often within ten seconds it must be held up for so long.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code to watch.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws.
@_disfavoredOverload @discardableResult
public func expectNoStalls<Value>(
    over: Duration = .milliseconds(250), times: Int = 1, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () throws -> Value
) rethrows -> Value {
    let scope = StallScope(over: over, times: times, test: Test.current)
    scope.beginNow()
    defer { scope.fail(else: SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)) }
    return try body()
}

/// Fails a test where the main actor is held up while it runs. See ``Testing/Trait/noStalls(over:times:)``.
public struct NoStallsTrait: TestTrait, SuiteTrait {
    /// From when on it is a stall.
    public let rule: StallMonitor.Rule

    /// Tests in nested suites are watched, too.
    public var isRecursive: Bool { true }

    /// Runs a test, and turns every stall of the meantime into an issue of it. Called by Swift Testing.
    ///
    /// - Parameters:
    ///   - test: the test.
    ///   - testCase: its case; nil where it is a suite.
    ///   - function: the test's body.
    /// - Throws: what `function` throws.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let scope = StallScope(over: rule.over, times: rule.times, test: test)
        await scope.begin()
        defer { scope.fail(else: test.sourceLocation) }
        try await function()
    }
}

extension Trait where Self == NoStallsTrait {
    /// Every time that the main actor is held up for longer than `over` while the test runs becomes an issue of that test.
    ///
    /// ```swift
    /// @Test(.noStalls(over: .milliseconds(100))) @MainActor func scrolling() async { … }
    /// ```
    ///
    /// Where tests run in parallel, they share one main actor. A stall in whose stacks another test stands is not this test's; where none
    /// stands in them, each of the tests gets the issue. `.serialized` avoids that.
    ///
    /// - Parameters:
    ///   - over: how long the main actor may be held up.
    ///   - times: how often within ten seconds it must be held up for so long.
    /// - Returns: the trait.
    public static func noStalls(over: Duration = .milliseconds(250), times: Int = 1) -> Self {
        Self(rule: StallMonitor.Rule(over: over, times: times))
    }
}

/// A stretch of a test in which the main actor is watched.
final class StallScope: Sendable {
    private let watch: MainActorWatch
    private let stalls: Stalls
    private let functionName: String?

    private final class Stalls: Sendable {
        let found = Mutex<[Finding]>([])
    }

    init(over: Duration, times: Int, test: Test?) {
        let stalls = Stalls()
        self.stalls = stalls
        functionName = test.flatMap { FindingScope($0).functionName }
        watch = MainActorWatch(StallMonitor.Rule(over: over, times: times)) { stall in
            stalls.found.withLock { $0.append(stall) }
        }
    }

    func begin() async { if watch.start() { await watch.begin() } }

    func beginNow() { if watch.start() { watch.beginNow() } }

    func fail(else location: SourceLocation) {
        watch.conclude()
        let found = stalls.found.withLock { $0 }
        for stall in found where stall.belongs(to: functionName) {
            FindingLedger.Entry(finding: stall).fail(else: location)
        }
    }
}
