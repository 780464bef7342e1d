// A plain value of a freed object is read: any bytes are valid, so that nothing but the access itself tells.

import Foundation

// case: An integer is read.
// class: Shop.Basket
// access: read
// member: count
@inline(never)
func integerRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.count)
}

// case: A floating-point number is read.
// class: Shop.Basket
// access: read
// member: tax
@inline(never)
func doubleRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.tax)
}

// case: A truth value is read.
// class: Shop.Basket
// access: read
// member: isOpen
@inline(never)
func boolRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.isOpen)
}

// case: A struct of plain values is read.
// class: Shop.Basket
// access: read
// member: size
@inline(never)
func plainStructRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.size.width)
}

// case: Whether an optional reference of a freed object is nil.
// class: Shop.Basket
// access: read
// member: gift
@inline(never)
func storedNilTest() {
    let basket = makeBasket()
    drop(basket)
    done(basket.gift == nil)
}

// case: The bytes of Data.
// class: Shop.Basket
// access: read
// member: data
// needs: Foundation
@inline(never)
func dataRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.data.reduce(0) { $0 + Int($1) })
}

// case: The payload of an enum that also has one without references.
// class: Shop.Basket
// access: read
// member: ticket
@inline(never)
func taggedPayloadRead() {
    let basket = makeBasket()
    drop(basket)
    if case .voucher(let person) = basket.ticket { done(person.name) }
    done("price")
}
