// Reads the message of a Go panic from the memory of a program that ends with a signal (GOTRACEBACK=crash). Go writes
// the message with its own system calls, which the runtime does not intercept. preprintpanics has already replaced
// errors and Stringers by strings.
// Source: g and _panic in Go's src/runtime/runtime2.go, _type in src/internal/abi/type.go, preprintpanics in
// src/runtime/panic.go.

import CUnwind

/// The innermost panic of the goroutine that a thread runs.
struct GoPanic {
    /// "panic: runtime error: index out of range [5] with length 3".
    let message: String

    // Offsets in g: stack.lo, stack.hi, stackguard0, stackguard1, _panic (32), _defer, m (48). An m begins with its g0.
    // Offsets in _panic: argp, then the interface value arg (its type at 8, its data at 16).
    private static let panicOffset: UInt64 = 32, machineOffset: UInt64 = 48
    private static let typeOffset: UInt64 = 8, valueOffset: UInt64 = 16
    private static let kindOffset: UInt64 = 23
    private static let kindBits: UInt8 = 31, longest = 2048

    /// `registers` are the registers at the fatal signal, by DWARF number. Nil if the thread runs no goroutine, or has
    /// no panic with a printable value.
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

    /// Formats strings and integers, by the numbers of reflect.Kind; nil for other values.
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
