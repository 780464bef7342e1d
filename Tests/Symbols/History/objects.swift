// Makes live and freed objects, prints their addresses, one "NAME 0xADDRESS" a line, then "ready", and waits for the
// end of standard input. Arguments: "abort" aborts, "use" uses the freed object.

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

@inline(never)
func trapWord(of object: UInt, _ index: Int) -> UInt {
    UnsafePointer<UInt>(bitPattern: object)![index]
}

let cart = Cart()
let stock = Stock(5)
let closure: @Sendable () -> Void = { [cart] in print(cart.total) }
let dead = makeAndDrop()
say("cart", address(cart))
say("stock", address(stock))
say("dead", dead)
say("class_trap", trapWord(of: dead, 0))
say("count_trap", trapWord(of: dead, 1))
say("property_trap", trapWord(of: dead, 3))
print("ready")
fflush(stdout)
if CommandLine.arguments.last == "abort" { abort() }
if CommandLine.arguments.last == "use" {
    sleep(1)
    print(Unmanaged<Cart>.fromOpaque(UnsafeRawPointer(bitPattern: dead)!).takeUnretainedValue().items)
}
while getchar() != EOF {}
withExtendedLifetime((cart, stock, closure)) {}
