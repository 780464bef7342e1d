// A method, initializer, property or subscript of a freed object is called through its vtable or a witness table.

import Foundation

// case: A method.
// class: Shop.Cart
// access: call
// member: add(_:)
@inline(never)
func method() {
    let cart = makeCart()
    drop(cart)
    done(cart.add(1))
}

// case: A method that the object's class overrides.
// class: Shop.GiftCart
// access: call
// member: add(_:)
@inline(never)
func overriddenMethod() {
    let cart = makeGiftCart()
    drop(cart)
    done(cart.add(1))
}

// case: A method that the object's class inherits.
// class: Shop.GiftCart
// access: call
// member: clear()
@inline(never)
func inheritedMethod() {
    let cart = makeGiftCart()
    drop(cart)
    done(cart.clear())
}

// case: A method with labels and several arguments.
// class: Shop.Cart
// access: call
// member: move(from:to:named:weights:)
@inline(never)
func methodWithArguments() {
    let cart = makeCart()
    drop(cart)
    done(cart.move(from: 1, to: 2, named: "shelf", weights: [1, 2]))
}

// case: A generic method.
// class: Shop.Cart
// access: call
// member: pick(_:)
@inline(never)
func genericMethod() {
    let cart = makeCart()
    drop(cart)
    done(cart.pick("apple"))
}

// case: A throwing method.
// class: Shop.Cart
// access: call
// member: validate()
@inline(never)
func throwingMethod() throws {
    let cart = makeCart()
    drop(cart)
    done(try cart.validate())
}

// case: An asynchronous method.
// class: Shop.Cart
// access: call
// member: checkout()
@inline(never)
func asyncMethod() async {
    let cart = makeCart()
    drop(cart)
    done(await cart.checkout())
}

// case: A class method, through the object's class.
// class: Shop.Cart
// access: call
// member: kind()
@inline(never)
func classMethod() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart).kind())
}

// case: A required initializer, through the object's class.
// class: Shop.Cart
// access: call
// member: init(total:)
@inline(never)
func requiredInit() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart).init(total: 3).total)
}

// case: The getter of a stored property.
// class: Shop.Cart
// access: call|read
// member: total
@inline(never)
func getter() {
    let cart = makeCart()
    drop(cart)
    done(cart.total)
}

// case: The setter of a stored property.
// class: Shop.Cart
// access: call|write
// member: total
@inline(never)
func setter() {
    let cart = makeCart()
    drop(cart)
    cart.total = 4
    done(1)
}

// case: A stored property is modified in place.
// class: Shop.Cart
// access: call|write
// member: total
@inline(never)
func modify() {
    let cart = makeCart()
    drop(cart)
    cart.total += 4
    done(1)
}

// case: The getter of a computed property.
// class: Shop.Cart
// access: call|read
// member: discount
@inline(never)
func computedGetter() {
    let cart = makeCart()
    drop(cart)
    done(cart.discount)
}

// case: The setter of a computed property.
// class: Shop.Cart
// access: call|write
// member: discount
@inline(never)
func computedSetter() {
    let cart = makeCart()
    drop(cart)
    cart.discount = 2
    done(1)
}

// case: The getter of a subscript.
// class: Shop.Cart
// access: call|read
// member: subscript(_:)
@inline(never)
func subscriptGetter() {
    let cart = makeCart()
    drop(cart)
    done(cart[2])
}

// case: The setter of a subscript.
// class: Shop.Cart
// access: call|write
// member: subscript(_:)
@inline(never)
func subscriptSetter() {
    let cart = makeCart()
    drop(cart)
    cart[2] = 3
    done(1)
}

// case: A dynamic member.
// class: Shop.Cart
// access: call|read
// member: subscript(dynamicMember:)
@inline(never)
func dynamicMember() {
    let cart = makeCart()
    drop(cart)
    done(cart.apples)
}

// case: A requirement of a protocol, on an existential.
// class: Shop.Cart
// access: call
// member: pay()
@inline(never)
func existentialCall() {
    let payable: any Payable = makeCart()
    dropReference(addressOfPayable(payable))
    done(payable.pay())
}

// case: A requirement of a protocol, on a generic parameter.
// class: Shop.Cart
// access: call
// member: pay()
// frame: pay
@inline(never)
func genericCall() {
    let cart = makeCart()
    drop(cart)
    done(pay(cart))
}

// case: A requirement of a protocol for classes.
// class: Shop.Cart
// access: call
// member: changed(_:)
@inline(never)
func classProtocolCall() {
    let listener: any Listener = makeCart()
    dropReference(addressOfListener(listener))
    done(listener.changed(1))
}

// case: A method of a protocol extension, which calls a requirement.
// class: Shop.Cart
// access: call
// member: pay()
@inline(never)
func extensionMethod() {
    let cart = makeCart()
    drop(cart)
    done(cart.payTwice())
}

