// Assertions that an object has been deallocated.

import Testing
import ZombieGuardCore

/// Fails the current test if the object that `make` returns is still referenced after the call.
///
/// ```swift
/// assertDeallocated { Cart() }
/// ```
///
/// The failure names the class and the number of references. In a guarded process it also lists the holders of the
/// object (class, property and allocation site of each holding object, globals and local variables), and the shortest
/// path from a variable to the object. If zguard does not run, it lists only the holders in the guarded heap.
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

/// Fails the current test if the object that `make` returns is still referenced after the call. The asynchronous
/// variant.
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

/// Fails the test because the object is still referenced. Consumes one reference to the object.
private func fail(_ survivor: Unmanaged<AnyObject>, _ location: SourceLocation) {
    let address = UnsafeRawPointer(survivor.toOpaque())
    let sideTable = sideTable(of: address)
    // The count excludes the reference held here. It is exact only while no other thread retains or releases the
    // object.
    let references = sideTable.flatMap { strongReferences(in: $0) }.map { $0 - 1 }
    var message = "a \(visible(survivor._withUnsafeGuaranteedRef { className(of: type(of: $0)) }))"
    message += " outlived the closure that made it"
    if let references { message += ": \(references == 1 ? "1 reference is" : "\(references) references are") left" }
    CurrentTest.fail(message + holdersText(of: address, sideTable), at: location)
    survivor.release()
}

// Text about the holders of an object and the path to it from a variable. Without zguard, the text has only the holders
// that the runtime in this process finds in the heap.
private func holdersText(of object: UnsafeRawPointer, _ sideTable: Address?) -> String {
    if Guarding.missing != nil { return "; its holders are unknown, because this process is not guarded" }
    var question = HeapQuestion(.objects)
    question.objects = [Address(~UInt64(UInt(bitPattern: object)))]
    var holders: [String]
    var path: String?
    if let found = (try? WaitingThread.ask(question))?.objects.first?.withoutLibrary {
        holders = found.holders.map(\.text)
        path = found.pathText
        if holders.isEmpty { return "; nothing was found that holds it" }
    } else {
        // Does not count the side table, which exists because of the weak reference used for this check.
        holders = ((try? ZombieGuard.referrers(of: object)) ?? []).filter { $0.start != sideTable }.map(\.description)
        if let offset = offsetOfItself(in: object) {
            let place = Address(UInt64(UInt(bitPattern: object + offset)))
            holders.insert(
                GuardRuntime.current?.referrer(at: place)?.description ?? "itself, at offset \(offset)", at: 0)
        }
        if holders.isEmpty { return "; no holder is in the heap, so a static or local variable holds it" }
    }
    var text = ", held by"
    for holder in holders.prefix(8) { text += "\n    \(holder)" }
    if holders.count > 8 { text += "\n    and \(holders.count - 8) more" }
    return text + (path.map { "\nfrom \($0)" } ?? "")
}

// Offset of the object's reference to itself; nil if it has none. A stored closure that captures only its owner is such
// a reference: the captured object itself is the closure's context.
private func offsetOfItself(in object: UnsafeRawPointer) -> Int? {
    // The instance size is at offset 24 of a class's metadata.
    let size = object.load(as: UnsafeRawPointer.self).load(fromByteOffset: 24, as: UInt32.self)
    return stride(from: 16, to: Int(size) - 7, by: 8).first {
        object.load(fromByteOffset: $0, as: UInt.self) == UInt(bitPattern: object)
    }
}

// The side table of an object with weak references. The object's second word then holds two set top bits and the side
// table's address shifted right by 3.
private func sideTable(of object: UnsafeRawPointer) -> Address? {
    let word = object.load(fromByteOffset: 8, as: UInt64.self)
    return word >> 62 == 3 ? Address(word << 3 & (1 << 48 - 1)) : nil
}

// The third word of a side table holds the reference counts. Bits 33 to 62 are the strong count minus one.
private func strongReferences(in sideTable: Address) -> Int? {
    guard let table = UnsafeRawPointer(bitPattern: UInt(sideTable.rawValue)) else { return nil }
    return Int(table.load(fromByteOffset: 16, as: UInt64.self) >> 33 & (1 << 30 - 1)) + 1
}
