// Expectations that some code touches a zombie, proved in a child process.

import Testing
import ZombieGuardCore

/// Proves that `body` touches a deallocated object of the class, and that ZombieGuard catches it.
///
/// ```swift
/// await expectZombie(of: Cart.self, access: .release) { shop.closeTwice() }
/// ```
///
/// The body runs in a child process, in which its first finding is its end; the test run survives. The child is the test
/// bundle once more, restricted to the current test: it runs the test up to this very call, so whatever the body
/// captures is there, and what the test does before the call happens again in the child. Other calls of `expectZombie`
/// are skipped there.
///
/// The current test fails, with a message that says what happened instead, where the body ends without a finding, where
/// the finding is about another class or access or is none about freed memory at all, where the body crashes of
/// something else, or where it does not end within `timeLimit` and is killed. It fails also where this process is not
/// guarded.
///
/// Works in tests of Swift Testing and of XCTest, also in parameterized ones: the child takes the test case whose
/// arguments look the same, so arguments that differ only in their identity are not told apart. A call in a loop is
/// found again by how many calls came before it at the same place in this test. Repeated runs of a test in one process
/// (`--repetitions`) are not supported.
///
/// - Parameters:
///   - type: the class of the deallocated object itself, not of an ancestor.
///   - access: what is done to it; nil for anything.
///   - timeLimit: how long the body may take. The child has at least a minute to get to it.
///   - isolation: the actor that `body` runs on.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: what touches the object; it runs in the child process only.
/// - Returns: the finding, where it is the expected one; nil where the test has failed.
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
            // A test that is cancelled, or over its own time limit, does not leave the child behind.
            if Task.isCancelled { run.kill() }
            try? await Task.sleep(for: .milliseconds(5))
            outcome = run.poll()
        }
        return expectation.judge(run.result(outcome))
    }
}

/// Proves that `body` touches a deallocated object of the class, and that ZombieGuard catches it, like the function of
/// the same name for asynchronous code. Waits for the child process.
///
/// - Parameters:
///   - type: the class of the deallocated object itself, not of an ancestor.
///   - access: what is done to it; nil for anything.
///   - timeLimit: how long the body may take.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: what touches the object; it runs in the child process only.
/// - Returns: the finding, where it is the expected one; nil where the test has failed.
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
        return expectation.judge(run.result(outcome))
    }
}
