// A method, initializer, property or subscript of a freed object is called through its vtable or a witness table.

import Foundation

// case: A method is called on the freed object.
// class: Shop.Cart
// access: call
// member: add(_:)
@inline(never)
func method() {
    let cart = makeCart()
    drop(cart)
    done(cart.add(1))
}

// case: An overridden method is called.
// class: Shop.GiftCart
// access: call
// member: add(_:)
@inline(never)
func overriddenMethod() {
    let cart = makeGiftCart()
    drop(cart)
    done(cart.add(1))
}

// case: An inherited method is called.
// class: Shop.GiftCart
// access: call
// member: clear()
@inline(never)
func inheritedMethod() {
    let cart = makeGiftCart()
    drop(cart)
    done(cart.clear())
}

// case: A method with several labeled arguments is called.
// class: Shop.Cart
// access: call
// member: move(from:to:named:weights:)
@inline(never)
func methodWithArguments() {
    let cart = makeCart()
    drop(cart)
    done(cart.move(from: 1, to: 2, named: "shelf", weights: [1, 2]))
}

// case: A generic method is called.
// class: Shop.Cart
// access: call
// member: pick(_:)
@inline(never)
func genericMethod() {
    let cart = makeCart()
    drop(cart)
    done(cart.pick("apple"))
}

// case: A throwing method is called.
// class: Shop.Cart
// access: call
// member: validate()
@inline(never)
func throwingMethod() throws {
    let cart = makeCart()
    drop(cart)
    done(try cart.validate())
}

// case: An async method is called.
// class: Shop.Cart
// access: call
// member: checkout()
@inline(never)
func asyncMethod() async {
    let cart = makeCart()
    drop(cart)
    done(await cart.checkout())
}

// case: A class method is called through the metatype of the freed object.
// class: Shop.Cart
// access: call
// member: kind()
@inline(never)
func classMethod() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart).kind())
}

// case: A required initializer is called through the metatype of the freed object.
// class: Shop.Cart
// access: call
// member: init(total:)
@inline(never)
func requiredInit() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart).init(total: 3).total)
}

// case: The getter of a stored property is called.
// class: Shop.Cart
// access: call|read
// member: total
@inline(never)
func getter() {
    let cart = makeCart()
    drop(cart)
    done(cart.total)
}

// case: The setter of a stored property is called.
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

// case: The getter of a computed property is called.
// class: Shop.Cart
// access: call|read
// member: discount
@inline(never)
func computedGetter() {
    let cart = makeCart()
    drop(cart)
    done(cart.discount)
}

// case: The setter of a computed property is called.
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

// case: The getter of a subscript is called.
// class: Shop.Cart
// access: call|read
// member: subscript(_:)
@inline(never)
func subscriptGetter() {
    let cart = makeCart()
    drop(cart)
    done(cart[2])
}

// case: The setter of a subscript is called.
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

// case: A dynamic member is looked up (@dynamicMemberLookup).
// class: Shop.Cart
// access: call|read
// member: subscript(dynamicMember:)
@inline(never)
func dynamicMember() {
    let cart = makeCart()
    drop(cart)
    done(cart.apples)
}

// case: A protocol requirement is called on an existential.
// class: Shop.Cart
// access: call
// member: pay()
@inline(never)
func existentialCall() {
    let payable: any Payable = makeCart()
    dropReference(addressOfPayable(payable))
    done(payable.pay())
}

// case: A protocol requirement is called on a value of a generic parameter type.
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

// case: A requirement of a class-bound protocol is called on an existential.
// class: Shop.Cart
// access: call
// member: changed(_:)
@inline(never)
func classProtocolCall() {
    let listener: any Listener = makeCart()
    dropReference(addressOfListener(listener))
    done(listener.changed(1))
}

// case: A requirement of a class-bound protocol is called on an existential of a final class, whose method reads a property.
// class: Shop.Alarm
// access: cast
// member: changed(_:)
// frame: count
@inline(never)
func finalClassProtocolCall() {
    let listener: any Listener = makeAlarm()
    dropReference(addressOfListener(listener))
    done(count(listener))
}

@inline(never)
@_optimize(none)
func count(_ listener: any Listener) -> Int { listener.changed(1) }

// case: A protocol extension method calls a requirement.
// class: Shop.Cart
// access: call
// member: pay()
@inline(never)
func extensionMethod() {
    let cart = makeCart()
    drop(cart)
    done(cart.payTwice())
}

// case: An initializer requirement is called through the dynamic type of an existential.
// class: Shop.Cart
// access: call|cast
// member: init(total:)|-
@inline(never)
func existentialInit() {
    let payable: any Payable = makeCart()
    dropReference(addressOfPayable(payable))
    done(type(of: payable).init(total: 2).pay())
}

// case: A bound method reference outlives its object; calling it retains the object before the method runs.
// class: Shop.Cart
// access: retain
// member: add(_:)|-
// on O, Swift 6.0: access=call; member=add(_:) (the object is not retained before the call)
@inline(never)
func methodReference() {
    let cart = makeCart()
    let action = opaque(Action(run: cart.add))
    dropAllReferences(address(cart))
    done(action.run(1))
}

// case: A method is called on an Optional by optional chaining.
// class: Shop.Cart
// access: call
// member: add(_:)
// on Onone: access=retain (copying the Optional retains the object)
@inline(never)
func optionalChain() {
    let cart: Cart? = makeCart()
    dropReference(addressOfOptional(cart))
    done(cart?.add(1) ?? 0)
}

// case: A method of a class with a deinit is called.
// class: Shop.Session
// access: call
// member: touch()
@inline(never)
func sessionCall() {
    let session = makeSession()
    drop(session)
    done(session.touch())
}

// case: The == operator forwards to a method of the class.
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

// case: A sort compares two freed objects with <.
// class: Shop.Cart
// access: call
// member: isLess(than:)
// frame: sortInPlace
// on O: access=call|retain; member=isLess(than:)|- (the sort is inlined and retains the pivot)
// on Onone: access=retain; member=isLess(than:)|- (the sort retains the elements that it copies out of the array)
@inline(never)
func comparable() {
    var carts = [makeCart(), makeCart()]
    dropReference(address(carts[1]))
    dropReference(address(carts[0]))
    sortInPlace(&carts)
    done(carts.count)
}

// case: A dictionary is subscripted with the freed object as the key.
// class: Shop.Cart
// access: call
// member: hash(into:)
// on Onone: access=retain; member=hash(into:)|- (copying the key retains the object)
@inline(never)
func dictionaryKey() {
    let cart = makeCart()
    let prices = [makeCart(): 1]
    drop(cart)
    done(prices[cart] ?? 2)
}

// case: A set is searched for the freed object.
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

// case: A set holds the freed object and compares an inserted object with it.
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

// case: A freed CustomStringConvertible object is printed.
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

// case: The freed object is interpolated into a string.
// class: Shop.Cart
// access: call|read|retain|cast
// member: description|-
@inline(never)
func interpolated() {
    let cart = makeCart()
    drop(cart)
    done("my \(cart)")
}

// case: The property description is read explicitly.
// class: Shop.Cart
// access: call|read
// member: description
@inline(never)
func described() {
    let cart = makeCart()
    drop(cart)
    done(cart.description)
}

// case: The freed object is encoded as JSON.
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

// case: A computed property of the freed object is read through a key path.
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
