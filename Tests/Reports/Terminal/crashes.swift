// Ends as its argument says: by an error that ZombieGuard reports, or by one that only the Swift runtime reports.

import Glibc

final class Cart {
    private var prices: [Int] = [1]

    func add(_ price: Int) { prices.append(price) }
}

/// The wide characters are in front of the faulting expression: 日本語.
final class Observer {
    unowned var cart: Cart

    init(_ cart: Cart) { self.cart = cart }
}

@inline(never) func deadCart() -> Unmanaged<Cart> { Unmanaged.passUnretained(Cart()) }
@inline(never) func observerOfNobody() -> Observer { Observer(Cart()) }
@inline(never) func element(_ list: [Int], _ index: Int) -> Int { list[index] }

nonisolated(unsafe) var innermost: UnsafeMutableRawPointer?

/// The address of the local variable escapes, so each call needs a stack frame of its own.
@inline(never) func descend(_ depth: Int) -> Int {
    var frame = (depth, depth, depth, depth)
    withUnsafeMutablePointer(to: &frame) { innermost = UnsafeMutableRawPointer($0) }
    return descend(depth &+ 1) &+ frame.0
}

@inline(never) func freeTwice(_ block: UnsafeMutableRawPointer?) {
    free(block)
    free(block)
}

@inline(never) func readNumber(_ address: UInt) -> Int { UnsafePointer<Int>(bitPattern: address)!.pointee }

/// A closure behind reabstraction, which puts thunks on the stack.
@inline(never) func each<Element>(_ list: [Element], _ body: (Element) -> Void) { for element in list { body(element) } }

setvbuf(stdout, nil, _IOLBF, 0)
switch CommandLine.arguments.dropFirst().first ?? "" {
case "method": deadCart()._withUnsafeGuaranteedRef { $0.add(2) }
case "retain": print(deadCart().takeUnretainedValue())
case "release": deadCart().release()
case "unowned": observerOfNobody().cart.add(3)
case "thunk":
    let cart = deadCart()
    each([1, 2]) { price in cart._withUnsafeGuaranteedRef { $0.add(price) } }
case "read":
    let numbers = UnsafeMutablePointer<Int>.allocate(capacity: 4)
    numbers.initialize(repeating: 7, count: 4)
    numbers.deallocate()
    /* 日本語の長いコメントがここにあります、幅の広い文字です */ let text = "a line that is longer than a terminal is wide"; print(text, numbers[2])
case "free": freeTwice(malloc(40))
case "null": print(readNumber(8))
case "wild": print(readNumber(0x1234_5678_9000))
case "stack": print(descend(0))
case "invalid": free(UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: malloc(64)!) + 16))
case "fatal": fatalError("out of order")
case "index": print(element([1], CommandLine.arguments.count))
case "abort": abort()
case "overflow": print(Int32.max + Int32(CommandLine.arguments.count))
default: print("well")
}
