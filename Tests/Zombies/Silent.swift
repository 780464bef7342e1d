// Accesses that nothing tells from those to a live object. A finding, should there be one, has to name the right class.

import Foundation

// case: Identity.
// silent: compares two references; the object is not touched
// class: Shop.Cart
@inline(never)
func identity() {
    let cart = makeCart()
    let other = makeCart()
    drop(cart)
    done(cart === other)
}

// case: ObjectIdentifier.
// silent: is made of the reference; the object is not touched
// class: Shop.Cart
@inline(never)
func objectIdentifier() {
    let cart = makeCart()
    let identifier = ObjectIdentifier(cart)
    drop(cart)
    done(identifier == ObjectIdentifier(cart))
}

// case: Is an optional reference nil?
// silent: looks at the reference; the object is not touched
// class: Shop.Cart
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
// silent: reads the class pointer and compares it; nothing is read through it
// class: Shop.Cart
@inline(never)
func exactType() {
    let cart = makeCart()
    drop(cart)
    done(type(of: cart) == Cart.self)
}

// case: An integer is read.
// silent: any bytes are a valid integer
// class: Shop.Basket
@inline(never)
func integerRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.count)
}

// case: A floating-point number is read.
// silent: any bytes are a valid number
// class: Shop.Basket
@inline(never)
func doubleRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.tax)
}

// case: A truth value is read.
// silent: one bit of any byte is a valid truth value
// class: Shop.Basket
@inline(never)
func boolRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.isOpen)
}

// case: A struct of plain values is read.
// silent: any bytes are valid numbers
// class: Shop.Basket
@inline(never)
func plainStructRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.size.width)
}

// case: An element of a freed array of numbers is read.
// silent: any bytes are a valid integer
// class: Swift._ContiguousArrayStorage<Swift.Int>
@inline(never)
func elementRead() {
    let numbers = makeNumbers()
    let buffer = numbers.withUnsafeBufferPointer { $0 }
    dropReference(storage(of: numbers))
    done(opaque(buffer)[3])
}

// case: Whether an optional reference of a freed object is nil.
// silent: looks at the stored reference without following it
// class: Shop.Basket
@inline(never)
func storedNilTest() {
    let basket = makeBasket()
    drop(basket)
    done(basket.gift == nil)
}

// case: Characters of a freed string through an escaped pointer.
// silent: any bytes are characters
// class: Swift.__StringStorage
@inline(never)
func charactersRead() {
    var text = makeText()
    let buffer = text.withUTF8 { $0 }
    dropReference(storage(of: text))
    done(opaque(buffer)[3])
}

// case: The bytes of Data.
// class: Shop.Basket
// silent: which of its forms it has is told by a few bits, and those of the fill say that it is empty
@inline(never)
func dataRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.data.reduce(0) { $0 + Int($1) })
}

// case: A finished task is cancelled through a handle that does not own it.
// class: Swift.Task
// silent: what the runtime reads of it are flags and a lock
@inline(never)
func taskHandle() async {
    let task = makeTask()
    _ = await task.value
    dropAllReferences(unsafeBitCast(task, to: UnsafeRawPointer.self))
    task.cancel()
    done(1)
}

// case: The payload of an enum that also has one without references.
// silent: which case it is stands in a byte of its own, and that of the fill names the one without a reference
// class: Shop.Basket
@inline(never)
func taggedPayloadRead() {
    let basket = makeBasket()
    drop(basket)
    if case .voucher(let person) = basket.ticket { done(person.name) }
    done("price")
}
