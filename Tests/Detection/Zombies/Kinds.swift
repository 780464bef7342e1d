// Freed objects of every kind of class, and freed heap objects that are not class instances (closure contexts, boxes,
// errors).

import Foundation

// case: A method of a generic class is called.
// class: Shop.Box<Swift.Int>
// access: call
// member: get()
@inline(never)
func genericClass() {
    let box = makeBox(7)
    drop(box)
    done(box.get())
}

// case: A method of Box<[String]> is called: a generic class over a struct of another module.
// class: Shop.Box<Swift.Array<Swift.String>>|Shop.Box<[Swift.String]>
// access: call
// member: get()
@inline(never)
func nestedGenericClass() {
    let box = makeBox(["a"])
    drop(box)
    done(box.get().count)
}

// case: A property whose type is the class's generic parameter is read.
// class: Shop.Box<Shop.Person>
// access: read
// member: content
@inline(never)
func genericProperty() {
    let box = makeBox(makePerson())
    drop(box)
    done(box.content.name)
}

// case: A method of a generic class with two parameters is called.
// class: Shop.Pair<Swift.Int, Swift.String>
// access: call
// member: swap()
@inline(never)
func pairClass() {
    let pair = makePair(1, "a")
    drop(pair)
    done(pair.swap().0)
}

// case: A method of a nested class is called.
// class: Shop.Store.Shelf
// access: call
// member: lift()
@inline(never)
func nestedClass() {
    let shelf = makeShelf()
    drop(shelf)
    done(shelf.lift())
}

// case: A method of a class that is nested in an extension is called.
// class: Shop.Store.Shelf.Board
// access: call
// member: width()
@inline(never)
func classInExtension() {
    let board = makeBoard()
    drop(board)
    done(board.width())
}

// case: A method of a private class is called.
// class: Shop.Hidden
// access: call
// member: reveal()
@inline(never)
func privateClass() {
    let hidden = makeHidden()
    drop(hidden)
    done(hidden.reveal())
}

// case: A method of a class that is declared in a function is called.
// class: Shop.Local|Shop.(unknown context).Local|Shop.makeLocal().Local
// access: call
// member: reveal()
@inline(never)
func classInFunction() {
    let local = makeLocal()
    drop(local)
    done(local.reveal())
}

// case: A method of a class with a resilient superclass (Foundation's Operation) is called.
// class: Shop.Job
// access: call
// member: work()
// needs: Foundation
@inline(never)
func resilientSuperclass() {
    let job = makeJob()
    drop(job)
    done(job.work())
}

// case: A method that is inherited from a resilient superclass is called.
// class: Shop.Job
// access: call|read|retain
// member: *
// needs: Foundation
@inline(never)
func resilientMethod() {
    let job = makeJob()
    drop(job)
    job.cancel()
    done(1)
}

// case: A method of an NSObject subclass is called.
// class: Shop.Note
// access: call
// member: read()
// needs: Foundation
@inline(never)
func objectSubclass() {
    let note = makeNote()
    drop(note)
    done(note.read())
}

// case: NSObject's isEqual(_:) is called.
// class: Shop.Note
// access: call
// member: isEqual(_:)
// needs: Foundation
@inline(never)
func objectEquality() {
    let note = makeNote()
    let other = makeNote()
    drop(note)
    done(note.isEqual(other))
}

// case: A freed NSMutableString is appended to.
// class: Foundation.NSMutableString
// access: call|read
// member: *
// needs: Foundation
@inline(never)
func mutableString() {
    let text = makeMutableString()
    drop(text)
    text.append("d")
    done(text.length)
}

// case: A freed NSMutableArray is appended to.
// class: Foundation.NSMutableArray
// access: call
// member: *
// needs: Foundation
@inline(never)
func mutableArray() {
    let array = makeMutableArray()
    drop(array)
    array.add(4)
    done(array.count)
}

// case: A freed NSLock is locked.
// class: Foundation.NSLock
// access: call|read
// member: *
// needs: Foundation
// on Onone, Swift 6.0: alloc=* (Foundation's initializer has no CFI in this release, so the stack lacks its caller)
// on O, Swift 6.0: alloc=* (Foundation's initializer has no CFI in this release, so the stack lacks its caller)
@inline(never)
func lock() {
    let lock = makeLock()
    drop(lock)
    lock.lock()
    done(1)
}

