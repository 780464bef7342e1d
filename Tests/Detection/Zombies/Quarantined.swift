// The same accesses to objects without pages of their own, as those are that come after the first of their allocation
// context: the words in the dead object tell them, or the fill in it, or nothing.

import Foundation

// case: A method.
// class: Shop.Cart
// access: call
// member: add(_:)
// frame: method
// options: fence_per_context=0
@inline(never)
func methodQuarantined() { method() }

// case: A class method, through the object's class.
// class: Shop.Cart
// access: call
// member: kind()
// frame: classMethod
// options: fence_per_context=0
@inline(never)
func classMethodQuarantined() { classMethod() }

// case: A conditional cast to a subclass.
// class: Shop.Cart
// access: cast|retain
// frame: castConditionally
// options: fence_per_context=0
@inline(never)
func castConditionallyQuarantined() { castConditionally() }

// case: A counted reference is made of one that was not counted.
// class: Shop.Cart
// access: retain
// frame: retainAgain
// options: fence_per_context=0
@inline(never)
func retainAgainQuarantined() { retainAgain() }

// case: One release too many.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged copies its reference first)
// frame: releaseAgain
// options: fence_per_context=0
@inline(never)
func releaseAgainQuarantined() { releaseAgain() }

// case: An unowned reference to it is made.
// class: Shop.Cart
// access: retain
// detail: operation=unowned reference
// on Onone: detail=* (the reference is copied first)
// frame: unownedFormed
// options: fence_per_context=0
@inline(never)
func unownedFormedQuarantined() { unownedFormed() }

// case: A weak reference to it is made.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the reference is copied first)
// frame: weakFormed
// options: fence_per_context=0
@inline(never)
func weakFormedQuarantined() { weakFormed() }

// case: Is it the only reference?
// class: Shop.Cart
// access: read
// detail: operation=uniqueness check
// frame: uniquelyReferenced
// options: fence_per_context=0
@inline(never)
func uniquelyReferencedQuarantined() { uniquelyReferenced() }

// case: A stored reference.
// class: Shop.Basket
// access: read
// member: owner
// frame: referenceRead
// options: fence_per_context=0
@inline(never)
func referenceReadQuarantined() { referenceRead() }

// case: A string of a few characters, stored in place.
// class: Shop.Basket
// access: read
// member: shortName
// frame: smallStringRead
// options: fence_per_context=0
@inline(never)
func smallStringReadQuarantined() { smallStringRead() }

// case: A method of a stored existential.
// class: Shop.Basket
// access: read|call
// member: payable
// frame: existentialRead
// options: fence_per_context=0
@inline(never)
func existentialReadQuarantined() { existentialRead() }

// case: A weak property.
// class: Shop.Basket
// access: read|write
// member: buyer
// frame: weakPropertyRead
// options: fence_per_context=0
@inline(never)
func weakPropertyReadQuarantined() { weakPropertyRead() }

// case: The storage of an array of references, through the array.
// class: Swift._ContiguousArrayStorage<Swift.AnyObject>
// access: read
// frame: arrayStorage
// options: fence_per_context=0
@inline(never)
func arrayStorageQuarantined() { arrayStorage() }

// case: A closure whose context is gone is called.
// class: closure context|box
// access: read|retain|call
// frame: closureContext
// options: fence_per_context=0
@inline(never)
func closureContextQuarantined() { closureContext() }

// case: A method of an actor. Its queue is touched by the runtime, on whatever thread that happens to be.
// class: Shop.Register
// access: call|retain|read|write|unknown
// member: *
// finds: use-after-free|write-after-free
// count: 1-2
// frame: *
// options: fence_per_context=0
@inline(never)
func actorMethodQuarantined() async { await actorMethod() }

// case: An integer is written: noticed when the program ends.
// class: Shop.Basket
// access: write
// member: count
// finds: write-after-free
// options: fence_per_context=0
@inline(never)
func integerWrittenQuarantined() { integerWritten() }

// case: Elements of an array are written through an escaped pointer: noticed when the program ends.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: write
// finds: write-after-free
// options: fence_per_context=0
@inline(never)
func elementsWrittenQuarantined() { elementsWritten() }

// case: A plain value, noticed long before the end because the block leaves the quarantine.
// finds: write-after-free
// class: Shop.Basket
// access: write
// member: count
// options: quarantine_bytes=64k:quarantine_per_context=0:fence_per_context=0
// detail: found_by=eviction
@inline(never)
func writtenAndEvicted() {
    let basket = makeBasket()
    drop(basket)
    basket.count = 11
    for round in 0..<20_000 { if makeBasket().count == round + 4 { break } }
    done(1)
}

// case: An integer is read.
// class: Shop.Basket
// silent: any bytes are a valid integer
// options: fence_per_context=0
@inline(never)
func integerReadQuarantined() { integerRead() }

// case: The payload of an enum that also has one without references.
// class: Shop.Basket
// silent: which case it is stands in a byte of its own, and that of the fill names the one without a reference
// options: fence_per_context=0
@inline(never)
func taggedPayloadReadQuarantined() { taggedPayloadRead() }

// case: A key is looked up in the freed storage of a dictionary.
// class: Swift._DictionaryStorage<Swift.String, Shop.Person>
// silent: a lookup reads a few numbers and one bit, and those of the fill say that there is no such key
// options: fence_per_context=0
@inline(never)
func dictionaryStorageQuarantined() { dictionaryStorage() }
