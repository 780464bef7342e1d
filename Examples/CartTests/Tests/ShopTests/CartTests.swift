import Glibc
import Shop
import Testing
import ZombieGuardTesting

@Suite struct ChildTests {
    @Test func ends() async { await expectZombie(of: Cart.self, access: .release) {} }
    @Test func crash() async { await expectZombie(of: Cart.self) { fatalError("oops") } }
    @Test func null() async { await expectZombie(of: Cart.self) { UnsafeMutablePointer<Int>(bitPattern: 16)!.pointee = 1 } }
    @Test func hang() async { await expectZombie(of: Cart.self, timeLimit: .seconds(2)) { while true { try await Task.sleep(for: .seconds(1)); print("tick") } } }
    @Test func hangSync() { expectZombie(of: Cart.self, timeLimit: .seconds(2)) { while true { usleep(1000) } } }
    @Test func exits() { expectZombie(of: Cart.self) { exit(3) } }
    struct Oops: Error {}
    @Test func throwing() { expectZombie(of: Cart.self) { throw Oops() } }
    @Test func df() { expectZombie(of: Cart.self) { let p = malloc(10); free(p); free(p) } }
    @Test func invalid() { expectZombie(of: Cart.self) { var x = 1; withUnsafeMutablePointer(to: &x) { free($0) } } }
    @Test(arguments: ["a", "b", "c"]) func args(s: String) async { for i in 0..<2 { await expectZombie(of: Cart.self) { print("case", s, i); fatalError("x") } } }
    @Test func never() async { if ExpectedZombieChildProbe.isChild { return }; await expectZombie(of: Cart.self) {} }
    @Suite struct Inner { @Test func `raw [x]`() async { await expectZombie(of: Cart.self) {} } }
    @MainActor @Test func main() async { var n = 0; await expectZombie(of: Cart.self) { n += 1; MainActor.assertIsolated(); exit(n == 1 ? 44 : 1) } }
    @Test func detached() async { await Task.detached { await expectZombie(of: Cart.self) {} }.value }
}
enum ExpectedZombieChildProbe { static var isChild: Bool { getenv("ZGUARD_EXPECT_KEY") != nil } }
