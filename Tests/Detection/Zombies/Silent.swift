// Operations on a reference that do not access the freed object, or that only load its class pointer.

import Foundation

// case: The freed object is compared with ===.
// class: Shop.Cart
// access: retain
// on O: silent=the comparison does not access the object (no reference is retained)
// on O, Swift 6.0: silent=-; access=retain|release (a reference is retained)
@inline(never)
func identity() {
    let cart = makeCart()
    let other = makeCart()
    drop(cart)
    done(cart === other)
}

// case: An ObjectIdentifier of the freed object is made.
// class: Shop.Cart
// access: retain
// on O: silent=ObjectIdentifier takes the address and does not access the object (no reference is retained)
// on O, Swift 6.0: silent=-; access=retain|release (a reference is retained)
@inline(never)
func objectIdentifier() {
    let cart = makeCart()
    let identifier = ObjectIdentifier(cart)
    drop(cart)
    done(identifier == ObjectIdentifier(cart))
}

// case: An optional reference is compared with nil. Only the retain or release of the reference is found.
// class: Shop.Cart
// access: release
// on Onone: access=retain (copying the Optional retains the object)
// on Onone, Swift 6.0: silent=no retain or release (the Optional is not copied)
// on Onone, Swift 6.2: silent=no retain or release (the Optional is not copied)
// on O, Swift 6.0: silent=no retain or release (the process exits before the release)
// on O, Swift 6.2: silent=no retain or release (the process exits before the release)
@inline(never)
func nilTest() {
    let cart: Cart? = opaque(makeCart())
    dropReference(addressOfOptional(cart))
    done(cart == nil ? 1 : 2)
}

// case: The address of the freed object is taken.
// silent: the object is not accessed
// class: Shop.Cart
@inline(never)
func addressTaken() {
    let cart = makeCart()
    drop(cart)
    done(Unmanaged.passUnretained(cart).toOpaque() == UnsafeMutableRawPointer(bitPattern: 16))
}

// case: The class of the freed object is compared with a known class.
// class: Shop.Cart
// access: read
// on Onone: access=cast (the class pointer is loaded; optimized code compares it in memory)
// on O, aarch64: access=cast (the class pointer is loaded; no instruction compares with memory)
@inline(never)
func exactType() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart) == Cart.self)
}

// case: The class of the freed object is compared with a known class, and then a property is read.
// class: Shop.Basket
// access: read
// on Onone: access=cast (the class pointer is loaded; optimized code compares it in memory)
// on O, aarch64: access=cast (the class pointer is loaded; no instruction compares with memory)
@inline(never)
func exactTypeThenRead() {
    let basket = makeBasket()
    drop(basket)
    done(type(of: basket) == Basket.self ? 0 : basket.payable.pay())
}
