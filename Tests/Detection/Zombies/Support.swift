// What every case needs: the end of an object, the end of a case, and references that no compiler sees through.

import Foundation

/// What happens to objects that a case drops.
enum Fate {
    /// They are released once too often, as the bug wants it.
    case freed
    /// They are freed and their memory is used for something else.
    case reused
    /// They are kept: the same program without its bug.
    case kept
}

nonisolated(unsafe) var fate = Fate.freed

/// Takes the last reference away from an object that the caller goes on using.
@inline(never)
@_optimize(none)
func drop<Object: AnyObject>(_ object: Object) {
    dropReference(Unmanaged.passUnretained(object).toOpaque())
}

/// The same for heap objects that are no class instances, and for storage whose class is not public.
@inline(never)
@_optimize(none)
func dropReference(_ object: UnsafeRawPointer) {
    if fate == .kept { return }
    let size = malloc_usable_size(UnsafeMutableRawPointer(mutating: object))
    Unmanaged<AnyObject>.fromOpaque(object).release()
    if fate == .reused { reuse(size) }
}

/// Takes every reference away, where the runtime or the library holds some that are out of reach.
@inline(never)
@_optimize(none)
func dropAllReferences(_ object: UnsafeRawPointer) {
    if fate == .kept { return }
    for _ in 1..<runtime_retainCount(object) { Unmanaged<AnyObject>.fromOpaque(object).release() }
    dropReference(object)
}

/// Waits, for a while, for threads that are on their way to release it: nobody but the caller owns it then.
@inline(never)
@_optimize(none)
func settle(_ object: UnsafeRawPointer) {
    for _ in 0..<100 where runtime_retainCount(object) > 1 { usleep(1000) }
}

/// The memory that others own now, if objects' memory is used again, and what they wrote into it.
nonisolated(unsafe) var reusedBlocks: [UnsafeMutableRawBufferPointer] = []
let reusedByte: UInt8 = 0xA7

/// Takes all memory that free blocks of this size offer, and writes into it.
@inline(never)
@_optimize(none)
func reuse(_ size: Int) {
    for _ in 0..<16 {
        let block = UnsafeMutableRawBufferPointer(start: malloc(size), count: size)
        memset(block.baseAddress!, Int32(reusedByte), size)
        reusedBlocks.append(block)
    }
}

/// Ends a case before anything in scope is released again.
@inline(never)
func done<Value>(_ value: Value) -> Never {
    print(value)
    for block in reusedBlocks where !block.allSatisfy({ $0 == reusedByte }) { print("memory of others was changed") }
    exit(0)
}

/// Something that comes after an access, so that the access is not the last thing that its function does.
@inline(never)
@_optimize(none)
func goOn() {}

/// The value, unknown to the optimizer.
@inline(never)
@_optimize(none)
func opaque<Value>(_ value: Value) -> Value { value }

/// A thread that nothing but libc makes. What it runs is kept.
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

/// A place for references that outlive their function.
nonisolated(unsafe) var kept: [AnyObject] = []

/// Where an object is; reads only the reference.
func address<Object: AnyObject>(_ object: Object) -> UnsafeRawPointer {
    UnsafeRawPointer(Unmanaged.passUnretained(object).toOpaque())
}
