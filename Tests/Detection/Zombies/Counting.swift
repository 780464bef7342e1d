// The reference count of a freed object is read or changed.

import Foundation

// A retain that no return follows is dropped by the optimizer: such cases go on.

// case: A counted reference is made of one that was not counted.
// class: Shop.Cart
// access: retain
@inline(never)
func retainAgain() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    _ = cart.retain()
    goOn()
}

// case: One release too many.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged copies its reference first)
@inline(never)
func releaseAgain() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    if fate != .kept { cart.release() }
    done(1)
}

// case: The same reference is taken over twice.
// class: Shop.Cart
// access: release|retain
@inline(never)
func takeTwice() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    if fate != .kept { _ = cart.takeRetainedValue() }
    done(2)
}

// case: The caller's own reference goes when its scope ends.
// class: Shop.Cart
// access: release
@inline(never)
func scopeEnd() {
    do {
        let cart = makeCart()
        drop(cart)
    }
    done(1)
}

// case: Several references at once.
// class: Shop.Cart
// access: retain
@inline(never)
func retainMany() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_retain_n(cart, 3)
    goOn()
}

// case: Several references go at once.
// class: Shop.Cart
// access: release
@inline(never)
func releaseMany() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_release_n(cart, 3) }
    done(1)
}

// case: Counting without atomic instructions, as code for a single thread does it.
// class: Shop.Cart
// access: retain
@inline(never)
func retainSingleThreaded() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_nonatomic_retain(cart)
    goOn()
}

// case: Counting without atomic instructions, down.
// class: Shop.Cart
// access: release
@inline(never)
func releaseSingleThreaded() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_nonatomic_release(cart) }
    done(1)
}

// case: A reference is made only if the object is alive.
// class: Shop.Cart
// access: retain
@inline(never)
func tryRetain() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    done(runtime_tryRetain(cart) != nil)
}

// case: A reference that may be a bridged one.
// class: Shop.Cart
// access: retain
@inline(never)
func bridgeRetain() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_bridgeObjectRetain(cart)
    goOn()
}

// case: A reference that may be a bridged one goes.
// class: Shop.Cart
// access: release
@inline(never)
func bridgeRelease() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_bridgeObjectRelease(cart) }
    done(1)
}

// case: An array still holds the object when it ends.
// class: Shop.Cart
// access: release
@inline(never)
func arrayEnds() {
    var carts = [makeCart(), makeCart()]
    dropReference(address(carts[0]))
    if fate != .kept { carts.removeAll() }
    done(1)
}

// case: A dictionary still holds the object when its value is replaced.
// class: Shop.Cart
// access: release
@inline(never)
func valueReplaced() {
    var carts = ["a": makeCart()]
    dropReference(addressOfValue("a", in: carts))
    if fate != .kept { carts["a"] = makeCart() }
    done(carts.count)
}

// case: Another object holds it in a stored property and ends.
// class: Shop.Cart
// access: release
@inline(never)
func ownerEnds() {
    var box: Box<Cart>? = makeBox(makeCart())
    dropReference(addressOfContent(box!))
    if fate != .kept { box = nil }
    done(box == nil || fate == .kept)
}

// case: A closure captures it.
// class: Shop.Cart
// access: retain
@inline(never)
func closureCaptures() {
    let cart = makeCart()
    drop(cart)
    let action = opaque(Action { [cart] in cart.add($0) })
    done(opaque(action).run(1))
}

// case: It is stored into an array.
// class: Shop.Cart
// access: retain
// on O, Swift 6.0: silent=the reference moves into the array (it is not counted)
@inline(never)
func arrayAppends() {
    let cart = makeCart()
    drop(cart)
    kept.append(cart)
    done(kept.count)
}

// case: It is assigned to a property of a live object.
// class: Shop.Cart
// access: retain
// on O, Swift 6.0: silent=the reference moves into the property (it is not counted)
@inline(never)
func assignedToProperty() {
    let box = makeBox(makeCart())
    let cart = makeCart()
    drop(cart)
    box.content = cart
    done(1)
}

