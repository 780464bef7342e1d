// Uncaught Swift errors whose throw is no longer on the stack of the trap. The lines have the format of thrown.cc.
import Dispatch
import Foundation

@inline(never) @_optimize(none) func opaque<Value>(_ value: Value) -> Value { value }

enum ShopError: Error, CustomStringConvertible {
    case outOfCheese(Int), another

    var description: String {
        switch self {
        case .outOfCheese(let count): "no cheese left, \(count) asked for"
        case .another: "another"
        }
    }
}

final class Counter {
    let name: String
    init(_ name: String) { self.name = name }
    deinit { if name == opaque("never") { print(name) } }
}

@inline(never) func outOfCheese(_ count: Int) throws -> Int {
    if opaque(count) > 0 { throw ShopError.outOfCheese(count) }
    return count
}
@inline(never) func inTheShop(_ count: Int) throws -> Int {
    let counter = opaque(Counter("shop"))
    return try outOfCheese(count) + counter.name.count
}
@inline(never) func another() throws { if opaque(true) { throw ShopError.another } }
@inline(never) func typedOutOfCheese() throws(ShopError) { if opaque(true) { throw .outOfCheese(5) } }

// dies: TRAP, crash, message='try!' expression unexpectedly raised an error: no cheese left, 3 asked for, thrown=outOfCheese, top=tryElsewhere
@inline(never) func tryElsewhere() { print(try! inTheShop(3)) }

// The error that ends the program is not the one thrown last.
// dies: TRAP, crash, message='try!' expression unexpectedly raised an error: no cheese left, 4 asked for, thrown=outOfCheese, top=tryAfterAnother
@inline(never) func tryAfterAnother() {
    let result = Result { try inTheShop(4) }
    for _ in 0..<100 { try? another() }
    print(try! result.get())
}

// dies: TRAP, crash, message='try!' expression unexpectedly raised an error: no cheese left, 5 asked for, thrown=typedOutOfCheese, top=tryTyped
@inline(never) func tryTyped() { try! typedOutOfCheese() }

@inline(never) func throwsAgain() throws {
    do { print(try inTheShop(6)) } catch { throw error }
}
// dies: TRAP, crash, message='try!' expression unexpectedly raised an error: no cheese left, 6 asked for, thrown=outOfCheese, top=tryThrownAgain
@inline(never) func tryThrownAgain() { try! throwsAgain() }

// dies: TRAP, crash, message=no cheese left, 7 asked for, thrown=outOfCheese, top=closure #1 in inQueue(), threads=any
@inline(never) func inQueue() {
    DispatchQueue.global().async { print(try! inTheShop(7)) }
    while true { sleep(1) }
}

// dies: TRAP, crash, message=no cheese left, 8 asked for, thrown=outOfCheese, top=closure #2 in inTask(), threads=any
@inline(never) func inTask() {
    let task = Task.detached { try inTheShop(8) }
    Task.detached { print(try! await task.value) }
    while true { sleep(1) }
}

// The error that was caught before is not the reason of the trap.
// dies: TRAP, crash, message=Index out of range, thrown=none
@inline(never) func caughtBefore() {
    _ = try? inTheShop(9)
    print([1, 2, 3][opaque(7)])
}

@inline(never) func throwAndCatch(_ times: Int) -> Int {
    var sum = 0
    for number in 1...times {
        do {
            if number % 2 == 0 { try another() } else { sum += try inTheShop(number) }
        } catch ShopError.outOfCheese(let count) {
            sum += count
        } catch {
            sum += 1
        }
        if number % 3 == 0 { do { try typedOutOfCheese() } catch .outOfCheese(let count) { sum += count } catch {} }
    }
    return sum
}

// lives: throws and catches in tasks and queues
@inline(never) func caught() {
    DispatchQueue.concurrentPerform(iterations: 4) { _ in if throwAndCatch(3000) < 0 { print("less") } }
    let done = DispatchSemaphore(value: 0)
    Task.detached {
        let sum = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { throwAndCatch(1000) } }
            return await group.reduce(0, +)
        }
        print(sum)
        done.signal()
    }
    done.wait()
}

// lives: throws and catches a million times, for measurements
@inline(never) func often() { print(throwAndCatch(1_000_000)) }

// Prints whether the Swift runtime's hook _swift_willThrow is set.
@inline(never) func changed() {
    let hook = dlsym(nil, "_swift_willThrow")?.load(as: UInt.self)
    print("changed \(hook == nil || hook == 0 ? 0 : 1)")
}

let name = CommandLine.arguments.dropFirst().first
let ways: [(String, () -> Void)] = [
    ("tryElsewhere", tryElsewhere), ("tryAfterAnother", tryAfterAnother), ("tryTyped", tryTyped),
    ("tryThrownAgain", tryThrownAgain), ("inQueue", inQueue), ("inTask", inTask), ("caughtBefore", caughtBefore),
    ("caught", caught), ("often", often),
    ("changed", changed),
]
for (way, function) in ways where way == name { function() }
// dies: TRAP, crash, message=Fatal error: Error raised at top level: no cheese left, 10 asked for, thrown=outOfCheese, top=main
if name == "topLevel" { print(try inTheShop(10)) }
exit(3)
