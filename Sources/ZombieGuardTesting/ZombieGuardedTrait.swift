// The trait `.zombieGuarded`, which records findings as issues of a test.

import Testing
import ZombieGuardCore

/// Records every finding during a test as an issue of the test. See ``Testing/Trait/zombieGuarded``.
public struct ZombieGuardedTrait: TestTrait, SuiteTrait {
    /// Tests in nested suites are guarded as well.
    public var isRecursive: Bool { true }

    /// Runs a test and records every finding during the run as an issue of the test. Called by Swift Testing.
    ///
    /// - Parameters:
    ///   - test: the test.
    ///   - testCase: the test case, or nil for a suite.
    ///   - function: the test's body.
    /// - Throws: what `function` throws.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        if let missing = Guarding.missing {
            // Under a sanitizer, only warn: the sanitizer detects the same bugs.
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
    /// Records every finding during the test as an issue of the test, such as a use of a deallocated object or a double
    /// free. The issue is recorded at the line that accessed the zombie. Its message names the class and shows the
    /// stacks of access, deallocation and allocation; the complete report is attached.
    ///
    /// ```swift
    /// @Suite(.zombieGuarded) struct CartTests { … }
    /// ```
    ///
    /// The test goes on after a finding. All freed memory is verified at the end of each test, so that late writes are
    /// found in the test that made them. If tests run in parallel and the stacks of a finding contain none of them, the
    /// issue is recorded for each running test; `.serialized` avoids the ambiguity.
    public static var zombieGuarded: Self { Self() }
}
