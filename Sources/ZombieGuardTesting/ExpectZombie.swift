// Expectations that code accesses a zombie, checked in a child process.

import Testing
import ZombieGuardCore

/// Checks that `body` accesses a deallocated object of the class and that ZombieGuard detects the access.
///
/// ```swift
/// await expectZombie(of: Cart.self, access: .release) { shop.closeTwice() }
/// ```
///
/// The body runs in a child process, which ends at the first finding; the test run survives. The child runs a copy of
/// the test bundle, restricted to the current test, up to this call. Everything that the body captures is therefore
/// available, and everything that the test does before the call happens again in the child. The child skips other calls
/// of `expectZombie`.
///
/// The current test fails, with a message that says what happened instead, if the body ends without a finding, if the
/// finding concerns another class, another access or no freed memory, if the body crashes for another reason, or if it
/// does not end within `timeLimit` and is killed. The test also fails if the process is not guarded.
///
/// Works in tests of Swift Testing and of XCTest, also in parameterized tests: the child selects the test case whose
/// arguments have the same textual dump, so arguments that differ only in identity cannot be distinguished. In a loop,
/// the child selects the call by the number of earlier calls at the same source location in the test. Repeated runs of
/// a test in one process (`--repetitions`) are not supported.
///
/// - Parameters:
///   - type: the exact class of the deallocated object, not a superclass.
///   - access: the expected access; nil for any.
///   - timeLimit: time limit for the body. The child has at least a minute to reach the call.
///   - isolation: the actor that `body` runs on.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code that accesses the object; it runs only in the child process.
/// - Returns: the expected finding; nil if the test failed, and in the child process.
@discardableResult
public func expectZombie(
    of type: AnyClass, access: Finding.Access? = nil, timeLimit: Duration = .seconds(20),
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () async throws -> Void
) async -> Finding? {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    let expectation = ExpectedZombie(
        className: className(of: type), access: access, timeLimit: timeLimit, location: location)
    switch expectation.role() {
    case .bystander: return nil
    case .child(let child):
        child.begin(timeLimit)
        var failure: (any Error)?
        do { try await body() } catch { failure = error }
        child.end(failure)
    case .parent(let run):
        var outcome = run.poll()
        while outcome == nil {
            // Kills the child if the test is cancelled or exceeds its own time limit.
            if Task.isCancelled { run.kill() }
            try? await Task.sleep(for: .milliseconds(5))
            outcome = run.poll()
        }
        return expectation.evaluate(run.result(outcome))
    }
}

/// Checks that `body` accesses a deallocated object of the class and that ZombieGuard detects the access. The
/// synchronous variant, which blocks the thread until the child process ends.
///
/// - Parameters:
///   - type: the exact class of the deallocated object, not a superclass.
///   - access: the expected access; nil for any.
///   - timeLimit: time limit for the body.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code that accesses the object; it runs only in the child process.
/// - Returns: the expected finding; nil if the test failed, and in the child process.
@_disfavoredOverload @discardableResult
public func expectZombie(
    of type: AnyClass, access: Finding.Access? = nil, timeLimit: Duration = .seconds(20),
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () throws -> Void
) -> Finding? {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    let expectation = ExpectedZombie(
        className: className(of: type), access: access, timeLimit: timeLimit, location: location)
    switch expectation.role() {
    case .bystander: return nil
    case .child(let child):
        child.begin(timeLimit)
        var failure: (any Error)?
        do { try body() } catch { failure = error }
        child.end(failure)
    case .parent(let run):
        var outcome = run.poll()
        while outcome == nil {
            ChildRun.pause(milliseconds: 5)
            outcome = run.poll()
        }
        return expectation.evaluate(run.result(outcome))
    }
}
