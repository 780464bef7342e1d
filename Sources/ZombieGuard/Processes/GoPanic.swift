// What a program of Go's says when a panic ends it by a signal (GOTRACEBACK=crash). It writes by system calls of its own, which nobody sees:
// so the words are read where Go has them, also after it has turned errors and Stringers into text to print them.
// Source: g and _panic in Go's src/runtime/runtime2.go, _type in src/internal/abi/type.go, preprintpanics in src/runtime/panic.go.

import CUnwind

/// The last panic of the goroutine that a thread runs.
struct GoPanic {
    /// "panic: runtime error: index out of range [5] with length 3".
    let message: String

    // Of a goroutine: the ends of its stack, two limits, the last panic, and the machine that runs it, which begins with the goroutine that
    // it has for itself. Of a panic: the address of a call's arguments, and an interface.
    private static let panicOffset: UInt64 = 32, machineOffset: UInt64 = 48
    private static let typeOffset: UInt64 = 8, valueOffset: UInt64 = 16
    private static let kindOffset: UInt64 = 23
    private static let kindBits: UInt8 = 31, longest = 2048

    /// `registers` are those that the program died with, by DWARF number. Nil where they are not Go's, or there is no panic whose value can be
    /// shown.
    init?(registers: [UInt64], in memory: any MemoryReader) {
        func word(_ address: UInt64) -> UInt64? { memory.record(UInt64.self, at: address) }
        let goroutine = registers[Int(ZG_THREAD_GOROUTINE)]
        guard let low = word(goroutine), let high = word(goroutine &+ 8),
            let machine = word(goroutine &+ Self.machineOffset), let own = word(machine),
            word(own &+ Self.machineOffset) == machine,
            let panic = word(goroutine &+ Self.panicOffset), low <= panic, panic < high,
            let type = word(panic &+ Self.typeOffset), let value = word(panic &+ Self.valueOffset),
            let kind = memory.record(UInt8.self, at: type &+ Self.kindOffset),
            let text = Self.text(ofKind: kind & Self.kindBits, at: value, in: memory)
        else { return nil }
        message = "panic: " + text
    }

    /// Text and whole numbers, by the numbers of Go's kinds (reflect.Kind); of other values Go itself shows no more than where they are.
    private static func text(ofKind kind: UInt8, at place: UInt64, in memory: any MemoryReader) -> String? {
        func value<Value: BitwiseCopyable & CustomStringConvertible>(_ type: Value.Type) -> String? {
            memory.record(type, at: place)?.description
        }
        return switch kind {
        case 2, 6: value(Int64.self)
        case 3: value(Int8.self)
        case 4: value(Int16.self)
        case 5: value(Int32.self)
        case 7, 11: value(UInt64.self)
        case 8: value(UInt8.self)
        case 9: value(UInt16.self)
        case 10: value(UInt32.self)
        case 24: string(at: place, in: memory)
        default: nil
        }
    }

    private static func string(at place: UInt64, in memory: any MemoryReader) -> String? {
        let parts = memory.records(UInt64.self, at: place, count: 2)
        guard parts.count == 2 else { return nil }
        return String(decoding: memory.read(at: parts[0], upTo: Int(min(parts[1], UInt64(longest)))), as: UTF8.self)
    }
}
