// Expectations that code does not stall the main actor.

import Synchronization
import Testing
import ZombieGuardCore

/// Runs `body` and fails the current test for every stall of the main actor that lasts longer than `over`: a long
/// computation, a wait for a lock, or a blocking call on the main actor. Works in tests of Swift Testing and of XCTest.
///
/// ```swift
/// await expectNoStalls(over: .milliseconds(100)) { await model.reload() }
/// ```
///
/// The failure is recorded at the line that most samples of the stall show, or at the call of this function if that
/// line is unknown. In a process that is not guarded, the failure states the duration and has no stacks. Time spent
/// waiting for a processor does not count.
///
/// - Parameters:
///   - over: how long the main actor may be blocked.
///   - times: number of such stalls within ten seconds that make a failure, for example 5 stalls of 50 milliseconds.
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

/// Runs `body` and fails the current test for every stall of the main actor that lasts longer than `over`. The
/// synchronous variant: on the main thread, a `body` that takes longer than `over` is itself a stall.
///
/// - Parameters:
///   - over: how long the main actor may be blocked.
///   - times: number of such stalls within ten seconds that make a failure.
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

/// Fails a test if the main actor stalls while the test runs. See ``Testing/Trait/noStalls(over:times:)``.
public struct NoStallsTrait: TestTrait, SuiteTrait {
    /// How long and how often the main actor must be blocked for a stall to be reported.
    public let rule: StallMonitor.Rule

    /// Tests in nested suites are watched as well.
    public var isRecursive: Bool { true }

    /// Runs a test and records every stall during the run as an issue of the test. Called by Swift Testing.
    ///
    /// - Parameters:
    ///   - test: the test.
    ///   - testCase: the test case, or nil for a suite.
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
    /// Records an issue for every stall of the main actor that lasts longer than `over` while the test runs.
    ///
    /// ```swift
    /// @Test(.noStalls(over: .milliseconds(100))) @MainActor func scrolling() async { … }
    /// ```
    ///
    /// Tests that run in parallel share one main actor. A stall is attributed to the test found in its stacks, or else
    /// to every running test. `.serialized` avoids the ambiguity.
    ///
    /// - Parameters:
    ///   - over: how long the main actor may be blocked.
    ///   - times: number of such stalls within ten seconds that make a failure.
    /// - Returns: the trait.
    public static func noStalls(over: Duration = .milliseconds(250), times: Int = 1) -> Self {
        Self(rule: StallMonitor.Rule(over: over, times: times))
    }
}

/// A part of a test during which the main actor is watched.
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
