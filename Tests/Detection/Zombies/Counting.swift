// Retains, releases and uniqueness checks use the reference count of a freed object.

import Foundation

// The optimizer removes a retain in front of a call that never returns. A case with a retain therefore returns and does
// not call done(), which never returns.

// case: The object of an Unmanaged reference is retained.
// class: Shop.Cart
// access: retain
@inline(never)
func retainAgain() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    _ = cart.retain()
    goOn()
}

// case: An object is over-released.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged retains the object first)
@inline(never)
func releaseAgain() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    if fate != .kept { cart.release() }
    done(1)
}

// case: An Unmanaged reference that was already released is consumed with takeRetainedValue().
// class: Shop.Cart
// access: release|retain
@inline(never)
func takeTwice() {
    let cart = Unmanaged.passRetained(makeCart())
    dropReference(cart.toOpaque())
    if fate != .kept { _ = cart.takeRetainedValue() }
    done(2)
}

// case: The end of a scope releases a local variable's freed object.
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

// case: swift_retain_n retains the object three times.
// class: Shop.Cart
// access: retain
@inline(never)
func retainMany() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_retain_n(cart, 3)
    goOn()
}

// case: swift_release_n releases the object three times.
// class: Shop.Cart
// access: release
@inline(never)
func releaseMany() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_release_n(cart, 3) }
    done(1)
}

// case: swift_nonatomic_retain retains the object, as single-threaded code does.
// class: Shop.Cart
// access: retain
@inline(never)
func retainSingleThreaded() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_nonatomic_retain(cart)
    goOn()
}

// case: swift_nonatomic_release releases the object, as single-threaded code does.
// class: Shop.Cart
// access: release
@inline(never)
func releaseSingleThreaded() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_nonatomic_release(cart) }
    done(1)
}

// case: swift_tryRetain retains the object unless it is being deinitialized.
// class: Shop.Cart
// access: retain
@inline(never)
func tryRetain() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    done(runtime_tryRetain(cart) != nil)
}

// case: swift_bridgeObjectRetain retains the object.
// class: Shop.Cart
// access: retain
@inline(never)
func bridgeRetain() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    runtime_bridgeObjectRetain(cart)
    goOn()
}

// case: swift_bridgeObjectRelease releases the object.
// class: Shop.Cart
// access: release
@inline(never)
func bridgeRelease() {
    let cart = address(makeCarton().cart)
    dropReference(cart)
    if fate != .kept { runtime_bridgeObjectRelease(cart) }
    done(1)
}

// case: An array is emptied and releases an element that was freed before.
// class: Shop.Cart
// access: release
@inline(never)
func arrayEnds() {
    var carts = [makeCart(), makeCart()]
    dropReference(address(carts[0]))
    if fate != .kept { carts.removeAll() }
    done(1)
}

// case: A dictionary value that was freed before is replaced.
// class: Shop.Cart
// access: release
@inline(never)
func valueReplaced() {
    var carts = ["a": makeCart()]
    dropReference(addressOfValue("a", in: carts))
    if fate != .kept { carts["a"] = makeCart() }
    done(carts.count)
}

// case: The deinit of an owner releases a stored property's freed object.
// class: Shop.Cart
// access: release
@inline(never)
func ownerEnds() {
    var box: Box<Cart>? = makeBox(makeCart())
    dropReference(addressOfContent(box!))
    if fate != .kept { box = nil }
    done(box == nil || fate == .kept)
}

// case: A closure captures the freed object.
// class: Shop.Cart
// access: retain
@inline(never)
func closureCaptures() {
    let cart = makeCart()
    drop(cart)
    let action = opaque(Action { [cart] in cart.add($0) })
    done(opaque(action).run(1))
}

// case: The freed object is appended to an array.
// class: Shop.Cart
// access: retain
// on O, Swift 6.0: silent=the reference is moved into the array (without a retain)
@inline(never)
func arrayAppends() {
    let cart = makeCart()
    drop(cart)
    kept.append(cart)
    done(kept.count)
}

// case: The freed object is assigned to a property of a live object.
// class: Shop.Cart
// access: retain
// on O, Swift 6.0: silent=the reference is moved into the property (without a retain)
@inline(never)
func assignedToProperty() {
    let box = makeBox(makeCart())
    let cart = makeCart()
    drop(cart)
    box.content = cart
    done(1)
}

// case: An unowned(unsafe) reference is copied into a strong one.
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

// case: An unowned reference to the freed object is created.
// class: Shop.Cart
// access: retain
// detail: operation=unowned reference
// on Onone: detail=* (the object is retained first)
@inline(never)
func unownedFormed() {
    let cart = makeCart()
    drop(cart)
    unowned let stale = cart
    kept.append(opaque(Waiter(customer: stale)))
    done(1)
}

// case: A weak reference to the freed object is created.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the object is retained first)
@inline(never)
func weakFormed() {
    let cart = makeCart()
    drop(cart)
    weak var stale: Cart?
    stale = cart
    done(opaque(stale) == nil)
}

// case: An existing weak reference is assigned the freed object.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the object is retained first)
@inline(never)
func weakAssigned() {
    weak var stale = makeWaiter().guest
    let cart = makeCart()
    drop(cart)
    stale = cart
    done(opaque(stale) == nil)
}

// case: An unowned reference is read after deinit. It keeps the memory allocated, so there is no free stack.
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

// case: isKnownUniquelyReferenced() reads the reference count of the freed object.
// class: Shop.Cart
// access: read
// detail: operation=uniqueness check
@inline(never)
func uniquelyReferenced() {
    var cart = makeCart()
    dropReference(addressOfVariable(&cart))
    done(isKnownUniquelyReferenced(&cart))
}

// case: Another thread releases the last reference, and then this thread releases the object again.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged retains the object first)
@inline(never)
func releasedByTwoThreads() {
    let cart = address(makeCarton().cart)
    let courier = UnsafeCourier(address: cart)
    let thread = startThread { dropReference(courier.address) }
    pthread_join(thread, nil)
    if fate != .kept { Unmanaged<Cart>.fromOpaque(cart).release() }
    done(1)
}

// case: An object of a class with a deinit is over-released.
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

/// An uncounted reference to a leaked cart; only the case releases the cart.
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
