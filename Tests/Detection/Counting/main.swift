// Programs for counting.py: most cases retain and release objects in a known order, and end with an over-release.

import Glibc

class Item {
    var count = 0
    @inline(never) func add() { count += 1 }
}
final class Cart: Item {}
final class Basket<Element>: Item {}
enum Shelf { final class Book: Item {} }

// Never inlined, so that each retain and release has a known frame in its stack.
@inline(never) func retain(_ object: Unmanaged<Item>) { _ = object.retain() }
@inline(never) func release(_ object: Unmanaged<Item>) { object.release() }
@inline(never) func make(_ kind: String) -> Unmanaged<Item> {
    switch kind {
    case "basket": .passRetained(Basket<Int>())
    case "book": .passRetained(Shelf.Book())
    case "item": .passRetained(Item())
    default: .passRetained(Cart())
    }
}

/// Over-releases an object: allocated, retained once, released three times.
@inline(never) func overRelease(_ kind: String) {
    let object = make(kind)
    retain(object)
    release(object)
    release(object)
    release(object)
}

/// Allocates and frees many objects at the same addresses before the over-release.
@inline(never) func reuse() {
    for _ in 0..<10_000 {
        let object = make("cart")
        retain(object)
        release(object)
        release(object)
    }
    overRelease("cart")
}

/// One thread retains the object, and another thread over-releases it.
@inline(never) func threads() {
    let object = make("cart")
    var thread = pthread_t()
    pthread_create(
        &thread, nil,
        { argument in
            retain(Unmanaged<Item>.fromOpaque(argument!))
            return nil
        }, object.toOpaque())
    pthread_join(thread, nil)
    release(object)
    release(object)
    release(object)
}

/// Reads a weak and an unowned reference to the object before it is freed.
@inline(never) func references() {
    let object = make("cart")
    weak var link = object.takeUnretainedValue()
    unowned let owner = object.takeUnretainedValue()
    readWeak(&link)
    readUnowned(owner)
    release(object)
    release(object)
}
@inline(never) func readWeak(_ link: inout Item?) { link?.add() }
@inline(never) func readUnowned(_ owner: Item) { owner.add() }

/// Four threads retain and release strings, arrays, closures and existentials; the output is always the same.
@inline(never) func workload() {
    var threads: [pthread_t] = []
    for number in 0..<4 {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { argument in
                UnsafeMutableRawPointer(bitPattern: work(Int(bitPattern: argument)))
            }, UnsafeMutableRawPointer(bitPattern: number + 1))
        threads.append(thread)
    }
    for thread in threads {
        var result: UnsafeMutableRawPointer?
        pthread_join(thread, &result)
        print(Int(bitPattern: result))
    }
}

nonisolated(unsafe) let shared: [Item] = (0..<16).map { _ in Cart() }

@inline(never) func work(_ seed: Int) -> Int {
    var state = UInt64(seed), sum = 1
    func next(_ most: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % most
    }
    var texts = ["", "a", "a text that is longer than fifteen bytes", "ä ö ü €"]
    var table: [String: [Item]] = [:]
    var actions: [() -> Int] = []
    weak var link: Item?
    for round in 0..<6_000 {
        let item = shared[next(16)], own = round % 3 == 0 ? Item() : Basket<String>()
        texts[next(4)] = texts[next(4)].prefix(40) + String(next(1000))
        table[texts[next(4)], default: []].append(own)
        if table.count > 40 { table.removeAll() }
        actions.append { [item, own] in item === own ? 1 : own.count }
        if actions.count > 20 { actions.removeFirst(next(10) + 1) }
        link = next(2) == 0 ? item : own
        sum &+= actions.last?() ?? 0
        sum &+= link.map { $0.count & 1 } ?? 0
        sum &+= (texts as [Any]).count + String(describing: next(10)).count
        own.add()
    }
    return sum & 0xffff + texts.joined().utf8.count % 100
}

/// Shared references: one thread replaces them (`write`) while another thread copies them (`look`).
final class Place {
    var item: Item = Cart()
    var optional: Item?
    var pair: (text: String, item: Item) = ("a text that is longer than fifteen", Cart())
    var action: () -> Int = { 1 }
    var list: [Item] = [Cart(), Cart()]
    var table: [Int: Item] = [0: Cart()]
    var text = "a text that is longer than fifteen bytes"
    var head: Link?
}
final class Link: Item {
    let next: Link?
    init(_ next: Link?) { self.next = next }
}
nonisolated(unsafe) let place = Place()
nonisolated(unsafe) var global: Item = Cart()
nonisolated(unsafe) var race = 0

@inline(never) func write(_ round: Int) {
    switch race {
    case 0: global = Cart()
    case 1: place.item = Cart()
    case 2: place.optional = round % 2 == 0 ? Cart() : nil
    case 3: place.pair = ("another text, and long enough, \(round)", Cart())
    case 4:
        let item = Cart()
        place.action = { item.count + round }
    case 5: place.list[round % 2] = Cart()
    case 6: place.table[0] = Cart()
    case 7: place.text = "a text that is longer than fifteen bytes \(round)"
    case 8: place.head = Link(round % 8 == 0 ? nil : place.head)
    default: place.item = Cart()
    }
}
@inline(never) func look(_ round: Int) -> Int {
    switch race {
    case 0: return use(global)
    case 1: return use(place.item)
    case 2: return place.optional.map(use) ?? 0
    case 3:
        let pair = place.pair
        return use(pair.item) + pair.text.utf8.count
    case 4:
        let action = place.action
        return action()
    case 5: return use(place.list[round % 2])
    case 6: return place.table[0].map(use) ?? 0
    case 7:
        let text = place.text
        return text.utf8.count
    case 8:
        var at = place.head, sum = 0
        while let link = at {
            sum += use(link)
            at = link.next
        }
        return sum
    default:
        place.item = Cart()
        return 1
    }
}
@inline(never) func use(_ item: Item) -> Int { item.count }

@inline(never) func races(_ number: Int, rounds: Int) {
    race = number
    var thread = pthread_t()
    pthread_create(
        &thread, nil,
        { argument in
            for round in 0..<Int(bitPattern: argument) {
                write(round)
                pause(round)
            }
            return nil
        }, UnsafeMutableRawPointer(bitPattern: rounds))
    var sum = 0
    for round in 0..<rounds { sum &+= look(round) &+ pause(round) }
    pthread_join(thread, nil)
    print("no race was noticed", sum == 1 ? "" : ".")
}
// Work between two accesses, so that the threads collide only rarely.
@discardableResult @inline(never) func pause(_ round: Int) -> Int {
    var sum = round
    for j in 0..<200 { sum = sum &* 31 &+ j }
    return sum
}

let name = CommandLine.arguments[1], argument = CommandLine.arguments.dropFirst(2).first ?? ""
switch name {
case "over-release": overRelease(argument)
case "reuse": reuse()
case "threads": threads()
case "references": references()
case "workload": workload()
case "races": races(Int(argument)!, rounds: Int(CommandLine.arguments[3])!)
case "wait":
    let object = make("cart")
    retain(object)
    print(object.toOpaque())
    fflush(nil)
    _ = readLine()
    release(object)
    release(object)
default: fatalError("no case '\(name)'")
}
