// Bugs in Swift that share functions, for Tests/Reports/grouping.py; the argument chooses the bug.
// grouping.py inserts code at the UNRELATED markers.

import Glibc

// UNRELATED 1

class Cart {
    var items = [1, 2, 3]
    var total = 7
    @inline(never) func add(_ count: Int) -> Int {
        // UNRELATED line
        total += count
        return total
    }
    @inline(never) func remove() -> Int { total }
}

private struct Secret {
    @inline(never) static func use(_ reference: Unmanaged<Cart>) -> Int {
        let sum = reference._withUnsafeGuaranteedRef { $0.add(1) }
        return sum + 1
    }
}

@inline(never) func perform(_ body: () -> Int) -> Int {
    let result = body()
    return result + 1
}

// UNRELATED 2

@inline(never) func makeCart() -> Unmanaged<Cart> { Unmanaged.passRetained(Cart()) }

@inline(never) func close(_ reference: Unmanaged<Cart>) -> Int {
    reference.release()
    return 1
}

@inline(never) func discard(_ reference: Unmanaged<Cart>) -> Int {
    reference.release()
    return 2
}

@inline(never) func useInClosure(_ reference: Unmanaged<Cart>) -> Int {
    // UNRELATED closure
    perform {
        let sum = reference._withUnsafeGuaranteedRef { $0.remove() }
        return sum + 1
    }
}

@inline(never) func run(_ bug: String) -> Int {
    let reference = makeCart()
    switch bug {
    case "method":
        let closed = close(reference)
        return Secret.use(reference) + closed
    case "closure":
        let closed = close(reference)
        return useInClosure(reference) + closed
    case "other-free":
        let closed = discard(reference)
        return Secret.use(reference) + closed
    case "release":
        let closed = close(reference)
        return close(reference) + closed
    default: return 0
    }
}

print(run(CommandLine.arguments.count > 1 ? CommandLine.arguments[1] : ""))
