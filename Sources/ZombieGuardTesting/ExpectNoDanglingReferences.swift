// Expectations that nothing points to freed memory.

import Testing
import ZombieGuardCore

/// Runs `body` and fails the current test for each place that points to a block that `body` has freed: stored
/// properties, elements of arrays, captured values, globals and thread-local variables. A dangling reference is not a
/// bug until it is followed, but only luck prevents that. Works in tests of Swift Testing and of XCTest.
///
/// ```swift
/// expectNoDanglingReferences { shop.close() }
/// ```
///
/// A block counts as freed by `body` if the test's function is in the stack of the free. In the synchronous variant,
/// every block that the calling thread frees counts as well; with `swift test --no-parallel` and in XCTest, every block
/// that is freed while `body` runs. Words on stacks, in objects of unknown classes, and elements of dictionaries and
/// sets are not searched: many are stale and never used.
///
/// zguard stops the process while it searches the heap: for 6 to 15 ms in a small test bundle, for up to 77 ms with
/// 100,000 blocks. The test also fails if there is no zguard, the process is not guarded, or zguard could not read a
/// part of the heap.
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
public func expectNoDanglingReferences<Value>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () async throws -> Value
) async rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = HeapScope.open(isSynchronous: false, "expectNoDanglingReferences", location) else {
        return try await OlderTesting.inPlace { try await body() }
    }
    defer { scope.failDanglingReferences("expectNoDanglingReferences", location) }
    return try await HeapScope.$current.withValue(scope) { try await body() }
}

/// Runs `body` and fails the current test for each place that points to a block that `body` has freed. The synchronous
/// variant.
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
public func expectNoDanglingReferences<Value>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () throws -> Value
) rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = HeapScope.open(isSynchronous: true, "expectNoDanglingReferences", location) else {
        return try body()
    }
    defer { scope.failDanglingReferences("expectNoDanglingReferences", location) }
    return try HeapScope.$current.withValue(scope) { try body() }
}
