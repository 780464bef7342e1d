// Makes live and freed objects, prints their addresses and the trap words of freed objects on accessible pages, one
// "NAME 0xADDRESS" a line, then "ready", and waits for the end of its input. "abort" aborts, "use" uses a freed object.

#if canImport(Glibc)
@preconcurrency import Glibc
#endif

class Cart: @unchecked Sendable {
    var total = 7
    var items = ["apple"]
}
final class Stock<Element>: Cart, @unchecked Sendable {
    var element: Element
    init(_ element: Element) { self.element = element }
}

func address(_ object: AnyObject) -> UInt { UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque()) }
func say(_ name: String, _ address: UInt) { print(name, "0x" + String(address, radix: 16)) }

@inline(never)
func makeAndDrop() -> UInt {
    let stock = Stock("pear")
    return address(stock)
}

// The module Glibc lacks this function.
@_silgen_name("process_vm_readv")
func readMemory(
    _ process: pid_t, _ to: UnsafePointer<iovec>, _ toCount: UInt, _ from: UnsafePointer<iovec>, _ fromCount: UInt,
    _ flags: UInt
) -> Int

/// Prints a word of a freed object if the kernel can read it: the object's page may be protected.
func sayTrapWord(_ name: String, of object: UInt, _ index: Int) {
    var word: UInt = 0
    let done = withUnsafeMutablePointer(to: &word) { word in
        var to = iovec(iov_base: word, iov_len: MemoryLayout<UInt>.size)
        var from = iovec(
            iov_base: UnsafeMutablePointer<UInt>(bitPattern: object)! + index, iov_len: MemoryLayout<UInt>.size)
        return readMemory(getpid(), &to, 1, &from, 1, 0)
    }
    if done == MemoryLayout<UInt>.size { say(name, word) }
}

let cart = Cart()
let stock = Stock(5)
let closure: @Sendable () -> Void = { [cart] in print(cart.total) }
let dead = makeAndDrop()
say("cart", address(cart))
say("stock", address(stock))
say("dead", dead)
sayTrapWord("class_trap", of: dead, 0)
sayTrapWord("count_trap", of: dead, 1)
sayTrapWord("property_trap", of: dead, 3)
print("ready")
fflush(stdout)
if CommandLine.arguments.last == "abort" { abort() }
if CommandLine.arguments.last == "use" {
    sleep(1)
    print(Unmanaged<Cart>.fromOpaque(UnsafeRawPointer(bitPattern: dead)!).takeUnretainedValue().items)
}
while getchar() != EOF {}
withExtendedLifetime((cart, stock, closure)) {}
