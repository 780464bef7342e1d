// A zombie in an unguarded test: the test passes, and the test run fails at its end.

import Shop
import Testing
import ZombieGuardTesting

@Suite struct UnguardedTests {
    // passes
    @Test func addAfterClose() {
        let handle = Counter.open(Cart())
        Counter.close(handle)
        Counter.add("tea", to: handle)
    }
}