// case: A freed JSONDecoder decodes an array.
// class: Foundation.JSONDecoder|FoundationEssentials.JSONDecoder
// access: call|read|retain
// member: *
// needs: Foundation
@inline(never)
func jsonDecoder() throws {
    let decoder = makeDecoder()
    let text = Data("[1,2]".utf8)
    drop(decoder)
    done(try decoder.decode([Int].self, from: text))
}

// case: A property of a freed DateFormatter is set.
// class: Foundation.DateFormatter
// access: call|write
// member: *
// needs: Foundation
// on Onone, Swift 6.0: alloc=* (Foundation's initializer has no CFI in this release, so the stack lacks its caller)
// on O, Swift 6.0: alloc=* (Foundation's initializer has no CFI in this release, so the stack lacks its caller)
@inline(never)
func dateFormatter() {
    let formatter = makeFormatter()
    drop(formatter)
    formatter.dateFormat = "yyyy"
    done(formatter.string(from: Date(timeIntervalSince1970: 0)))
}

// case: A property of a freed Foundation Thread is set.
// class: Foundation.Thread
// access: call|write
// member: *
// needs: Foundation
@inline(never)
func threadObject() {
    let thread = makeThread()
    drop(thread)
    thread.name = "worker"
    done(1)
}

// case: The value of a freed NSNumber is read.
// class: Foundation.NSNumber
// access: call|read
// member: *
// needs: Foundation
@inline(never)
func number() {
    let number = makeNumber()
    dropAllReferences(address(number))
    done(number.intValue)
}

// case: An array of references reads its freed storage.
// class: Swift._ContiguousArrayStorage<Swift.AnyObject>
// access: read
// member: countAndCapacity
@inline(never)
func arrayStorage() {
    let people = makePeople()
    dropReference(storage(of: people))
    done(people[1].name)
}

// case: An array of integers is mutated; the uniqueness check reads its freed storage.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: read
// detail: operation=uniqueness check
@inline(never)
func arrayStorageChanged() {
    var numbers = makeNumbers()
    dropReference(storage(of: numbers))
    numbers[1] = 3
    done(numbers[1])
}

// case: An array of integers is copied, which retains its freed storage.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: retain
// on O, Swift 6.0: silent=the reference is moved into the box (without a retain)
// on O, Swift 6.2: silent=the reference is moved into the box (without a retain)
@inline(never)
func arrayStorageCopied() {
    let numbers = makeNumbers()
    dropReference(storage(of: numbers))
    let box = makeBox([0])
    box.content = numbers
    done(1)
}

// case: An escaped pointer reads an element of a freed array of references.
// class: Swift._ContiguousArrayStorage<Swift.AnyObject>
// access: read
@inline(never)
func escapedBuffer() {
    let people = makePeople()
    let buffer = people.withUnsafeBufferPointer { $0 }
    dropReference(storage(of: people))
    done(opaque(buffer)[2].name)
}

// case: An escaped pointer reads an element of a freed array of integers.
// class: Swift._ContiguousArrayStorage<Swift.Int>
// access: read
@inline(never)
func elementRead() {
    let numbers = makeNumbers()
    let buffer = numbers.withUnsafeBufferPointer { $0 }
    dropReference(storage(of: numbers))
    done(opaque(buffer)[3])
}

// case: A key is looked up in the freed storage of a dictionary.
// class: Swift._DictionaryStorage<Swift.String, Shop.Person>
// access: read
// member: _count
@inline(never)
func dictionaryStorage() {
    let prices = makePrices()
    dropReference(unsafeBitCast(prices, to: UnsafeRawPointer.self))
    done(prices["pear"]?.name ?? "none")
}

// case: A dictionary with freed storage is mutated.
// class: Swift._DictionaryStorage<Swift.String, Shop.Person>
// access: read|retain
@inline(never)
func dictionaryStorageChanged() {
    var prices = makePrices()
    let person = makePerson()
    dropReference(unsafeBitCast(prices, to: UnsafeRawPointer.self))
    prices["pear"] = person
    done(prices.count)
}

// case: A set with freed storage is searched for a member.
// class: Swift._SetStorage<Swift.String>
// access: read
// member: _count
@inline(never)
func setStorage() {
    let tags = makeTags()
    dropReference(unsafeBitCast(tags, to: UnsafeRawPointer.self))
    done(tags.contains("pear"))
}

