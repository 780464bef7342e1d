import Glibc
import Shop
import Testing
import ZombieGuardTesting

@Suite struct ChildTests {
    @Test func call() async {
        let finding = await expectZombie(of: Cart.self, access: .call) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.add("tea", to: handle)
        }
        #expect(finding?.block?.member == "add(_:)")
    }
    @Test func release() async {
        await expectZombie(of: Cart.self, access: .release) { Counter.discard(Cart()) }
    }
    @Test func retain() async {
        await expectZombie(of: Cart.self, access: .retain) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.close(handle)
        }
    }
    @Test func write() async {
        await expectZombie(of: Cart.self, access: .write) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.setDiscount(5, of: handle)
        }
    }
    @Test func doubleFree() async {
        await expectZombie(of: Cart.self) { 
            let block = malloc(10)
            free(block)
            free(block)
        }
    }
    actor Act { func f() async { await expectZombie(of: Cart.self, access: .release) { Counter.discard(Cart()) } } }
    @Test func actorIsolated() async { await Act().f() }
    private final class Hidden {}
    @Test func privateClass() async { await expectZombie(of: Hidden.self) { Unmanaged.passUnretained(Hidden()).release() } }
    @Test func localClass() async { 
        final class Local {}
        await expectZombie(of: Local.self) { Unmanaged.passUnretained(Local()).release() } }
    final class Box<T> { var t: T; init(_ t: T) { self.t = t } }
    @Test func generic() async { await expectZombie(of: Box<[Int]>.self) { Unmanaged.passUnretained(Box([1])).release() } }
    @Test func actorObject() async { await expectZombie(of: Act.self) { Unmanaged.passUnretained(Act()).release() } }
    private final class PBox<T> { var t: T; init(_ t: T) { self.t = t } }
    @Test func genericPrivate() async { await expectZombie(of: PBox<Hidden?>.self) { Unmanaged.passUnretained(PBox<Hidden?>(nil)).release() } }
}
@Suite(.zombieGuarded) struct Guarded {
    @Test func release() { Counter.discard(Cart()) }
    @Test func write() async { let c = Counter.open(Cart()); Counter.close(c); Counter.setDiscount(5, of: c) }
    @Test func async() async { let c = Counter.open(Cart()); Counter.close(c); await Task.yield(); await sub(c) }
    func sub(_ c: UnsafeMutableRawPointer) async { await Task.yield(); Counter.add("x", to: c) }
}
