// A plain value of a freed object is written. Quarantined.swift has those that are noticed when the fill is verified.

import Foundation

// case: An integer.
// class: Shop.Basket
// access: write
// member: count
@inline(never)
func integerWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.count = 11
    done(1)
}

// case: An integer is counted up.
// class: Shop.Basket
// access: write
// member: count
// on Onone: access=read (it is loaded, counted up and stored)
// on O, aarch64: access=read (no instruction counts in memory)
@inline(never)
func integerCounted() {
    let basket = makeBasket()
    drop(basket)
    basket.count &+= 1
    done(1)
}

// case: A floating-point number.
// class: Shop.Basket
// access: write
// member: tax
@inline(never)
func doubleWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.tax = 0.5
    done(1)
}

// case: A truth value.
// class: Shop.Basket
// access: write
// member: isOpen
@inline(never)
func boolWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.isOpen = false
    done(1)
}

// case: A struct of plain values.
// class: Shop.Basket
// access: write
// member: size
@inline(never)
func structWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.size = Extent(width: 3, height: 4)
    done(1)
}

// case: A plain value inside a struct with a reference.
// class: Shop.Basket
// access: write
// member: price
@inline(never)
func structFieldWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.price.cents = 99
    done(1)
}

// case: A plain value of the superclass.
// class: Shop.Basket
// access: write
// member: weight
// on Onone: access=retain (the reference is copied to call it a Container)
@inline(never)
func superclassFieldWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.weight = 5
    done(1)
}

// case: An escaped pointer to a property.
// class: Shop.Basket
// access: write
// member: count
@inline(never)
func pointerWritten() {
    let basket = makeBasket()
    let pointer = pointerTo(&basket.count)
    drop(basket)
    opaque(pointer).pointee = 12
    done(1)
}

// case: An escaped pointer to the elements of an array.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: write
@inline(never)
func elementsWritten() {
    var numbers = makeNumbers()
    let buffer = numbers.withUnsafeMutableBufferPointer { $0 }
    dropReference(storage(of: numbers))
    opaque(buffer)[3] = 12
    done(1)
}

// MARK: helpers

@inline(never)
@_optimize(none)
func pointerTo(_ value: UnsafeMutablePointer<Int>) -> UnsafeMutablePointer<Int> { value }