// case: A loop iterates over a set with freed storage.
// class: Swift._SetStorage<Swift.String>
// access: read
// member: _scale
// on Onone: access=retain; member=_scale|- (copying the set retains its storage)
@inline(never)
func setStorageLoop() {
    let tags = makeTags()
    dropReference(unsafeBitCast(tags, to: UnsafeRawPointer.self))
    var length = 0
    for tag in tags { length += tag.count }
    done(length)
}

// case: A string is copied, which retains its freed storage.
// class: Swift.__StringStorage
// access: retain
// on O, Swift 6.0: silent=the reference is moved into the box (without a retain)
// on O, Swift 6.2: silent=the reference is moved into the box (without a retain)
@inline(never)
func stringStorage() {
    let text = makeText()
    dropReference(storage(of: text))
    let box = makeBox("")
    box.content = text
    done(1)
}

// case: A string with freed storage is appended to.
// class: Swift.__StringStorage
// access: read|retain
// member: *
@inline(never)
func stringStorageChanged() {
    var text = makeText()
    dropReference(storage(of: text))
    text += "more"
    done(text.count)
}

// case: An escaped pointer reads a character of a freed string.
// class: Swift.__StringStorage
// access: read
@inline(never)
func charactersRead() {
    var text = makeText()
    let buffer = text.withUTF8 { $0 }
    dropReference(storage(of: text))
    done(opaque(buffer)[3])
}

// case: An element of a freed ManagedBuffer is read.
// class: Shop.Samples
// access: cast|read
// member: *
@inline(never)
func managedBuffer() {
    let samples = makeSamples()
    drop(samples)
    done(samples.withUnsafeMutablePointerToElements { $0[2].name })
}

// case: A closure whose context was freed is called.
// class: closure context|box
// access: retain
// on O, Swift 6.0: access=read (the context is not retained before the call)
@inline(never)
func closureContext() {
    let action = makeAction()
    dropReference(context(of: action))
    done(action.run(1))
}

// case: The box of a variable that two closures capture is freed, and one of them is called.
// class: closure context|box
// access: retain
// on O, Swift 6.0: access=read (the context is not retained before the call)
@inline(never)
func capturedVariable() {
    let (action, other) = makeCounter()
    dropAllReferences(context(of: action))
    kept.append(Box(other))
    done(action.run(1))
}

// case: A freed error box is formatted.
// class: boxed error
// access: read
// on Onone: access=retain (copying the error retains its box)
@inline(never)
func errorBox() {
    let failure = makeFailure()
    dropReference(unsafeBitCast(failure, to: UnsafeRawPointer.self))
    done("\(failure.error)")
}

// case: The payload of an indirect enum whose box was freed is read.
// class: indirect enum Shop.Payment
// access: read
// on Onone: access=retain (copying the payload retains its box)
@inline(never)
func indirectEnum() {
    let payment = makePayment()
    dropReference(indirection(of: payment))
    if case .split(.card(let person), _) = payment { done(person.name) }
    done("none")
}

// case: A freed KeyPath object is used to read a property.
// class: Swift.KeyPath<Shop.Person, Swift.Int>
// access: read|call|retain|cast
// member: *
@inline(never)
func keyPathObject() {
    let person = makePerson()
    let path = makeKeyPath()
    dropAllReferences(address(path))
    done(person[keyPath: path] != 0)
}

// MARK: helpers

@inline(never)
@_optimize(none)
func storage<Element>(of array: [Element]) -> UnsafeRawPointer { unsafeBitCast(array, to: UnsafeRawPointer.self) }

@inline(never)
@_optimize(none)
func storage(of text: String) -> UnsafeRawPointer {
    UnsafeRawPointer(bitPattern: unsafeBitCast(text, to: (UInt, UInt).self).1 & 0x0fff_ffff_ffff_ffff)!
}

@inline(never)
@_optimize(none)
func indirection(of payment: Payment) -> UnsafeRawPointer {
    UnsafeRawPointer(bitPattern: withUnsafeBytes(of: payment) { $0.load(as: UInt.self) } & 0x0000_ffff_ffff_fff8)!
}

@inline(never)
@_optimize(none)
func context(of action: Action) -> UnsafeRawPointer {
    UnsafeRawPointer(bitPattern: unsafeBitCast(action, to: (UInt, UInt).self).1)!
}
