import Glibc
import Shop
import Testing
import ZombieGuardTesting

@Suite struct ChildTests {
    @Test func crash() async { await expectZombie(of: Cart.self) { fatalError("oops") } }
    @Test func release() async { await expectZombie(of: Cart.self, access: .release) { let c = Cart(); Unmanaged.passUnretained(c).release() } }
    @Test func write() async { await expectZombie(of: Cart.self, access: .write) { let c = Counter(), h = c.open(Cart()); c.close(h); c.setDiscount(5, of: h) } }
}
@Suite(.zombieGuarded) struct Guarded {
    @Test func release() { let c = Counter(), h = c.open(Cart()); c.close(h); c.close(h) }
    @Test func call() { let c = Counter(), h = c.open(Cart()); c.close(h); c.add("x", to: h) }
    @Test func write() async { let c = Counter(), h = c.open(Cart()); c.close(h); c.setDiscount(5, of: h) }
    @Test func fine() { let c = Counter(), h = c.open(Cart()); c.add("x", to: h); c.close(h) }
    @Test(arguments: [1, 2]) func args(i: Int) { let c = Counter(), h = c.open(Cart()); c.close(h); c.add("x", to: h) }
}
@Suite struct Plain {
    @Test func call() async { await expectNoZombies { let c = Counter(), h = c.open(Cart()); c.close(h); c.add("x", to: h) } }
    @Test func dealloc() { let box = Box(); assertDeallocated { let c = Cart(); box.c = c; return c } }
}
final class Box { var c: Cart? }
