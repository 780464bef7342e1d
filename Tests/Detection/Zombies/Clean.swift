// Correct programs that resemble use-after-free bugs: no finding, and the same output as without the runtime.

import Foundation

// case: A weak reference whose object was freed is loaded.
// clean:
@inline(never)
func weakLoad() {
    weak var cart: Cart?
    do {
        let strong = makeCart()
        cart = strong
        _ = strong.add(1)
    }
    done(cart == nil)
}

// case: A weak property whose target was freed is read.
// clean:
@inline(never)
func weakProperty() {
    let basket = makeBasket()
    basket.buyer = makePerson()
    done(basket.buyer?.name ?? "none")
}

// case: Many weak references are read; the targets of some were freed.
// clean:
@inline(never)
func weakMany() {
    var carts: [Cart] = []
    var waiters: [Waiter] = []
    for index in 0..<500 {
        let cart = makeCart()
        let waiter = Waiter(customer: cart)
        waiter.guest = cart
        waiters.append(waiter)
        if index % 3 == 0 { carts.append(cart) }
    }
    done(waiters.filter { $0.guest != nil }.count)
}

// case: An unowned reference to a live object is read.
// clean:
@inline(never)
func unownedLive() {
    let cart = makeCart()
    let waiter = Waiter(customer: cart)
    done(waiter.customer.total + cart.total)
}

// case: Unowned references outlive their objects' deinit but are never read; they only keep the memory allocated.
// clean:
@inline(never)
func unownedUnread() {
    var waiters: [Waiter] = []
    for _ in 0..<100 { waiters.append(Waiter(customer: makeCart())) }
    let count = waiters.count
    waiters = []
    done(count)
}

// case: An unowned(unsafe) reference to a live object is used.
// clean:
@inline(never)
func unsafeLive() {
    let controller = makeController()
    let view = View(delegate: controller)
    let taps = view.tap()
    kept.append(controller)
    done(taps)
}

// case: Retains and releases through Unmanaged are balanced.
// clean:
@inline(never)
func unmanagedBalanced() {
    let cart = Unmanaged.passRetained(makeCart()).retain()
    cart.release()
    done(cart.takeRetainedValue().total)
}

// case: Objects are allocated and freed in a loop, so that memory is reused.
// clean:
@inline(never)
func reusedMemory() {
    var sum = 0
    for round in 0..<20_000 { sum += makeCart().add(round % 3) }
    done(sum)
}

// case: Live objects are cast and reflected by Mirror.
// clean:
@inline(never)
func castsLive() {
    let objects: [Any] = [makeCart(), makeGiftCart(), makePerson(), makeBox(1), makeNote()]
    done(objects.map { "\(type(of: $0)) \($0 is Cart) \($0 is any Payable) \(Mirror(reflecting: $0).children.count)" })
}

// case: A reference is replaced a thousand times.
// clean:
@inline(never)
func propertyReplaced() {
    let basket = makeBasket()
    for round in 0..<1000 { basket.owner = Person(name: "guest \(round)") }
    done(basket.owner.name)
}

// case: Collections grow and shrink.
// clean:
@inline(never)
func collectionsChange() {
    var names: [String] = []
    var prices: [String: Person] = [:]
    var carts: Set<Cart> = []
    for round in 0..<300 {
        names.append("name number \(round) of many")
        prices["\(round)"] = Person(name: "p")
        carts.insert(makeCart())
        if round % 2 == 0 { prices["\(round / 2)"] = nil }
    }
    names.removeFirst(100)
    done("\(names.count) \(prices.count) \(carts.count)")
}

// case: Two closures share a captured variable.
// clean:
@inline(never)
func closuresShare() {
    let (action, other) = makeCounter()
    _ = other.run(1)
    done(action.run(makeAction().run(2)))
}

// case: Errors are thrown and caught.
// clean:
@inline(never)
func errorsCaught() {
    var count = 0
    for round in 0..<200 {
        do {
            let cart = makeCart()
            cart.total = round - 100
            _ = try cart.validate()
        } catch ShopError.empty {
            count += 1
        } catch {
            count += 1000
        }
    }
    done(count)
}

// case: Tasks of a task group call an actor.
// clean:
@inline(never)
func tasksAndActors() async {
    let register = makeRegister()
    let sum = await withTaskGroup(of: Int.self) { group in
        for round in 0..<50 { group.addTask { await register.add(round) } }
        return await group.reduce(0) { max($0, $1) }
    }
    done(sum)
}

// case: A continuation yields to an AsyncStream.
// clean:
@inline(never)
func streamLive() async {
    let (stream, continuation) = makeStream()
    for number in 1...10 { continuation.yield(number) }
    continuation.finish()
    done(await stream.reduce(0, +))
}

// case: Several threads use a shared object under a lock.
// clean:
@inline(never)
func threadsShare() {
    let lock = NSLock()
    let cart = makeCart()
    let sum = Courier(object: cart)
    DispatchQueue.concurrentPerform(iterations: 200) { round in
        let other = makeCart()
        lock.withLock { _ = sum.object.add(other.add(round)) }
    }
    done(cart.total)
}

// case: Live Foundation objects are used.
// clean:
@inline(never)
func foundationLive() throws {
    let text = makeMutableString()
    text.append("d")
    let array = makeMutableArray()
    array.add(4)
    let numbers = try makeDecoder().decode([Int].self, from: Data("[1,2,3]".utf8))
    done("\(text) \(array.count) \(numbers)")
}

// case: Operations run on an OperationQueue.
// clean:
@inline(never)
func operationsLive() {
    let queue = OperationQueue()
    let jobs = (0..<20).map { _ in makeJob() }
    queue.addOperations(jobs, waitUntilFinished: true)
    done(jobs.reduce(0) { $0 + ($1.isFinished ? $1.work() : 100) })
}

// case: A tree with unsafe parent references is freed from the root down.
// clean:
@inline(never)
func treeEnds() {
    var root: Node? = makeNode("root")
    for index in 0..<100 { root!.add(makeNode("\(index)")) }
    let path = root!.children[7].path()
    root = nil
    done(path)
}

// case: A deinit increments a global counter.
// clean:
@inline(never)
func deinitsRun() {
    for _ in 0..<100 { _ = makeSession().touch() }
    done(sessionsEnded)
}

// case: Key paths are appended and read on live objects.
// clean:
@inline(never)
func keyPathsLive() {
    let person = makePerson()
    let path = makeKeyPath()
    done(person[keyPath: path.appending(path: \.bitWidth)] + makeBasket()[keyPath: \Basket.owner.name.count])
}

// case: Live memory holds words that look like the header of a freed object.
// clean:
@inline(never)
func looksFreed() {
    let words = UnsafeMutablePointer<UInt>.allocate(capacity: 8)
    words.initialize(repeating: 0x1_0000_0003, count: 8)
    words[0] = UInt(bitPattern: words + 2)
    let sum = words[1] &+ words[7]
    words.deallocate()
    done(sum)
}

// case: The program aborts with a message like one of the Swift runtime's; its SIGABRT handler exits.
// clean:
@inline(never)
func ownMessage() {
    let cart = makeCart()
    let address = String(UInt(bitPattern: Unmanaged.passUnretained(cart).toOpaque()), radix: 16)
    var message = strdup("Object 0x\(address) has no owner")
    signal(SIGABRT) { _ in _exit(0) }
    withUnsafeMutablePointer(to: &message) { place in
        print(opaque(place).pointee.map { String(cString: $0).suffix(12) } ?? "")
        fflush(nil)
        abort()
    }
}
