// Typical sources of dangling references in programs: delegates, observers, parents, threads, tasks.

import Foundation

// case: A view calls its freed unowned(unsafe) delegate.
// class: Shop.Controller
// access: call|retain
// member: tapped(_:)|-
@inline(never)
func delegate() {
    let controller = makeController()
    let view = View(delegate: controller)
    dropAllReferences(address(controller))
    done(view.tap())
}

// case: A notification center calls a freed observer of its Unmanaged list.
// class: Shop.Controller
// access: call|retain
// member: tapped(_:)|-
@inline(never)
func observers() {
    let center = Center()
    let controller = makeController()
    center.observers = [Unmanaged.passUnretained(controller)]
    drop(controller)
    done(center.post())
}

// case: A tree node calls its freed parent.
// class: Shop.Node
// access: call|retain
// member: path()|-
@inline(never)
func treeParent() {
    let root = makeNode("root")
    let leaf = makeNode("leaf")
    root.add(leaf)
    drop(root)
    done(leaf.path())
}

// case: A list element calls its freed predecessor.
// class: Shop.Link
// access: call|retain
// member: index()|-
@inline(never)
func listPrevious() {
    let first = makeLink()
    let second = makeLink()
    second.previous = first
    drop(first)
    done(second.index())
}

// case: A deinit stored an unretained self, which is called after the deinit.
// class: Shop.Ghost
// access: call
// member: haunt()
@inline(never)
func escapedSelf() {
    let ghost = makeGhost()
    lastGhost = Unmanaged.passUnretained(ghost)
    drop(ghost)
    done(lastGhost!._withUnsafeGuaranteedRef { $0.haunt() })
}

// case: A block on a dispatch queue calls a method of the freed object.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// needs: Foundation
// on O, Swift 6.0: absent= (the object is released before the endless loop even without the bug)
@inline(never)
func dispatched() {
    let cart = makeCart()
    let courier = Courier(object: cart)
    drop(cart)
    DispatchQueue.global().async { done(courier.object.add(1)) }
    while true { sleep(1) }
}

// case: Another thread calls a method of the freed object.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// on O, Swift 6.0: absent= (the object is released before the endless loop even without the bug)
@inline(never)
func otherThread() {
    let cart = makeCart()
    let courier = Courier(object: cart)
    drop(cart)
    startThread { done(courier.object.add(2)) }
    while true { sleep(1) }
}

// case: Another thread frees the object.
// class: Shop.Cart
// access: call
// member: add(_:)
@inline(never)
func freedByOtherThread() {
    let cart = makeCart()
    let courier = UnsafeCourier(address: address(cart))
    let thread = startThread { dropReference(courier.address) }
    pthread_join(thread, nil)
    done(cart.add(1))
}

// case: A detached task calls a method of the freed object.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
@inline(never)
func taskUses() async {
    let cart = makeCart()
    let courier = Courier(object: cart)
    drop(cart)
    let task: Task<Int, Never> = Task.detached { courier.object.add(1) }
    done(await task.value)
}

// case: An actor method is called. The Swift runtime accesses the actor's job queue, on any thread.
// class: Shop.Register
// access: write
// member: $defaultActor
// frame: *
@inline(never)
func actorMethod() async {
    let register = makeRegister()
    drop(register)
    done(await register.add(1))
}

// case: An actor property is read. The Swift runtime accesses the actor's job queue, on any thread.
// class: Shop.Register
// access: write
// member: $defaultActor
// frame: *
@inline(never)
func actorProperty() async {
    let register = makeRegister()
    drop(register)
    done(await register.log.count)
}

// case: A nonisolated constant of an actor is read, without a switch to the actor.
// class: Shop.Register
// access: read
// member: name
@inline(never)
func actorConstant() async {
    let register = makeRegister()
    drop(register)
    done(register.name.count)
}

// case: A freed finished task is cancelled. The access to its flags is a compare-and-swap, which counts as a write.
// class: Swift.Task
// access: write
@inline(never)
func taskHandle() async {
    let task = makeTask()
    _ = await task.value
    settle(unsafeBitCast(task, to: UnsafeRawPointer.self))
    dropAllReferences(unsafeBitCast(task, to: UnsafeRawPointer.self))
    task.cancel()
    done(1)
}

// case: A continuation yields to a stream whose storage was freed.
// class: Swift.AsyncStream<Swift.Int>._Storage|_Concurrency.AsyncStream<Swift.Int>._Storage
// access: read|retain|call
// member: *
@inline(never)
func streamContinuation() {
    let (stream, continuation) = makeStream()
    dropAllReferences(unsafeBitCast(continuation, to: UnsafeRawPointer.self))
    continuation.yield(1)
    kept.append(Box(stream))
    done(1)
}

// case: A timer handler holds only the address of the freed object.
// class: Shop.Cart
// access: call
// member: add(_:)
// needs: Foundation
@inline(never)
func timerBlock() {
    let cart = makeCart()
    let courier = UnsafeCourier(address: address(cart))
    let timer = DispatchSource.makeTimerSource()
    timer.setEventHandler {
        let cart = Unmanaged<Cart>.fromOpaque(courier.address)
        done(cart._withUnsafeGuaranteedRef { $0.add(1) })
    }
    drop(cart)
    timer.schedule(deadline: .now())
    timer.activate()
    while true { sleep(1) }
}

// MARK: places where the object is freed

nonisolated(unsafe) private var late = UnsafeRawPointer(bitPattern: 8)!

@inline(never)
@_optimize(none)
private func addOne(to cart: UnsafeRawPointer) -> Int {
    Unmanaged<Cart>.fromOpaque(cart)._withUnsafeGuaranteedRef { $0.add(1) }
}

// case: The object is freed by the deinit of its only owner.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// frame: addOne
@inline(never)
func droppedWithOwner() {
    let box = makeBox(makeCart())
    let cart = address(box.content)
    drop(box)
    done(addOne(to: cart))
}

// case: The object is freed in a signal handler.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// frame: addOne
@inline(never)
func droppedInHandler() {
    late = UnsafeRawPointer(Unmanaged.passRetained(makeCart()).toOpaque())
    signal(SIGUSR1) { _ in dropReference(late) }
    raise(SIGUSR1)
    done(addOne(to: late))
}

// case: The object is freed by a pthread key destructor at thread exit.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// frame: addOne
@inline(never)
func droppedAtThreadsEnd() {
    late = UnsafeRawPointer(Unmanaged.passRetained(makeCart()).toOpaque())
    let thread = startThread {
        var key = pthread_key_t()
        pthread_key_create(&key) { _ in dropReference(late) }
        pthread_setspecific(key, late)
    }
    pthread_join(thread, nil)
    done(addOne(to: late))
}

// case: The object is freed and used in an atexit handler.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// frame: addOne
@inline(never)
func droppedAtExit() {
    late = UnsafeRawPointer(Unmanaged.passRetained(makeCart()).toOpaque())
    atexit {
        dropReference(late)
        print(addOne(to: late))
    }
    exit(0)
}

// case: The object is freed and used in a forked child.
// class: Shop.Cart
// access: call|retain
// member: add(_:)|-
// frame: addOne
@inline(never)
func droppedInChild() {
    late = UnsafeRawPointer(Unmanaged.passRetained(makeCart()).toOpaque())
    let child = runtime_fork()
    if child == 0 {
        dropReference(late)
        done(addOne(to: late))
    }
    var status: Int32 = 0
    waitpid(child, &status, 0)
    exit(status & 0x7f == 0 ? status >> 8 : 128 + status & 0x7f)
}
