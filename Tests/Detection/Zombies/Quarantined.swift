// Accesses to freed objects in the quarantine (isolated_per_context=0; by default the first object of a context is an
// isolated block). Trap words or the fill in the freed object reveal most accesses; some are not detected.

import Foundation

// case: A method is called.
// class: Shop.Cart
// access: call
// member: add(_:)
// frame: method
// options: isolated_per_context=0
@inline(never)
func methodQuarantined() { method() }

// case: A class method is called through the metatype of the freed object.
// class: Shop.Cart
// access: call
// member: kind()
// frame: classMethod
// options: isolated_per_context=0
@inline(never)
func classMethodQuarantined() { classMethod() }

// case: The freed object is conditionally cast (as?) to a subclass.
// class: Shop.Cart
// access: cast|retain
// frame: castConditionally
// options: isolated_per_context=0
@inline(never)
func castConditionallyQuarantined() { castConditionally() }

// case: The object of an Unmanaged reference is retained.
// class: Shop.Cart
// access: retain
// frame: retainAgain
// options: isolated_per_context=0
@inline(never)
func retainAgainQuarantined() { retainAgain() }

// case: An object is over-released.
// class: Shop.Cart
// access: release
// on Onone: access=retain (Unmanaged retains the object first)
// frame: releaseAgain
// options: isolated_per_context=0
@inline(never)
func releaseAgainQuarantined() { releaseAgain() }

// case: An unowned reference to the freed object is created.
// class: Shop.Cart
// access: retain
// detail: operation=unowned reference
// on Onone: detail=* (the object is retained first)
// frame: unownedFormed
// options: isolated_per_context=0
@inline(never)
func unownedFormedQuarantined() { unownedFormed() }

// case: A weak reference to the freed object is created.
// class: Shop.Cart
// access: retain
// detail: operation=weak reference
// on Onone: detail=* (the object is retained first)
// frame: weakFormed
// options: isolated_per_context=0
@inline(never)
func weakFormedQuarantined() { weakFormed() }

// case: isKnownUniquelyReferenced() reads the reference count of the freed object.
// class: Shop.Cart
// access: read
// detail: operation=uniqueness check
// frame: uniquelyReferenced
// options: isolated_per_context=0
@inline(never)
func uniquelyReferencedQuarantined() { uniquelyReferenced() }

// case: A stored reference is followed.
// class: Shop.Basket
// access: read
// member: owner
// frame: referenceRead
// options: isolated_per_context=0
@inline(never)
func referenceReadQuarantined() { referenceRead() }

// case: A small string, stored inline, is read.
// class: Shop.Basket
// access: read
// member: shortName
// frame: smallStringRead
// options: isolated_per_context=0
@inline(never)
func smallStringReadQuarantined() { smallStringRead() }

// case: A method is called on an existential property.
// class: Shop.Basket
// access: read|call
// member: payable
// frame: existentialRead
// options: isolated_per_context=0
@inline(never)
func existentialReadQuarantined() { existentialRead() }

// case: A weak property is read.
// class: Shop.Basket
// access: read|write
// member: buyer
// frame: weakPropertyRead
// options: isolated_per_context=0
@inline(never)
func weakPropertyReadQuarantined() { weakPropertyRead() }

// case: An array of references reads its freed storage.
// class: Swift._ContiguousArrayStorage<Swift.AnyObject>
// access: read
// frame: arrayStorage
// options: isolated_per_context=0
@inline(never)
func arrayStorageQuarantined() { arrayStorage() }

// case: A closure whose context was freed is called.
// class: closure context|box
// access: read|retain|call
// frame: closureContext
// options: isolated_per_context=0
@inline(never)
func closureContextQuarantined() { closureContext() }

// case: An actor method is called. The Swift runtime accesses the actor's job queue, on any thread.
// class: Shop.Register
// access: call|retain|read|write|unknown
// member: *
// finds: use-after-free|write-after-free
// count: 1-2
// frame: *
// options: isolated_per_context=0
@inline(never)
func actorMethodQuarantined() async { await actorMethod() }

// case: An integer is written; the write is found when the fill is verified at exit.
// class: Shop.Basket
// access: write
// member: count
// finds: write-after-free
// options: isolated_per_context=0
@inline(never)
func integerWrittenQuarantined() { integerWritten() }

// case: An array element is written through an escaped pointer; the write is found at exit.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: write
// finds: write-after-free
// options: isolated_per_context=0
@inline(never)
func elementsWrittenQuarantined() { elementsWritten() }

// case: An integer is written; the write is found when the block is evicted from the quarantine.
// finds: write-after-free
// class: Shop.Basket
// access: write
// member: count
// options: quarantine_bytes=64k:quarantine_per_context=0:isolated_per_context=0
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
// options: isolated_per_context=0
@inline(never)
func integerReadQuarantined() { integerRead() }

// case: The payload of an enum is read that has cases with and without a reference.
// class: Shop.Basket
// silent: a tag byte selects the case, and the fill byte selects the case without a reference
// options: isolated_per_context=0
@inline(never)
func taggedPayloadReadQuarantined() { taggedPayloadRead() }

// case: A key is looked up in the freed storage of a dictionary.
// class: Swift._DictionaryStorage<Swift.String, Shop.Person>
// silent: a lookup reads a few integers and one bit, and as read from the fill they mean that the key is absent
// options: isolated_per_context=0
@inline(never)
func dictionaryStorageQuarantined() { dictionaryStorage() }
