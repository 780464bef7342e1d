// Assertions that an object is gone.

import Testing
import ZombieGuard

/// Fails the current test where the object that `make` returns outlives the call: somebody still holds it.
///
/// ```swift
/// assertDeallocated { Cart() }
/// ```
///
/// The failure names the class, the number of references and, where the process is guarded, who holds them: the class
/// and the property of each object that does, and where that object was allocated. References from the stack, from
/// globals and from memory that is not the guarded heap's are not found.
@_disfavoredOverload
public func assertDeallocated<Object: AnyObject>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ make: () throws -> Object
) rethrows {
    weak var object: Object?
    try {
        let made = try make()
        object = made
    }()
    if let object { fail(object, SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)) }
}

/// Fails the current test where the object that `make` returns outlives the call, like the function of the same name for
/// synchronous code.
public func assertDeallocated<Object: AnyObject>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ make: () async throws -> Object
) async rethrows {
    weak var object: Object?
    do {
        let made = try await make()
        object = made
    }
    if let object { fail(object, SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)) }
}

private func fail(_ object: AnyObject, _ location: SourceLocation) {
    CurrentTest.fail("TODO", at: location)
}
