// A plain value of a freed object is written. Quarantined.swift has the writes that are found by checking the fill.

import Foundation

// case: An integer is written.
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

// case: An integer is incremented.
// class: Shop.Basket
// access: write
// member: count
// on Onone: access=read (the integer is loaded, incremented and stored)
// on O, aarch64: access=read (the integer is loaded before it is incremented)
@inline(never)
func integerCounted() {
    let basket = makeBasket()
    drop(basket)
    basket.count &+= 1
    done(1)
}

// case: A floating-point number is written.
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

// case: A Bool is written.
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

// case: A struct of plain values is written.
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

// case: A plain value in a struct that also holds a reference is written.
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

// case: A plain value of the superclass is written.
// class: Shop.Basket
// access: write
// member: weight
// on Onone: access=retain (the upcast to Container retains the object)
@inline(never)
func superclassFieldWritten() {
    let basket = makeBasket()
    drop(basket)
    basket.weight = 5
    done(1)
}

// case: A property is written through an escaped pointer.
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

// case: An array element is written through an escaped pointer.
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
