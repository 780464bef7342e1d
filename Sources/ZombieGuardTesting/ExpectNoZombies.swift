// Expectations that code does not access a zombie.

import Testing
import ZombieGuardCore

/// Runs `body` and fails the current test for every finding during the call, such as a use of a deallocated object or a
/// double free. Works in tests of Swift Testing and of XCTest.
///
/// ```swift
/// try await expectNoZombies { try await shop.checkout() }
/// ```
///
/// The failure is recorded at the line that accessed the zombie, or at the call of this function if that line is
/// unknown, as for late writes. `body` goes on after a finding. The test also fails if the process is not guarded.
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
public func expectNoZombies<Value>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () async throws -> Value
) async rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = openScope(location) else { return try await OlderTesting.inPlace { try await body() } }
    defer { close(scope, location) }
    return try await FindingScope.$current.withValue(scope) { try await body() }
}

/// Runs `body` and fails the current test for every finding during the call. The synchronous variant.
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
public func expectNoZombies<Value>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () throws -> Value
) rethrows -> Value {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    guard let scope = openScope(location) else { return try body() }
    defer { close(scope, location) }
    return try FindingScope.$current.withValue(scope) { try body() }
}

/// `expectNoZombies` with a name in the style of XCTest.
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
public func assertNoZombies<Value>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ body: () async throws -> Value
) async rethrows -> Value {
    try await expectNoZombies(fileID: fileID, filePath: filePath, line: line, column: column, body)
}

/// `expectNoZombies` with a name in the style of XCTest. The synchronous variant.
///
/// - Parameters:
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - body: the code to watch.
/// - Returns: what `body` returns.
/// - Throws: what `body` throws.
@discardableResult
public func assertNoZombies<Value>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ body: () throws -> Value
) rethrows -> Value {
    try expectNoZombies(fileID: fileID, filePath: filePath, line: line, column: column, body)
}

/// Opens a scope for findings. If the process is not guarded, fails the test and returns nil.
private func openScope(_ location: SourceLocation) -> FindingScope? {
    if let missing = Guarding.missing {
        CurrentTest.fail(missing, at: location)
        return nil
    }
    let scope = FindingScope.part(of: FindingScope.current ?? CurrentTest.xctestCase.withLock { $0?.scope })
    FindingLedger.open(scope)
    return scope
}

private func close(_ scope: FindingScope, _ location: SourceLocation) {
    for entry in FindingLedger.close(scope) where !ExpectedZombie.isChild { entry.fail(else: location) }
}
