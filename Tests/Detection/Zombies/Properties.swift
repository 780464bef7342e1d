// A reference is loaded directly from a stored property of a freed object, and is then followed.

import Foundation

// case: A property of a referenced object is read.
// class: Shop.Basket
// access: read
// member: owner
@inline(never)
func referenceRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.owner.name)
}

// case: A method of a referenced object is called.
// class: Shop.Basket
// access: read
// member: owner
@inline(never)
func referenceCalled() {
    let basket = makeBasket()
    drop(basket)
    done(basket.owner.greet())
}

// case: An optional reference is unwrapped.
// class: Shop.Basket
// access: read
// member: gift
@inline(never)
func optionalRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.gift?.name ?? "none")
}

// case: A small string, stored inline, is read.
// class: Shop.Basket
// access: read
// member: shortName
@inline(never)
func smallStringRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.shortName + "!")
}

// case: A large string, stored out of line, is read.
// class: Shop.Basket
// access: read
// member: longName
@inline(never)
func largeStringRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.longName.count)
}

// case: The count of an array is read.
// class: Shop.Basket
// access: read
// member: items
@inline(never)
func arrayCount() {
    let basket = makeBasket()
    drop(basket)
    done(basket.items.count)
}

// case: An array element is read.
// class: Shop.Basket
// access: read
// member: items
@inline(never)
func arrayElement() {
    let basket = makeBasket()
    drop(basket)
    done(basket.items[1])
}

// case: An array is appended to.
// class: Shop.Basket
// access: read|write
// member: items
@inline(never)
func arrayAppend() {
    let basket = makeBasket()
    drop(basket)
    basket.items.append(4)
    done(1)
}

// case: A loop iterates over an array of references.
// class: Shop.Basket
// access: read
// member: people
@inline(never)
func arrayLoop() {
    let basket = makeBasket()
    drop(basket)
    var length = 0
    for person in basket.people { length += person.name.count }
    done(length)
}

// case: A key is looked up in a dictionary.
// class: Shop.Basket
// access: read
// member: prices
@inline(never)
func dictionaryLookup() {
    let basket = makeBasket()
    drop(basket)
    done(basket.prices["apple"] ?? 0)
}

// case: A member is looked up in a set.
// class: Shop.Basket
// access: read
// member: tags
@inline(never)
func setLookup() {
    let basket = makeBasket()
    drop(basket)
    done(basket.tags.contains("new"))
}

// case: A closure property is called.
// class: Shop.Basket
// access: read
// member: action
@inline(never)
func closureCall() {
    let basket = makeBasket()
    drop(basket)
    done(basket.action(1))
}

// case: A method is called on an existential property.
// class: Shop.Basket
// access: read
// member: payable
@inline(never)
func existentialRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.payable.pay())
}

// case: The payload of an enum property is read.
// class: Shop.Basket
// access: read
// member: payment
@inline(never)
func payloadRead() {
    let basket = makeBasket()
    drop(basket)
    if case .card(let person) = basket.payment { done(person.name) }
    done("free")
}

// case: A reference in a tuple property is followed.
// class: Shop.Basket
// access: read
// member: pair
@inline(never)
func tupleRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.pair.1.name)
}

// case: A reference in a struct property is followed.
// class: Shop.Basket
// access: read
// member: price
@inline(never)
func structRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.price.owner.name)
}

// case: A weak property is read.
// class: Shop.Basket
// access: read|write
// member: buyer
@inline(never)
func weakPropertyRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.buyer?.name ?? "none")
}

// case: A weak property is set.
// class: Shop.Basket
// access: read|write
// member: buyer
@inline(never)
func weakPropertySet() {
    let basket = makeBasket()
    drop(basket)
    basket.buyer = nil
    done(1)
}

// case: An unowned property is read.
// class: Shop.Basket
// access: read
// member: seller
@inline(never)
func unownedPropertyRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.seller.name)
}

// case: A lazy property that was initialized is read.
// class: Shop.Basket
// access: read
// member: summary
@inline(never)
func lazyRead() {
    let basket = makeBasket()
    _ = basket.summary
    drop(basket)
    done(basket.summary.count)
}

// case: A property of type Any is cast.
// class: Shop.Basket
// access: read
// member: anything
@inline(never)
func anyRead() {
    let basket = makeBasket()
    drop(basket)
    done((basket.anything as? Person)?.name ?? "none")
}

// case: A property of type AnyObject is cast.
// class: Shop.Basket
// access: read
// member: object
@inline(never)
func anyObjectRead() {
    let basket = makeBasket()
    drop(basket)
    done((basket.object as? Person)?.name ?? "none")
}

// case: A URL property is read.
// class: Shop.Basket
// access: read
// member: link
// needs: Foundation
@inline(never)
func urlRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.link.lastPathComponent)
}

// case: An error property is formatted.
// class: Shop.Basket
// access: read
// member: error
@inline(never)
func errorRead() {
    let basket = makeBasket()
    drop(basket)
    done("\(basket.error)")
}

// case: An element of a ContiguousArray property is read.
// class: Shop.Basket
// access: read
// member: list
@inline(never)
func contiguousArrayRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.list[0].name)
}

// case: A key path stored in the freed object is used.
// class: Shop.Basket
// access: read
// member: path
@inline(never)
func storedKeyPathRead() {
    let person = makePerson()
    let basket = makeBasket()
    drop(basket)
    done(person[keyPath: basket.path])
}

// case: A property of the superclass is read.
// class: Shop.Basket
// access: read
// member: origin
// on Onone: access=retain (the upcast to Container retains the object)
@inline(never)
func superclassPropertyRead() {
    let basket = makeBasket()
    drop(basket)
    done(basket.origin.name)
}

// case: A method of a final class is called directly; it reads a property.
// class: Shop.Basket
// access: read
// member: owner
@inline(never)
func finalMethod() {
    let basket = makeBasket()
    drop(basket)
    done(basket.ownerName())
}

// case: A key path through a stored reference is read on the freed object.
// class: Shop.Basket
// access: read|retain
// member: owner|-
@inline(never)
func keyPathToStored() {
    let path = opaque(\Basket.owner.name)
    let basket = makeBasket()
    drop(basket)
    done(basket[keyPath: path])
}

// case: A reference is replaced, which releases the old one.
// class: Shop.Basket
// access: read|write|release
// member: owner
@inline(never)
func referenceSet() {
    let person = makePerson()
    let basket = makeBasket()
    drop(basket)
    basket.owner = person
    done(1)
}

// case: A string is replaced, which releases the old one.
// class: Shop.Basket
// access: read|write|release
// member: longName
@inline(never)
func stringSet() {
    let basket = makeBasket()
    let text = makeText()
    drop(basket)
    basket.longName = text
    done(1)
}

// case: A string is appended to in place.
// class: Shop.Basket
// access: read|write
// member: longName
@inline(never)
func stringAppend() {
    let basket = makeBasket()
    drop(basket)
    basket.longName += "more"
    done(1)
}
