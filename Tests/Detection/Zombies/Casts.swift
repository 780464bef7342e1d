// Casts, type queries and reflection read the class of a freed object.

import Foundation

// case: The freed object is conditionally cast (as?) to a subclass.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castConditionally() {
    let cart = makeCart()
    drop(cart)
    done((cart as? GiftCart) == nil)
}

// case: The operator `is` tests the freed object against a subclass.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castTested() {
    let cart = makeCart()
    drop(cart)
    done(cart is GiftCart)
}

// case: The freed object is forcibly cast (as!) to a subclass.
// class: Shop.GiftCart
// access: cast|retain
@inline(never)
func castForced() {
    let cart = makeGiftCart()
    drop(cart)
    done(address(cart as! GiftCart) == address(cart))
}

// case: A freed object of static type AnyObject is cast to a class.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castFromAnyObject() {
    let object = makeObject()
    drop(object)
    done((object as? Cart) == nil)
}

// case: A freed object in a value of type Any is cast to a class.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castFromAny() {
    let cart = makeCart()
    let anything: Any = cart
    dropAllReferences(address(cart))
    done(anything is GiftCart)
}

// case: The freed object is cast to a protocol.
// class: Shop.Person
// access: cast|retain
// frame: conformsToPayable
@inline(never)
func castToProtocol() {
    let person = makePerson()
    drop(person)
    done(conformsToPayable(person))
}

// case: The freed object is cast to AnyObject and then to a subclass, as bridging code does.
// class: Shop.Cart
// access: cast|retain
@inline(never)
func castThroughAnyObject() {
    let cart = makeCart()
    drop(cart)
    done((cart as AnyObject) is GiftCart ? 1 : 2)
}

// case: A switch statement matches the freed object against classes.
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

// case: The class of the freed object is printed.
// class: Shop.Cart
// access: cast
// frame: typePrinted|done
@inline(never)
func typePrinted() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart))
}

// case: The name of the freed object's class is formatted.
// class: Shop.Cart
// access: cast
// frame: typeNamed
@inline(never)
func typeNamed() {
    let cart = makeCart()
    drop(cart)
    done(String(reflecting: type(of: cart)))
}

// case: The metatype of the freed object is cast to a subclass's metatype.
// class: Shop.Cart
// access: cast
@inline(never)
func typeTested() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart) is GiftCart.Type)
}

// case: A Mirror reflects the freed object.
// class: Shop.Person
// access: cast|retain|read
@inline(never)
func mirrored() {
    let person = makePerson()
    drop(person)
    done(Mirror(reflecting: person).children.count)
}

// case: The freed object is passed to dump().
// class: Shop.Person
// access: cast|retain|read
@inline(never)
func dumped() {
    let person = makePerson()
    drop(person)
    dump(person)
    done(1)
}

// case: String(describing:) formats the freed object.
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
