// A plain value of a freed object is read. Any bytes are a valid value, so only the access itself can be detected.

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

// case: A Bool is read.
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

// case: A stored optional reference is compared with nil.
// class: Shop.Basket
// access: read
// member: gift
@inline(never)
func storedNilTest() {
    let basket = makeBasket()
    drop(basket)
    done(basket.gift == nil)
}

// case: The bytes of a Data property are read.
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

// case: The payload of an enum is read that has cases with and without a reference.
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
