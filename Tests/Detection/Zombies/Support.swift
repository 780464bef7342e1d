// Helpers for all cases: release an object too early, end a case, and hide references from the optimizer.

import Foundation

/// Ways in which `drop` disposes of objects.
enum Fate {
    /// The objects are over-released, which is the bug of the case.
    case freed
    /// The objects are over-released and their memory is reused.
    case reused
    /// The objects are kept alive: the same program without its bug.
    case kept
}

nonisolated(unsafe) var fate = Fate.freed

/// Releases the last reference to an object that the caller still uses.
@inline(never)
@_optimize(none)
func drop<Object: AnyObject>(_ object: Object) {
    dropReference(Unmanaged.passUnretained(object).toOpaque())
}

/// Like `drop`, for heap objects that are not class instances and for storage whose class is not public.
@inline(never)
@_optimize(none)
func dropReference(_ object: UnsafeRawPointer) {
    if fate == .kept { return }
    let size = malloc_usable_size(UnsafeMutableRawPointer(mutating: object))
    Unmanaged<AnyObject>.fromOpaque(object).release()
    if fate == .reused { reuse(size) }
}

/// Releases every reference to the object, including those that the Swift runtime or a library holds.
@inline(never)
@_optimize(none)
func dropAllReferences(_ object: UnsafeRawPointer) {
    if fate == .kept { return }
    for _ in 1..<runtime_retainCount(object) { Unmanaged<AnyObject>.fromOpaque(object).release() }
    dropReference(object)
}

/// Waits up to 0.1 s until other threads have released the object and only the caller's reference is left.
@inline(never)
@_optimize(none)
func settle(_ object: UnsafeRawPointer) {
    for _ in 0..<100 where runtime_retainCount(object) > 1 { usleep(1000) }
}

/// Blocks that reuse the memory of freed objects (--reused), filled with `reusedByte`.
nonisolated(unsafe) var reusedBlocks: [UnsafeMutableRawBufferPointer] = []
let reusedByte: UInt8 = 0xA7

/// Allocates 16 blocks of this size, so that freed memory is reused, and fills them.
@inline(never)
@_optimize(none)
func reuse(_ size: Int) {
    for _ in 0..<16 {
        let block = UnsafeMutableRawBufferPointer(start: malloc(size), count: size)
        memset(block.baseAddress!, Int32(reusedByte), size)
        reusedBlocks.append(block)
    }
}

/// Prints the result and exits, so that nothing in scope is released again.
@inline(never)
func done<Value>(_ value: Value) -> Never {
    print(value)
    for block in reusedBlocks where !block.allSatisfy({ $0 == reusedByte }) { print("memory of others was changed") }
    exit(0)
}

/// Called after an access, so that the access is not a tail call of its function.
@inline(never)
@_optimize(none)
func goOn() {}

/// Returns the value so that the optimizer does not know it.
@inline(never)
@_optimize(none)
func opaque<Value>(_ value: Value) -> Value { value }

/// Starts a thread with pthread_create. The closure is never released.
@inline(never)
@discardableResult
func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t {
    final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = pthread_t()
    let context = Unmanaged.passRetained(Body(body)).toOpaque()
    pthread_create(
        &thread, nil,
        { context in
            Unmanaged<Body>.fromOpaque(context!)._withUnsafeGuaranteedRef { $0.run() }
            return nil
        }, context)
    return thread
}

/// Strong references that outlive the function that stores them.
nonisolated(unsafe) var kept: [AnyObject] = []

/// Returns the address of an object without accessing the object.
func address<Object: AnyObject>(_ object: Object) -> UnsafeRawPointer {
    UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
}
