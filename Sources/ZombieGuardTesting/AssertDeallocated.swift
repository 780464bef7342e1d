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
    // One reference is the caller's, which looks at the object.
    let references = max(1, Int(_getRetainCount(object)) - 1)
    let name = className(of: type(of: object))
    let count = references == 1 ? "1 reference is" : "\(references) references are"
    var message = "a \(visible(name)) outlived the closure that made it: \(count) left"
    let holders = holders(of: object)
    if Guarding.missing != nil {
        message += "; who holds them is not known, because this process is not guarded"
    } else if holders.isEmpty {
        message += "; none of them is in the heap: the holder is a variable, a static one or one on the stack"
    } else {
        message += ", held by"
        for holder in holders.prefix(8) { message += "\n    \(holder.description)" }
        if holders.count > 8 { message += "\n    and \(holders.count - 8) more" }
    }
    CurrentTest.fail(message, at: location)
}

private func holders(of object: AnyObject) -> [Referrer] {
    let address = Unmanaged.passUnretained(object).toOpaque()
    // The side table belongs to the weak reference that was used to look. It hides in the second word of the object.
    let counts = address.load(fromByteOffset: 8, as: UInt64.self)
    let sideTable = counts >> 62 == 3 ? Address(counts << 3 & (1 << 48 - 1)) : nil
    let referrers = (try? ZombieGuard.referrers(of: UnsafeRawPointer(address))) ?? []
    return referrers.filter { $0.start != sideTable }
}
