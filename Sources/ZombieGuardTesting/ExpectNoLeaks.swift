// Expectations that code leaks no memory.

import Testing
import ZombieGuardCore

/// Runs `body` and fails the current test for everything that `body` has allocated and leaked: blocks and objects that
/// can no longer be reached (`leak`), and objects that only keep each other alive (`retain-cycle`). Works in tests of
/// Swift Testing and of XCTest.
///
/// ```swift
/// await expectNoLeaks { await shop.openAndClose() }
/// ```
///
/// The failure names the shortest cycle, such as `Session.handler → closure #1 in Session.start() → Session`, and where
/// each of its objects was allocated. The value that `body` returns does not count as leaked. A leak is reported only
/// if two searches find it.
///
/// zguard stops the process while it searches the heap: for 6 to 15 ms in a small test bundle, for up to 77 ms with
/// 100,000 blocks. The test also fails if there is no zguard, the process is not guarded, or zguard could not read a
/// part of the heap.
///
/// Tests may run at the same time. An object belongs to this test if the test's function is in the allocation stack of
/// the object or of a neighbor (an object at the other end of a reference), or if a task that `body` has started holds
/// the object. If it is unknown which test an object belongs to, the test gets a warning. In XCTest, and with
/// `swift test --no-parallel`, all objects that were allocated while `body` ran belong to this test.
///
/// - Parameters:
///   - isolation: the actor that `body` runs on.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code to watch.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws.
@discardableResult
public func expectNoLeaks<Value>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () async throws -> Value
) async rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = HeapScope.open(isSynchronous: false, "expectNoLeaks", location) else {
        return try await OlderTesting.inPlace { try await body() }
    }
    defer {
        HeapScope.clear()
        scope.failLeaks("expectNoLeaks", location)
    }
    return try await HeapScope.$current.withValue(scope) { try await body() }
}

/// Runs `body` and fails the current test for everything that `body` has allocated and leaked. The synchronous variant:
/// everything that the calling thread allocates meanwhile belongs to the test, even if other tests run at the same
/// time.
///
/// - Parameters:
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code to watch.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws.
@_disfavoredOverload @discardableResult
public func expectNoLeaks<Value>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () throws -> Value
) rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = HeapScope.open(isSynchronous: true, "expectNoLeaks", location) else { return try body() }
    defer {
        HeapScope.clear()
        scope.failLeaks("expectNoLeaks", location)
    }
    return try HeapScope.$current.withValue(scope) { try body() }
}

/// Fails a test for everything that it has allocated and leaked. See ``Testing/Trait/noLeaks``.
public struct NoLeaksTrait: TestTrait, SuiteTrait {
    /// Tests in nested suites are watched as well.
    public var isRecursive: Bool { true }

    /// Runs a test and records each leak as an issue of the test. Called by Swift Testing.
    ///
    /// - Parameters:
    ///   - test: the test.
    ///   - testCase: the test case, or nil for a suite.
    ///   - function: the test's body.
    /// - Throws: what `function` throws.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        // Under a sanitizer, only warn: the runtime cannot replace the sanitizer's malloc. AddressSanitizer finds leaks
        // itself.
        if Guarding.sanitizer != nil, let missing = Guarding.missing {
            OlderTesting.warn(missing, at: test.sourceLocation)
            return try await function()
        }
        guard
            let scope = HeapScope.open(isSynchronous: false, test: test, "the trait .noLeaks", test.sourceLocation)
        else { return try await function() }
        defer {
            HeapScope.clear()
            scope.failLeaks("the trait .noLeaks", test.sourceLocation)
        }
        try await HeapScope.$current.withValue(scope) { try await function() }
    }
}

extension Trait where Self == NoLeaksTrait {
    /// Records an issue for everything that the test has allocated and leaked: leaks and retain cycles, as
    /// ``expectNoLeaks(isolation:fileID:filePath:line:column:_:)`` does around the test. The suite's instance, and the
    /// objects that it holds, are released before the search.
    ///
    /// ```swift
    /// @Suite(.noLeaks) struct SessionTests { … }
    /// ```
    ///
    /// The cases of a parameterized test are not distinguished if they run at the same time.
    public static var noLeaks: Self { Self() }
}