// case: A static requirement, through the type of an existential.
// class: Shop.Cart
// access: call|cast
// member: init(total:)|-
@inline(never)
func existentialInit() {
    let payable: any Payable = makeCart()
    dropReference(addressOfPayable(payable))
    done(type(of: payable).init(total: 2).pay())
}

// case: A method reference made while the object was alive; the object is retained before its method is called.
// class: Shop.Cart
// access: retain
// member: add(_:)|-
// on O, Swift 6.0: access=call; member=add(_:) (the object is not retained before)
@inline(never)
func methodReference() {
    let cart = makeCart()
    let action = opaque(Action(run: cart.add))
    dropAllReferences(address(cart))
    done(action.run(1))
}

// case: An Optional of the object.
// class: Shop.Cart
// access: call
// member: add(_:)
// on Onone: access=retain (the Optional is copied)
@inline(never)
func optionalChain() {
    let cart: Cart? = makeCart()
    dropReference(addressOfOptional(cart))
    done(cart?.add(1) ?? 0)
}

// case: A method of a class that has an end of its own.
// class: Shop.Session
// access: call
// member: touch()
@inline(never)
func sessionCall() {
    let session = makeSession()
    drop(session)
    done(session.touch())
}

// case: Equality, where the class forwards it to a method.
// class: Shop.Cart
// access: call
// member: isEqual(to:)
// frame: areEqual
@inline(never)
func equatable() {
    let cart = makeCart()
    drop(cart)
    done(areEqual(cart, cart))
}

// case: Order, in a sort.
// class: Shop.Cart
// access: call
// member: isLess(than:)
// frame: sortInPlace
// on O: access=call|retain; member=isLess(than:)|- (the sort is inlined and keeps the pivot)
// on Onone: access=retain; member=isLess(than:)|- (elements are copied out of the array)
@inline(never)
func comparable() {
    var carts = [makeCart(), makeCart()]
    dropReference(address(carts[1]))
    dropReference(address(carts[0]))
    sortInPlace(&carts)
    done(carts.count)
}

// case: A key of a dictionary is looked up.
// class: Shop.Cart
// access: call
// member: hash(into:)
// on Onone: access=retain; member=hash(into:)|- (the key is copied)
@inline(never)
func dictionaryKey() {
    let cart = makeCart()
    let prices = [makeCart(): 1]
    drop(cart)
    done(prices[cart] ?? 2)
}

// case: A member is looked for in a set.
// class: Shop.Cart
// access: call
// member: hash(into:)
@inline(never)
func setContains() {
    let cart = makeCart()
    let carts: Set = [makeCart()]
    drop(cart)
    done(carts.contains(cart))
}

// case: A set holds the freed object, and another one is compared with it.
// class: Shop.Cart
// access: call|retain
// member: isEqual(to:)|-
@inline(never)
func setCompares() {
    let cart = makeCart()
    var carts: Set = [cart]
    let other = makeCart()
    dropAllReferences(address(cart))
    done(carts.update(with: other) != nil)
}

// case: The description of a CustomStringConvertible class.
// class: Shop.Cart
// access: call|read|retain|cast
// member: description|-
@inline(never)
func printed() {
    let cart = makeCart()
    drop(cart)
    print(cart)
    done(1)
}

// case: String interpolation.
// class: Shop.Cart
// access: call|read|retain|cast
// member: description|-
@inline(never)
func interpolated() {
    let cart = makeCart()
    drop(cart)
    done("my \(cart)")
}

// case: A description asked for by name.
// class: Shop.Cart
// access: call|read
// member: description
@inline(never)
func described() {
    let cart = makeCart()
    drop(cart)
    done(cart.description)
}

// case: It is encoded.
// class: Shop.Cart
// access: call|retain|cast
// member: encode(to:)|-
// needs: Foundation
@inline(never)
func encoded() throws {
    let cart = makeCart()
    drop(cart)
    done(try JSONEncoder().encode(cart).count)
}

// case: A key path of a live class, read on the freed object.
// class: Shop.Cart
// access: call|read|retain
// member: discount|-
@inline(never)
func keyPathRead() {
    let path = opaque(\Cart.discount)
    let cart = makeCart()
    drop(cart)
    done(cart[keyPath: path])
}

// MARK: helpers

@inline(never)
@_optimize(none)
func addressOfOptional(_ cart: Cart?) -> UnsafeRawPointer { address(cart!) }

@inline(never)
@_optimize(none)
func addressOfPayable(_ payable: any Payable) -> UnsafeRawPointer { address(payable as AnyObject) }

@inline(never)
@_optimize(none)
func addressOfListener(_ listener: any Listener) -> UnsafeRawPointer { address(listener) }

@inline(never)
func pay<Anything: Payable>(_ payable: Anything) -> Int { payable.pay() }

@inline(never)
func areEqual<Value: Equatable>(_ left: Value, _ right: Value) -> Bool { left == right }

@inline(never)
func sortInPlace(_ carts: inout [Cart]) {
    carts.sort()
}
