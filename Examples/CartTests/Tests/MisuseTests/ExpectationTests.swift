// expectZombie calls that fail, because the code has no bug or another bug than the expected one.
// The comment above each test gives the expected failure and its location; the test driver reads it.

import Glibc
import Shop
import Testing
import ZombieGuardTesting

@Suite struct ExpectationTests {
    // fails: no zombie of Shop.Cart was touched: the body ended normally
    // at: ExpectationTests.swift "// no bug"
    @Test func noBug() async {
        await expectZombie(of: Cart.self, access: .release) { _ = Cart() } // no bug
    }

    // fails: no zombie of Shop.Cart was touched: the body did not end within 1.0 seconds and was killed
    // at: ExpectationTests.swift "// sleeps"
    @Test func hangs() async {
        await expectZombie(of: Cart.self, timeLimit: .seconds(1)) { // sleeps
            while true { try await Task.sleep(for: .milliseconds(10)) }
        }
    }

    // fails: the body did not end within 1.0 seconds and was killed
    // at: ExpectationTests.swift "// spins"
    @Test func hangsInALoop() {
        expectZombie(of: Cart.self, timeLimit: .seconds(1)) { // spins
            while getpid() != 0 {}
        }
    }

    // fails: the body crashed with SIGSEGV, which is no zombie: null-access: write at 0x10
    // at: ExpectationTests.swift "// null"
    @Test func nullPointer() async {
        await expectZombie(of: Cart.self) { // null
            UnsafeMutablePointer<Int>(bitPattern: 16)?.pointee = 1
        }
    }

    // fails: Fatal error: out of tea
    // at: ExpectationTests.swift "// trap"
    @Test func fatal() async {
        await expectZombie(of: Cart.self) { // trap
            fatalError("out of tea")
        }
    }

    // fails: the body threw OutOfTea()
    // at: ExpectationTests.swift "// throws"
    @Test func throwing() async {
        await expectZombie(of: Cart.self) { throw OutOfTea() } // throws
    }

    // fails: the body ended the process with status 3
    // at: ExpectationTests.swift "// exits"
    @Test func exiting() async {
        await expectZombie(of: Cart.self) { exit(3) } // exits
    }

    // fails: a zombie of Shop.Customer was touched, not of Shop.Cart
    // at: ExpectationTests.swift "// other class"
    @Test func otherClass() async {
        await expectZombie(of: Cart.self) { Counter.discard(Customer()) } // other class
    }

    // fails: the zombie of Shop.Cart was touched by “call”, not by “release”
    // at: ExpectationTests.swift "// other access"
    @Test func otherAccess() async {
        await expectZombie(of: Cart.self, access: .release) { // other access
            let handle = Counter.open(Cart())
            Counter.close(handle)
            Counter.add("tea", to: handle)
        }
    }

    // fails: freed memory was touched, but no zombie of Shop.Cart: double-free: a freed block of 64 bytes
    // at: ExpectationTests.swift "// no object"
    @Test func noObject() async {
        await expectZombie(of: Cart.self) { // no object
            let block = malloc(64)
            free(block)
            free(block)
        }
    }

    // fails: the child process did not get to this call of expectZombie
    // at: ExpectationTests.swift "// unreachable"
    @Test func neverReached() async {
        if getppid() != Parent.id {
            await expectZombie(of: Cart.self) { Counter.discard(Cart()) } // unreachable
        }
    }

    // fails: it crashed with SIGSEGV before: use-after-free: a deallocated Shop.Customer was released
    // at: ExpectationTests.swift "// too late"
    @Test func crashesBefore() async {
        if getppid() == Parent.id { Counter.discard(Customer()) }
        await expectZombie(of: Cart.self) { Counter.discard(Cart()) } // too late
    }

    // fails: called outside of a test
    // at: ExpectationTests.swift "// detached"
    // test: «unknown»
    @Test func detached() async {
        await Task.detached {
            _ = await expectZombie(of: Cart.self) { Counter.discard(Cart()) } // detached
        }.value
    }

    private struct OutOfTea: Error {}

    // The first process that reaches this line records its parent, for all processes that it starts.
    private enum Parent {
        static let id: pid_t = {
            if getenv("MISUSE_TESTS_CHILD") != nil { return getppid() }
            setenv("MISUSE_TESTS_CHILD", "1", 1)
            return 0
        }()
    }
}