// case: An unowned(unsafe) reference is read into a counted one.
// class: Shop.Cart
// access: retain
@inline(never)
func unsafeReferenceRead() {
    let cart = makeCart()
    let courier = Courier(object: cart)
    drop(cart)
    kept.append(courier.object)
    done(kept.count)
}

// case: An unowned reference to it is made.
// class: Shop.Cart
// access: retain
// detail: operation=unowned reference
// on Onone: detail=* (the reference is copied first)
@inline(never)
func unownedFormed() {
    let cart = makeCart()
    drop(cart)
    unowned let stale = cart
    kept.append(opaque(Waiter(customer: stale)))
    done(1)
}

// case: A weak reference to it is made.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the reference is copied first)
@inline(never)
func weakFormed() {
    let cart = makeCart()
    drop(cart)
    weak var stale: Cart?
    stale = cart
    done(opaque(stale) == nil)
}

// case: A weak reference is pointed at it.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the reference is copied first)
@inline(never)
func weakAssigned() {
    weak var stale = makeWaiter().guest
    let cart = makeCart()
    drop(cart)
    stale = cart
    done(opaque(stale) == nil)
}

// case: An unowned reference is read after the last strong one went. The memory is still there, so nobody freed it.
// class: Shop.Cart
// access: retain|read|unknown
// free: none
@inline(never)
func unownedRead() {
    let waiter = makeWaiter()
    drop(waiter.guest!)
    if fate == .kept { done(7) }
    done(waiter.customer.total)
}

// case: Is it the only reference?
// class: Shop.Cart
// access: read
// detail: operation=uniqueness check
@inline(never)
func uniquelyReferenced() {
    var cart = makeCart()
    dropReference(addressOfVariable(&cart))
    done(isKnownUniquelyReferenced(&cart))
}

// case: Two threads release it at the same time; one of them is late.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged copies its reference first)
@inline(never)
func releasedByTwoThreads() {
    let cart = address(makeCarton().cart)
    let courier = UnsafeCourier(address: cart)
    let thread = startThread { dropReference(courier.address) }
    pthread_join(thread, nil)
    if fate != .kept { Unmanaged<Cart>.fromOpaque(cart).release() }
    done(1)
}

// case: An object whose end is noticed (deinit) is released once more.
// class: Shop.Session
// access: release
@inline(never)
func sessionReleasedAgain() {
    do {
        let session = makeSession()
        drop(session)
    }
    done(sessionsEnded <= 1)
}

// MARK: helpers

@inline(never)
@_optimize(none)
func addressOfVariable(_ cart: inout Cart) -> UnsafeRawPointer { address(cart) }

struct UnsafeCourier: @unchecked Sendable {
    let address: UnsafeRawPointer
}

/// Holds a cart that is never released by anybody but the case.
struct Carton {
    unowned(unsafe) let cart: Cart
}

@inline(never)
@_optimize(none)
func makeCarton() -> Carton {
    let cart = Unmanaged.passRetained(makeCart())
    return Carton(cart: cart._withUnsafeGuaranteedRef { $0 })
}

final class Waiter {
    unowned var customer: Cart
    weak var guest: Cart?
    init(customer: Cart) { self.customer = customer }
}

@inline(never)
@_optimize(none)
func makeWaiter() -> Waiter {
    let cart = Unmanaged.passRetained(makeCart()).takeUnretainedValue()
    let waiter = Waiter(customer: cart)
    waiter.guest = cart
    return waiter
}

@inline(never)
@_optimize(none)
func addressOfValue(_ key: String, in carts: [String: Cart]) -> UnsafeRawPointer { address(carts[key]!) }

@inline(never)
@_optimize(none)
func addressOfContent(_ box: Box<Cart>) -> UnsafeRawPointer { address(box.content) }
