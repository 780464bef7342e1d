// The trait that turns findings into issues.

import Testing
import ZombieGuardCore

/// Makes every finding while a test runs an issue of that test. See ``Testing/Trait/zombieGuarded``.
public struct ZombieGuardedTrait: TestTrait, SuiteTrait {
    /// Tests in nested suites are guarded, too.
    public var isRecursive: Bool { true }

    /// Runs a test, and turns every finding of the meantime into an issue of it. Called by Swift Testing.
    ///
    /// - Parameters:
    ///   - test: the test.
    ///   - testCase: its case; nil where it is a suite.
    ///   - function: the test's body.
    /// - Throws: what `function` throws.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        if let missing = Guarding.missing {
            // Under a sanitizer others watch over the same bugs.
            if Guarding.sanitizer == nil {
                Issue.record(Comment(rawValue: missing), sourceLocation: test.sourceLocation)
            } else {
                OlderTesting.warn(missing, at: test.sourceLocation)
            }
            return try await function()
        }
        let scope = FindingScope(test)
        FindingLedger.open(scope)
        func close() {
            for entry in FindingLedger.close(scope) where !ExpectedZombie.isChild {
                entry.fail(else: test.sourceLocation)
            }
        }
        do {
            try await FindingScope.$current.withValue(scope) { try await function() }
        } catch {
            close()
            throw error
        }
        close()
    }
}

extension Trait where Self == ZombieGuardedTrait {
    /// Every finding while the test runs becomes an issue of that test: a use of a deallocated object, a double free, and
    /// whatever else ZombieGuard finds. The issue stands at the line that touched the zombie, its message names the
    /// class and shows the stacks of the access, the release and the allocation; the whole report is attached.
    ///
    /// ```swift
    /// @Suite(.zombieGuarded) struct CartTests { … }
    /// ```
    ///
    /// The test goes on after a finding. All freed memory is checked at the end of each test, so that late writes are
    /// found in the test that made them. Where tests run in parallel and nothing in the stacks of a finding tells which
    /// of them made it, each of them gets the issue; `.serialized` avoids that.
    public static var zombieGuarded: Self { Self() }
}
