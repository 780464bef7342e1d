// Swift Testing tests that pass: no zombie is touched, or one is touched as expected.

import Shop
import Testing
import ZombieGuardTesting

@Suite(.zombieGuarded) struct CartTests {
    @Test func addsThroughHandle() {
        let cart = Cart()
        let handle = Counter.open(cart)
        Counter.add("tea", to: handle)
        Counter.close(handle)
        #expect(cart.items == ["tea"])
    }

    @Test(arguments: [1, 10, 100]) func addsMany(count: Int) async {
        let cart = Cart()
        await expectNoZombies {
            for number in 0..<count {
                cart.add("item \(number)")
                await Task.yield()
            }
        }
        #expect(cart.items.count == count)
    }

    @Test func someIsWatched() throws {
        let coverage = try ZombieGuard.coverage
        #expect(coverage.watchedBlocks > 0 && coverage.watchedStacks <= coverage.stacks)
        #expect(coverage.reaches(percent: 1), "\(coverage.text)")
    }

    @Test func isDeallocated() { assertDeallocated { Cart() } }

    @Test func isDeallocatedAfterAwaiting() async {
        await assertDeallocated {
            let cart = Cart()
            await Task.yield()
            return cart
        }
    }

    #if compiler(>=6.2)
    @Suite struct Nested {
        @Test func `names with spaces (and signs) [work]`() async {
            await expectZombie(of: Cart.self) { Counter.discard(Cart()) }
        }
    }
    #endif
}

@Suite struct CaughtTests {
    @Test func release() async {
        let finding = await expectZombie(of: Cart.self, access: .release) { Counter.discard(Cart()) }
        #expect(finding?.stacks.accessOrigin?.file?.hasSuffix("CartTests.swift") ?? true)
    }

    @Test func retain() async {
        await expectZombie(of: Cart.self, access: .retain) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            _ = Unmanaged<Cart>.fromOpaque(handle).retain()
        }
    }

    @Test func call() async {
        let finding = await expectZombie(of: Cart.self, access: .call) {
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.add("tea", to: handle)
        }
        // In a child process that was started for another call, expectZombie does not run the body and returns nil.
        if let finding { #expect(finding.block?.member == "add(_:)") }
    }

    @Test func plainValue() async {
        // The first objects of each allocation stack have their own pages, so even reading a number is detected.
        let finding = await expectZombie(of: Box<Int>.self, access: .read) {
            let box = Unmanaged.passRetained(Box(7))
            box.release()
            print(box._withUnsafeGuaranteedRef { $0.content })
        }
        if let finding { #expect(finding.block?.member == "content") }
    }

    @Test func severalInOneTest() async {
        let cart = Cart()
        await expectZombie(of: Cart.self, access: .release) {
            Counter.discard(Cart())
            _ = cart
        }
        for name in ["tea", "milk"] {
            await expectZombie(of: Box<String>.self) { Counter.discard(Box(name)) }
        }
        #expect(cart.items.isEmpty)
    }

    @Test(arguments: [1, 2], ["a", "b"]) func everyArgument(number: Int, name: String) async {
        await expectZombie(of: Box<String>.self) {
            // A child process runs the body only for the arguments for which it was started.
            Counter.discard(Box("\(number) \(name)"))
        }
    }

    private final class Hidden {}
    private actor Clerk {}

    @Test func privateClass() async { await expectZombie(of: Hidden.self) { Counter.discard(Hidden()) } }
    @Test func localClass() async {
        final class Local {}
        await expectZombie(of: Local.self) { Counter.discard(Local()) }
    }
    @Test func genericClass() async {
        await expectZombie(of: Box<[Hidden?]>.self) { Counter.discard(Box<[Hidden?]>([nil])) }
    }
    @Test func actorObject() async { await expectZombie(of: Clerk.self) { Counter.discard(Clerk()) } }

    @MainActor @Test func onMainActor() async {
        var count = 0
        await expectZombie(of: Cart.self) {
            count += 1
            await Task.yield()
            MainActor.assertIsolated()
            if count == 1 { Counter.discard(Cart()) }
        }
        #expect(count == 0)
    }

    @Test func synchronously() { expectZombie(of: Cart.self) { Counter.discard(Cart()) } }
}
