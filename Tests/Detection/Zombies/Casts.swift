// The class of a freed object is asked for.

import Foundation

// case: A conditional cast to a subclass.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castConditionally() {
    let cart = makeCart()
    drop(cart)
    done((cart as? GiftCart) == nil)
}

// case: Is it one of a subclass?
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castTested() {
    let cart = makeCart()
    drop(cart)
    done(cart is GiftCart)
}

// case: A forced cast to a subclass.
// class: Shop.GiftCart
// access: cast|retain
@inline(never)
func castForced() {
    let cart = makeGiftCart()
    drop(cart)
    done(address(cart as! GiftCart) == address(cart))
}

// case: A cast of AnyObject to a class.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castFromAnyObject() {
    let object = makeObject()
    drop(object)
    done((object as? Cart) == nil)
}

// case: A cast of Any to a class.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castFromAny() {
    let cart = makeCart()
    let anything: Any = cart
    dropAllReferences(address(cart))
    done(anything is GiftCart)
}

// case: A cast to a protocol.
// class: Shop.Person
// access: cast|retain
// frame: conformsToPayable
@inline(never)
func castToProtocol() {
    let person = makePerson()
    drop(person)
    done(conformsToPayable(person))
}

// case: A cast to AnyObject and on to a class, as bridging code does it.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castThroughAnyObject() {
    let cart = makeCart()
    drop(cart)
    done((cart as AnyObject) is GiftCart ? 1 : 2)
}

// case: A switch over classes.
// class: Shop.Person
// access: cast|retain
@inline(never)
func castInSwitch() {
    let person = makePerson()
    drop(person)
    switch person {
    case is Clerk: done(1)
    default: done(2)
    }
}

// case: Its class is printed.
// class: Shop.Cart
// access: cast
// frame: typePrinted|done
@inline(never)
func typePrinted() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart))
}

// case: The name of its class.
// class: Shop.Cart
// access: cast
// frame: typeNamed
@inline(never)
func typeNamed() {
    let cart = makeCart()
    drop(cart)
    done(String(reflecting: type(of: cart)))
}

// case: Its class is compared with that of another object, as a subclass.
// class: Shop.Cart
// access: cast
@inline(never)
func typeTested() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart) is GiftCart.Type)
}

// case: A mirror of it.
// class: Shop.Person
// access: cast|retain|read
@inline(never)
func mirrored() {
    let person = makePerson()
    drop(person)
    done(Mirror(reflecting: person).children.count)
}

// case: It is dumped.
// class: Shop.Person
// access: cast|retain|read
@inline(never)
func dumped() {
    let person = makePerson()
    drop(person)
    dump(person)
    done(1)
}

// case: A string that describes it.
// class: Shop.Waitress
// access: cast|retain
@inline(never)
func stringDescribes() {
    let waitress = makeWaitress()
    drop(waitress)
    done(String(describing: waitress))
}

// MARK: helpers

@inline(never)
@_optimize(none)
func makeObject() -> AnyObject { makeCart() }

@inline(never)
func conformsToPayable<Object: AnyObject>(_ object: Object) -> Bool { object is any Payable }
