// Tests of what the words of Swift objects refer to. Tests/Graph/edges.py compares many more types.

import Glibc
import Testing
import ZombieGuard

@testable import ZombieGuardGraph

private class Thing {}
private struct Reference {
    var number: Int8 = 1
    unowned let thing: Thing
    var name = "a name"
}
private enum Choice {
    case thing(Thing)
    case number(Int)
    case none
}
private class Base<Value> {
    var value: Value
    var other: Value?
    init(_ value: Value) { self.value = value }
}
private final class Derived: Base<Reference> {
    weak var parent: Thing?
    var choice = Choice.none
    var flag: Bool?
    var anything: Any = 1
    var handler: (() -> Void)?
    let pointer: UnsafeMutableRawPointer? = nil
}

/// Memory that can be read at every address; most of its values lead a walk on to other addresses.
private final class DamagedMemory: MemoryReader {
    let seed: UInt64
    var reads = 0

    init(_ seed: UInt64) { self.seed = seed }

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        reads += 1
        // Kinds of metadata, descriptors and mangled types, so that not every walk ends at the first word.
        let words: [UInt64] = [
            0, 0x200, 0x201, 0x202, 0x301, 0x303, 0x400, 0x500, 16, 17, 18, 0x80_0010, 0xc_0000_0002, 0x7fff_0000_1000,
            0x5f01_0000_1001, 0x0067_5378_7461_5379, 0x4153_4141_7401_5f41, 3, 0x4000_0050_0003, 1 << 33,
        ]
        var bytes: [UInt8] = []
        for place in stride(from: address & ~7, to: (address & ~7) &+ UInt64(count) &+ 8, by: 8) {
            var mixed = (place &+ seed) &* 0x9e37_79b9_7f4a_7c15
            mixed ^= mixed >> 29
            let word = words[Int(mixed % UInt64(words.count))]
            withUnsafeBytes(of: word) { bytes += $0 }
        }
        return Array(bytes.dropFirst(Int(address & 7)).prefix(count))
    }
}

@Suite struct ObjectLayoutTests {
    private func kinds(of object: AnyObject, _ count: Int) throws -> [ReferenceKind] {
        let reader = LayoutReader(try ProcessMemory(processID: Int(getpid())))
        let start = UInt64(UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque()))
        let words = reader.memory.records(UInt64.self, at: start, count: count)
        let layout = reader.objects(of: words[0])
        return withExtendedLifetime(object) {
            (2..<count).map { layout.kind(at: UInt64($0) * 8, of: start, words) }
        }
    }

    @Test func propertiesOfAGenericSuperclass() throws {
        let thing = Thing()
        let value: [ReferenceKind] = [.number, .unowned, .number, .strong]
        let own: [ReferenceKind] = [
            .weak, .strong, .number, .number, .number, .number, .number, .number, .strong, .pointer,
        ]
        // The enum's tag and the optional flag share the word behind its payload.
        #expect(try kinds(of: Derived(Reference(thing: thing)), 20) == value + value + own)
    }

    @Test func elements() throws {
        let thing = Thing()
        let array = [Reference(thing: thing), Reference(thing: thing)]
        let storage = array.withUnsafeBufferPointer { UnsafeRawPointer($0.baseAddress!) - 32 }
        let object = Unmanaged<AnyObject>.fromOpaque(storage).takeUnretainedValue()
        let element: [ReferenceKind] = [.number, .unowned, .number, .strong]
        #expect(try kinds(of: object, 12).dropFirst(2) == ArraySlice(element + element))
    }

    @Test(arguments: 0..<200) func damagedMetadataEnds(seed: Int) {
        let memory = DamagedMemory(UInt64(seed))
        let reader = LayoutReader(memory)
        for metadata in stride(from: UInt64(0x10000), to: 0x10200, by: 8) {
            let layout = reader.objects(of: metadata)
            _ = layout.kind(at: 16, of: 0x1000, [])
            _ = layout.kind(at: 64, of: 0x1000, [UInt64](repeating: 0x2000, count: 8))
        }
        #expect(memory.reads > 0)
    }
}
