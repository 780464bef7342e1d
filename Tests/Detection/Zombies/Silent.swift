// Accesses that do not touch the object, or only its class pointer.

import Foundation

// case: Identity.
// class: Shop.Cart
// access: retain
// on O: silent=two references are compared, the object is not touched (no reference is copied)
// on O, Swift 6.0: silent=-; access=retain|release (a reference is copied)
@inline(never)
func identity() {
    let cart = makeCart()
    let other = makeCart()
    drop(cart)
    done(cart === other)
}

// case: ObjectIdentifier.
// class: Shop.Cart
// access: retain
// on O: silent=is made of the reference, the object is not touched (no reference is copied)
// on O, Swift 6.0: silent=-; access=retain|release (a reference is copied)
@inline(never)
func objectIdentifier() {
    let cart = makeCart()
    let identifier = ObjectIdentifier(cart)
    drop(cart)
    done(identifier == ObjectIdentifier(cart))
}

// case: Is an optional reference nil? The test touches nothing; what is found is the counting of the reference.
// class: Shop.Cart
// access: release
// on Onone: access=retain (the Optional is copied)
// on Onone, Swift 6.0: silent=no reference is counted (the Optional is not copied)
// on Onone, Swift 6.2: silent=no reference is counted (the Optional is not copied)
// on O, Swift 6.0: silent=no reference is counted (the process ends before)
// on O, Swift 6.2: silent=no reference is counted (the process ends before)
@inline(never)
func nilTest() {
    let cart: Cart? = opaque(makeCart())
    dropReference(addressOfOptional(cart))
    done(cart == nil ? 1 : 2)
}

// case: Its address.
// silent: the object is not touched
// class: Shop.Cart
@inline(never)
func addressTaken() {
    let cart = makeCart()
    drop(cart)
    done(Unmanaged.passUnretained(cart).toOpaque() == UnsafeMutableRawPointer(bitPattern: 16))
}

// case: Its class is compared with a known one.
// class: Shop.Cart
// access: read
// on Onone: silent=the class pointer is loaded, and nothing is read through it (optimised code compares it where it is)
// on O, aarch64: silent=the class pointer is loaded, and nothing is read through it (no instruction compares memory)
@inline(never)
func exactType() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart) == Cart.self)
}

// case: Its class is compared with a known one, and a property is read.
// class: Shop.Basket
// access: read
// on Onone: member=payable; confidence=inferred (the class pointer is loaded; optimised code compares it where it is)
// on O, aarch64: member=payable; confidence=inferred (the class pointer is loaded; no instruction compares memory)
@inline(never)
func exactTypeThenRead() {
    let basket = makeBasket()
    drop(basket)
    done(type(of: basket) == Basket.self ? 0 : basket.payable.pay())
}
