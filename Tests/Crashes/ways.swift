// Swift programs that crash, one per function. The lines in front of the functions have the format of ways.c. The
// values that cause the traps are opaque to the optimizer.
import Dispatch
import Foundation

@inline(never) @_optimize(none) func opaque<Value>(_ value: Value) -> Value { value }

enum ShopError: Error { case outOfCheese(Int) }

// dies: TRAP, crash, message=Fatal error: Index out of range|Swift runtime failure: Index out of range
@inline(never) func indexOutOfRange() { print([1, 2, 3][opaque(7)]) }

// dies: TRAP, crash, message=Unexpectedly found nil while unwrapping an Optional value
@inline(never) func forceUnwrap() { print(opaque(nil as Int?)!) }

// dies: TRAP, crash, message=Fatal error: out of cheese
@inline(never) func fatal() { if opaque(true) { fatalError("out of cheese") } }

// dies: TRAP, crash, message=^Fatal error$
@inline(never) func fatalWithoutWords() { if opaque(true) { print(opaque(1)); fatalError() } }

// dies: TRAP, crash, message=the shop is shut|precondition failure
@inline(never) func preconditionFails() { precondition(opaque(false), "the shop is shut") }

// dies: TRAP, crash, message=arithmetic overflow
@inline(never) func overflow() { print(opaque(Int.max) + opaque(1)) }

// dies: TRAP, crash, message=Division by zero|division by zero
@inline(never) func division() { print(opaque(1) / opaque(0)) }

// dies: TRAP, crash, message='try!' expression unexpectedly raised an error: .*outOfCheese\(3\)
@inline(never) func tryBang() { try! opaque({ throw ShopError.outOfCheese(3) })() }

// dies: SIGABRT, crash, message=Could not cast value of type
@inline(never) func forcedCast() { print((opaque("three" as Any) as! Int)) }

// dies: TRAP, crash, message=Range requires lowerBound <= upperBound
@inline(never) func reversedRange() { print((opaque(3)..<opaque(1)).count) }

// dies: TRAP, crash, message=Duplicate values for key: '1'
@inline(never) func duplicateKeys() { print(Dictionary(uniqueKeysWithValues: [(opaque(1), 1), (opaque(1), 2)])) }

// dies: TRAP, crash, message=Not enough bits to represent the passed value
@inline(never) func tooManyBits() { print(UInt8(opaque(1000))) }

// dies: TRAP, crash, message=Fatal error: Can't remove first element from an empty collection|Can't remove
@inline(never) func removeFirst() {
    var empty = opaque([Int]())
    print(empty.removeFirst())
}

// dies: TRAP, crash, message=Fatal error: in a closure, threads=any
@inline(never) func inDispatch() {
    DispatchQueue.global().async { if opaque(true) { fatalError("in a closure") } }
    while true { sleep(1) }
}

// dies: TRAP, crash, message=^BUG IN CLIENT OF LIBDISPATCH: dispatch_sync called on queue already owned by current thread$
@inline(never) func waitsForItself() {
    let queue = DispatchQueue(label: "shop")
    func inside() { if opaque(true) { queue.sync {} } }
    queue.sync { inside() }
}

// dies: TRAP, crash, message=^BUG IN CLIENT OF LIBDISPATCH: Block was expected to execute on queue$
@inline(never) func offItsQueue() { dispatchPrecondition(condition: .onQueue(opaque(DispatchQueue(label: "shop")))) }

// dies: TRAP, crash, message=^BUG IN CLIENT OF LIBDISPATCH: Unbalanced call to dispatch_group_leave\(\)$
@inline(never) func leavesTwice() { opaque(DispatchGroup()).leave() }

// dies: TRAP, crash, message=Fatal error: in a task, threads=any
@inline(never) func inTask() {
    Task.detached { if opaque(true) { fatalError("in a task") } }
    while true { sleep(1) }
}

// The optimizer merges calls that end the program. The merged code has no line: file and line are in the message.
// dies: TRAP, crash, message=^Fatal error: the first of merged calls$
func mergedFirst() { if opaque(true) { fatalError("the first of merged calls") } }

// dies: TRAP, crash, message=^Fatal error: the second of merged calls$
func mergedSecond() { if opaque(true) { fatalError("the second of merged calls") } }

@inline(never) func merged(_ which: Int) {
    if which == 1 { mergedFirst() }
    if which == 2 { mergedSecond() }
    if which == 3 { fatalError("the third of merged calls") }
}

let name = CommandLine.arguments.dropFirst().first
let ways: [(String, () -> Void)] = [
    ("indexOutOfRange", indexOutOfRange), ("forceUnwrap", forceUnwrap), ("fatal", fatal),
    ("fatalWithoutWords", fatalWithoutWords),
    ("preconditionFails", preconditionFails), ("overflow", overflow), ("division", division), ("tryBang", tryBang),
    ("forcedCast", forcedCast), ("reversedRange", reversedRange), ("duplicateKeys", duplicateKeys),
    ("tooManyBits", tooManyBits), ("removeFirst", removeFirst), ("inDispatch", inDispatch), ("waitsForItself", waitsForItself), ("offItsQueue", offItsQueue), ("leavesTwice", leavesTwice), ("inTask", inTask),
    ("mergedFirst", { merged(opaque(1)) }), ("mergedSecond", { merged(opaque(2)) }),
]
for (way, function) in ways where way == name { function() }
// dies: TRAP, crash, message=Fatal error: Error raised at top level: .*outOfCheese\(4\), top=main
if name == "topLevel" { throw ShopError.outOfCheese(4) }
exit(3)
