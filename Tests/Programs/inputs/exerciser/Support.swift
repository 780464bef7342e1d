// Shared by all parts: random numbers with a seed, checksums, and a census of instances.

import Foundation
import Synchronization

struct Numbers: RandomNumberGenerator {
    private var state: UInt64

    init(seed: Int) { state = UInt64(truncatingIfNeeded: seed) &* 0x9e37_79b9_7f4a_7c15 | 1 }

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ (state >> 29)
    }

    mutating func below(_ limit: Int) -> Int { Int(next() >> 33) % limit }
}

struct Checksum: CustomStringConvertible {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ number: Int) {
        value = (value ^ UInt64(bitPattern: Int64(number))) &* 0x100_0000_01b3
        value ^= value >> 32
    }

    mutating func add(_ text: some StringProtocol) { for byte in text.utf8 { add(Int(byte)) } }

    mutating func add(_ bytes: Data) { for byte in bytes { add(Int(byte)) } }

    var description: String { String(value, radix: 16) }
}

/// Counts instances. At the end of the program, all must have been destroyed.
enum Census {
    static let born = Atomic<Int>(0)
    static let gone = Atomic<Int>(0)
    static var alive: Int { born.load(ordering: .acquiring) - gone.load(ordering: .acquiring) }
}

/// The root of most classes here. deinit destroys `mark`, so that a use of a destroyed instance sees another value.
class Tracked: @unchecked Sendable {
    static let alive = 0x5afe_0b1e
    private(set) var mark = Tracked.alive

    init() { Census.born.add(1, ordering: .relaxed) }

    deinit {
        require(mark == Tracked.alive, "an instance was destroyed twice")
        mark = 0xdead
        Census.gone.add(1, ordering: .relaxed)
    }

    var isIntact: Bool { mark == Tracked.alive }
}

final class Leaf: Tracked, @unchecked Sendable {
    let value: Int

    init(_ value: Int) {
        self.value = value
        super.init()
    }
}

/// A condition that must always hold: a failure means a wrong answer.
@inline(never)
func require(_ condition: Bool, _ what: @autoclosure () -> String, line: Int = #line, file: String = #fileID) {
    if condition { return }
    FileHandle.standardError.write(Data("exerciser: \(file):\(line): \(what())\n".utf8))
    exit(3)
}

/// Hides a value from the optimizer, and prevents stack allocation of objects.
@inline(never)
@_optimize(none)
func opaque<T>(_ value: T) -> T { value }
