// The classes whose freed objects are used, the protocols through which they are reached, and helpers for all cases.

import Glibc

protocol P: AnyObject {
    var n: Int { get set }
    var leaf: Leaf { get }
    func tick() -> Int
    func constant() -> Int
    func isSame(_ other: AnyObject) -> Bool
}
/// The requirements of P, but not class-bound: an existential of type Q holds the reference in its buffer.
protocol Q {
    var n: Int { get nonmutating set }
    var leaf: Leaf { get }
    func tick() -> Int
    func constant() -> Int
    func isSame(_ other: AnyObject) -> Bool
}
/// Nothing conforms to this protocol.
protocol Foreign {}

final class Leaf: @unchecked Sendable { var value = 5 }
final class Other {}

final class Final: P, Q {
    var n = 9
    let leaf = Leaf()
    func tick() -> Int { n + 1 }
    func constant() -> Int { 7 }
    func isSame(_ other: AnyObject) -> Bool { self === other }
}

class Open: P, Q {
    var n = 9
    let leaf = Leaf()
    func tick() -> Int { n + 1 }
    func constant() -> Int { 7 }
    func isSame(_ other: AnyObject) -> Bool { self === other }
}
/// Overrides the members of Open, so that the optimizer keeps their calls dynamic.
final class Overriding: Open {
    override var n: Int { didSet { leaf.value = n } }
    override func tick() -> Int { 1 }
    override func constant() -> Int { 1 }
    override func isSame(_ other: AnyObject) -> Bool { false }
}

class Generic<Element>: P, Q {
    var element: Element
    var n = 9
    let leaf = Leaf()
    init(_ element: Element) { self.element = element }
    func tick() -> Int { n + 1 }
    func constant() -> Int { 7 }
    func isSame(_ other: AnyObject) -> Bool { self === other }
}

actor Isolated: P, Q {
    nonisolated(unsafe) var n = 9
    nonisolated let leaf = Leaf()
    nonisolated func tick() -> Int { n + 1 }
    nonisolated func constant() -> Int { 7 }
    nonisolated func isSame(_ other: AnyObject) -> Bool { self === other }
}

class Base: P, Q {
    var n = 9
    let leaf = Leaf()
    func tick() -> Int { 1 }
    func constant() -> Int { 1 }
    func isSame(_ other: AnyObject) -> Bool { false }
}
class Inherited: Base {
    var more = "more"
    override func tick() -> Int { n + 1 }
    override func constant() -> Int { 7 }
    override func isSame(_ other: AnyObject) -> Bool { self === other }
}

@inline(never) @_optimize(none) func makeFinal() -> Final { Final() }
@inline(never) @_optimize(none) func makeOpen() -> Open { CommandLine.argc > 9 ? Overriding() : Open() }
@inline(never) @_optimize(none) func makeGeneric() -> Generic<Int> { Generic(3) }
@inline(never) @_optimize(none) func makeIsolated() -> Isolated { Isolated() }
@inline(never) @_optimize(none) func makeInherited() -> Inherited { Inherited() }

/// Returns the value so that the optimizer does not know it.
@inline(never) @_optimize(none) func opaque<Value>(_ value: Value) -> Value { value }

struct Holder<Object: AnyObject> { unowned(unsafe) let object: Object }

nonisolated(unsafe) var dead: UnsafeRawPointer?
nonisolated(unsafe) var strong: AnyObject?
nonisolated(unsafe) weak var weakly: AnyObject?
nonisolated(unsafe) unowned(unsafe) var unsafely: AnyObject = Leaf.shared
nonisolated(unsafe) unowned var unowning: AnyObject = Leaf.shared
extension Leaf { nonisolated(unsafe) static let shared = Leaf() }

/// Returns whether the argument has this text. Compares C strings, because a Swift String might allocate an object.
func isArgument(_ number: Int, _ text: StaticString) -> Bool {
    number < Int(CommandLine.argc)
        && strcmp(CommandLine.unsafeArgv[number]!, UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
}

/// Releases the only reference to the object, which the caller still uses; with --kept it releases nothing.
@inline(never) @_optimize(none)
func drop(_ object: AnyObject) {
    _ = Leaf.shared
    unsafely = Leaf.shared
    unowning = Leaf.shared
    dead = UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
    if !isArgument(1, "--kept") { Unmanaged<AnyObject>.fromOpaque(dead!).release() }
}

/// Prints the result and ends the process, so that nothing in scope is released.
/// With --probe, also reads the object: this read is reported unless an earlier access has made the object readable.
@inline(never) @_optimize(none)
func done<Value>(_ value: Value) -> Never {
    print(value)
    fflush(nil)
    if isArgument(1, "--probe") { print(dead!.load(fromByteOffset: 16, as: Int.self)) }
    exit(0)
}

@inline(never) @_optimize(none) func pass<Value>(_ value: Value) -> Int { MemoryLayout<Value>.size }
@inline(never) @_optimize(none) func passType(_ type: Any.Type) -> Int { 3 }
@inline(never) @_optimize(none) func readThrough(_ object: any P) -> Int { object.n }
@_disfavoredOverload @inline(never) @_optimize(none) func readThrough(_ object: any Q) -> Int { object.n }
@inline(never) func readGeneric<Object: P>(_ object: Object) -> Int { object.n }
@_disfavoredOverload @inline(never) func readGeneric<Object: Q>(_ object: Object) -> Int { object.n }
