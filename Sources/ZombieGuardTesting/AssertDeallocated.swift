// Assertions that an object is gone.

import Testing
import ZombieGuardCore

/// Fails the current test where the object that `make` returns outlives the call: somebody still holds it.
///
/// ```swift
/// assertDeallocated { Cart() }
/// ```
///
/// The failure names the class, the number of references and, where the process is guarded, who holds them: the class
/// and the property of each object that does, and where that object was allocated. References from the stack, from
/// globals and from memory that is not the guarded heap's are not found.
///
/// - Parameters:
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - make: makes the object and returns it.
/// - Throws: what `make` throws.
public func assertDeallocated<Object: AnyObject>(
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column,
    _ make: () throws -> Object
) rethrows {
    weak var object: Object?
    try {
        let made = try make()
        object = made
    }()
    if let survivor = object.map({ Unmanaged<AnyObject>.passRetained($0) }) {
        fail(survivor, SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
    }
}

/// Fails the current test where the object that `make` returns outlives the call, like the function of the same name for
/// synchronous code.
///
/// - Parameters:
///   - isolation: the actor that `make` runs on.
///   - fileID: module and file of the call.
///   - filePath: path of the file of the call.
///   - line: line of the call.
///   - column: column of the call.
///   - make: makes the object and returns it.
/// - Throws: what `make` throws.
public func assertDeallocated<Object: AnyObject>(
    isolation: isolated (any Actor)? = #isolation, fileID: String = #fileID, filePath: String = #filePath,
    line: Int = #line, column: Int = #column, _ make: () async throws -> Object
) async rethrows {
    weak var object: Object?
    do {
        let made = try await OlderTesting.inPlace { try await make() }
        object = made
    }
    if let survivor = object.map({ Unmanaged<AnyObject>.passRetained($0) }) {
        fail(survivor, SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
    }
}

/// Takes over one reference to the survivor.
private func fail(_ survivor: Unmanaged<AnyObject>, _ location: SourceLocation) {
    let address = UnsafeRawPointer(survivor.toOpaque())
    let sideTable = sideTable(of: address)
    // Besides ours, and as long as nobody else counts.
    let references = sideTable.flatMap { strongReferences(in: $0) }.map { $0 - 1 }
    var message = "a \(visible(survivor._withUnsafeGuaranteedRef { className(of: type(of: $0)) }))"
    message += " outlived the closure that made it"
    if let references { message += ": \(references == 1 ? "1 reference is" : "\(references) references are") left" }
    // The side table belongs to the weak reference that was used to look.
    var holders = ((try? ZombieGuard.referrers(of: address)) ?? []).filter { $0.start != sideTable }.map(\.description)
    if let offset = offsetOfItself(in: address) { holders.insert("itself, at offset \(offset)", at: 0) }
    if Guarding.missing != nil {
        message += "; who holds it is not known, because this process is not guarded"
    } else if holders.isEmpty {
        message += "; none is in the heap, so the holder is a variable, static or on the stack"
    } else {
        message += ", held by"
        for holder in holders.prefix(8) { message += "\n    \(holder)" }
        if holders.count > 8 { message += "\n    and \(holders.count - 8) more" }
    }
    CurrentTest.fail(message, at: location)
    survivor.release()
}

// A closure that captures nothing but its owner is a reference of the owner to itself.
private func offsetOfItself(in object: UnsafeRawPointer) -> Int? {
    // Metadata of a class: the size of an instance is at offset 24.
    let size = object.load(as: UnsafeRawPointer.self).load(fromByteOffset: 24, as: UInt32.self)
    return stride(from: 16, to: Int(size) - 7, by: 8).first {
        object.load(fromByteOffset: $0, as: UInt.self) == UInt(bitPattern: object)
    }
}

// The second word of an object to which there are weak references: the address of its side table, shifted, under two bits.
private func sideTable(of object: UnsafeRawPointer) -> Address? {
    let word = object.load(fromByteOffset: 8, as: UInt64.self)
    return word >> 62 == 3 ? Address(word << 3 & (1 << 48 - 1)) : nil
}

// The third word of a side table holds the counts; bits 33 to 62 the strong references but one.
private func strongReferences(in sideTable: Address) -> Int? {
    guard let table = UnsafeRawPointer(bitPattern: UInt(sideTable.rawValue)) else { return nil }
    return Int(table.load(fromByteOffset: 16, as: UInt64.self) >> 33 & (1 << 30 - 1)) + 1
}
