// References to freed objects that are retained before use, as unoptimized code does with nearly all references. The
// retain faults; the member that is used is found by emulating the instructions after the retain.

import Foundation

class Account {
    var balance = 10
    var name = "account"
    var log: [Int] = []
    final var rate = 2
    let number = 7
    weak var peer: Account?
    func deposit(_ amount: Int) -> Int {
        balance += amount
        return balance
    }
    func settle() async -> Int { balance }
    final func sum() -> Int { balance + rate }
    var doubled: Int {
        get { balance * 2 }
        set { balance = newValue / 2 }
    }
    subscript(index: Int) -> Int { balance + index }
}

class Savings: Account {
    override func deposit(_ amount: Int) -> Int { amount }
    override var balance: Int {
        get { super.balance }
        set { super.balance = newValue }
    }
}

protocol Sink: AnyObject {
    var title: String { get }
    func tapped(_ count: Int) -> Int
}

extension Sink {
    func tappedTwice() -> Int { tapped(1) + tapped(2) }
}

final class Screen: Sink {
    var title = "screen"
    var count = 3
    func tapped(_ count: Int) -> Int { self.count + count }
}

final class Panel: Sink {
    var title = "panel"
    func tapped(_ count: Int) -> Int { count }
}

// A protocol that is not class-bound: its methods receive the address of the reference.
protocol Layered {
    var layer: Int { get }
}

final class Tile: Account, Layered {
    var layer: Int { 1 }
}

final class Frame: Account, Layered {
    var layer: Int { 2 }
}

struct SinkSlot {
    unowned(unsafe) let sink: any Sink
}

struct LayerSlot {
    unowned(unsafe) let shape: any Account & Layered
}

final class Cell {
    unowned(unsafe) var sink: any Sink
    unowned(unsafe) var account: Account
    var held: Unmanaged<Account>
    init(_ sink: any Sink, _ account: Account) {
        self.sink = sink
        self.account = account
        held = Unmanaged.passUnretained(account)
    }
}

final class Vault<Content> {
    var content: Content
    var opened = 1
    init(_ content: Content) { self.content = content }
    func open() -> Content { content }
}

class Drawer<Content> {
    var content: Content
    var opened = 1
    init(_ content: Content) { self.content = content }
    func open() -> Content { content }
}

final class Branch {
    unowned(unsafe) var parent: Branch?
    var label = "branch"
    var depth: Int { (parent?.depth ?? 0) + 1 }
    func path() -> String { parent.map { $0.path() + label } ?? label }
}

// case: A method is called through an unowned(unsafe) property of another object.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
@inline(never)
func copiedMethod() {
    let cell = deadCell()
    done(cell.account.deposit(3))
}

// case: A property is read.
// class: Shop.Account
// access: call|read|retain
// member: balance
@inline(never)
func copiedRead() {
    let cell = deadCell()
    done(cell.account.balance)
}

// case: A property is set.
// class: Shop.Account
// access: call|write|retain
// member: balance
@inline(never)
func copiedWrite() {
    let cell = deadCell()
    cell.account.balance = 4
    done(1)
}

// case: A property is modified in place.
// class: Shop.Account
// access: call|write|read|retain
// member: log
@inline(never)
func copiedAppend() {
    let cell = deadCell()
    cell.account.log.append(4)
    done(1)
}

// case: A final property is read by a direct load.
// class: Shop.Account
// access: read|retain
// member: rate
@inline(never)
func copiedFinalRead() {
    let cell = deadCell()
    done(cell.account.rate)
}

// case: A constant property (let) is read.
// class: Shop.Account
// access: call|read|retain
// member: number
// on O: silent=1 (the optimizer replaces the read by the constant 7)
@inline(never)
func copiedConstant() {
    let cell = deadCell()
    done(cell.account.number)
}

// case: A final method is called directly.
// class: Shop.Account
// access: call|retain
// member: sum()
// on O: access=call|read; member=balance (the method is inlined)
@inline(never)
func copiedFinalMethod() {
    let cell = deadCell()
    done(cell.account.sum())
}

// case: A computed property is read.
// class: Shop.Account
// access: call|read|retain
// member: doubled
// on O: member=doubled|balance (the getter may be inlined)
@inline(never)
func copiedComputed() {
    let cell = deadCell()
    done(cell.account.doubled)
}

// case: A computed property is modified.
// class: Shop.Account
// access: call|write|retain
// member: doubled
// on O: access=call|read|write; member=doubled|balance (the accessors may be inlined)
@inline(never)
func copiedModify() {
    let cell = deadCell()
    cell.account.doubled += 2
    done(1)
}

// case: A subscript is read.
// class: Shop.Account
// access: call|read|retain
// member: subscript(_:)
// on O: member=subscript(_:)|balance (the subscript may be inlined)
@inline(never)
func copiedSubscript() {
    let cell = deadCell()
    done(cell.account[3])
}

// case: A weak property is set.
// class: Shop.Account
// access: call|write|retain
// member: peer
@inline(never)
func copiedWeakSet() {
    let cell = deadCell()
    cell.account.peer = nil
    done(1)
}

// case: A method is called through an Unmanaged reference.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
@inline(never)
func copiedUnmanaged() {
    let cell = deadCell()
    done(cell.held.takeUnretainedValue().deposit(1))
}

// case: A C callback calls a method of its context object.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
// frame: *
@inline(never)
func copiedContext() {
    let cell = deadCell()
    done(opaque(callBack)(cell.held.toOpaque()))
}

// case: An inherited method is called on an object of a subclass.
// class: Shop.Savings
// access: call|retain
// member: sum()
// on O: access=call|read|retain; member=sum()|balance (the method may be inlined)
@inline(never)
func copiedInherited() {
    let savings = makeSavings()
    let held = Unmanaged.passUnretained(savings)
    drop(savings)
    done(opaque(held).takeUnretainedValue().sum())
}

// case: A protocol requirement is called.
// class: Shop.Screen
// access: call|retain|read
// member: tapped(_:)|count
// on Onone: access=retain; member=tapped(_:) (the call goes through the witness table)
@inline(never)
func copiedRequirement() {
    let cell = deadScreen()
    done(cell.sink.tapped(1))
}

// case: Observers in a list are called: optimized code loads the class pointer before it retains.
// class: Shop.Screen
// access: retain
// member: tapped(_:)
@inline(never)
func copiedFromList() {
    for slot in dropFirst(sinks()) { done(slot.sink.tapped(1)) }
}

// case: A constant property is read through a protocol that is not limited to classes.
// class: Shop.Tile
// access: retain
// member: layer
@inline(never)
func copiedOpaqueRequirement() {
    for slot in dropFirst(layers()) { done(slot.shape.layer) }
}

// case: A reference is consumed: unoptimized code retains and releases it twice before the call.
// class: Shop.Account
// access: call|read|retain
// member: deposit(_:)|balance
@inline(never)
func consumedUnmanaged() {
    let account = deadCell().held.takeRetainedValue()
    done(account.deposit(1))
}

// case: A property that a protocol requires is read.
// class: Shop.Screen
// access: call|retain|read
// member: title
@inline(never)
func copiedRequiredProperty() {
    let cell = deadScreen()
    done(cell.sink.title)
}

// case: A protocol extension method is called.
// class: Shop.Screen
// access: call|retain|read
// member: tapped(_:)|count
// frame: tappedTwice|copiedExtension
@inline(never)
func copiedExtension() {
    let cell = deadScreen()
    done(cell.sink.tappedTwice())
}

// case: A property of a generic class is read; its offset is known only from the class metadata.
// class: Shop.Vault<Swift.String>
// access: retain|read
// member: opened
@inline(never)
func copiedGenericRead() {
    let vault = makeVault("text")
    let held = Unmanaged.passUnretained(vault)
    drop(vault)
    done(opaque(held).takeUnretainedValue().opened)
}

// case: A method of a generic class is called.
// class: Shop.Vault<Swift.Array<Swift.Int>>
// access: retain|read|call
// member: open()|content
// on Onone: member=open() (unoptimized code inlines nothing)
@inline(never)
func copiedGenericMethod() {
    let vault = makeVault([1, 2])
    let held = Unmanaged.passUnretained(vault)
    drop(vault)
    done(opaque(held).takeUnretainedValue().open())
}

// case: A property of a non-final generic class is read.
// class: Shop.Drawer<Swift.Int>
// access: retain|read|call
// member: content
@inline(never)
func copiedDrawer() {
    let drawer = makeDrawer(5)
    let held = Unmanaged.passUnretained(drawer)
    drop(drawer)
    done(opaque(held).takeUnretainedValue().content)
}

// case: An optional reference is unwrapped by optional chaining.
// class: Shop.Branch
// access: retain|read
// member: depth|parent
// frame: *
@inline(never)
func copiedChain() {
    let branch = deadBranch()
    done(branch.depth)
}

// case: An optional reference is passed to Optional.map.
// class: Shop.Branch
// access: retain|read
// member: path()|parent
// on Onone: member=- (the reference is in memory that Optional.map passes to the closure)
// frame: copiedMap|path
@inline(never)
func copiedMap() {
    let branch = deadBranch()
    done(branch.path())
}

// case: A closure calls a method through an unowned(unsafe) property.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
@inline(never)
func copiedByClosure() {
    let cell = deadCell()
    let action = { cell.account.deposit(3) }
    done(opaque(action)())
}

// case: A closure calls a method through an unowned(unsafe) captured reference.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
// on Onone: member=-|deposit(_:) (the reference is loaded from the closure context)
@inline(never)
func copiedIntoClosure() {
    let cell = deadCell()
    let action = { [unowned(unsafe) account = cell.account] in account.deposit(3) }
    done(opaque(action)())
}

// case: A method of an array element is called.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
@inline(never)
func copiedElement() {
    let account = makeAccount()
    let accounts = opaque([account])
    dropAllReferences(address(account))
    done(accounts[0].deposit(2))
}

// case: A loop calls a method of each element of an array.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
// confidence: exact|inferred
@inline(never)
func copiedInLoop() {
    let account = makeAccount()
    let accounts = opaque([account, account])
    dropAllReferences(address(account))
    var sum = 0
    for each in accounts { sum += each.deposit(2) }
    done(sum)
}

// case: Array.map reads a property of each element.
// class: Shop.Account
// access: retain|call|read
// confidence: exact|inferred
// member: balance
@inline(never)
func copiedInMap() {
    let account = makeAccount()
    let accounts = opaque([account])
    dropAllReferences(address(account))
    done(accounts.map { $0.balance })
}

// case: A property of a dictionary value is read by optional chaining.
// class: Shop.Account
// access: retain|call|read
// confidence: exact|inferred
// member: name
@inline(never)
func copiedValue() {
    let account = makeAccount()
    let accounts = opaque(["key": account])
    dropAllReferences(address(account))
    done(accounts["key"]?.name ?? "none")
}

// case: The reference is passed to a function that calls a method.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
// frame: copiedArgument|depositTo
@inline(never)
func copiedArgument() {
    let cell = deadCell()
    done(depositTo(cell.account))
}

// case: An async method is called.
// class: Shop.Account
// access: retain|call
// confidence: exact|inferred
// member: settle()
// on O: access=call|read|retain; member=settle()|balance (the method may be inlined)
@inline(never)
func copiedAsync() async {
    let cell = deadCell()
    done(await cell.account.settle())
}

// case: The reference is only compared with ===, so no member is reported.
// class: Shop.Account
// access: retain
// member: -
// on O: silent=1 (no retain)
@inline(never)
func copiedIdentity() {
    let cell = deadCell()
    done(cell.account === cell)
}

// case: An unknown value decides between a read and a write of a property, so no member is reported.
// class: Shop.Account
// access: retain
// member: -
// on O: access=call|read|write|retain; member=* (the optimizer may omit the retain)
// frame: copiedEither|readOrWrite
@inline(never)
func copiedEither() {
    let cell = deadCell()
    done(readOrWrite(cell.account))
}

// case: A function that is called between the retain and the use might not return, so the member is inferred.
// class: Shop.Account
// access: retain
// confidence: inferred
// member: deposit(_:)
// on O: access=call|read|write|retain; confidence=exact|inferred; member=* (another access may happen first)
// on Onone-dynamic, aarch64: confidence=exact; member=- (passBy() saves the caller's x20 in its frame)
@inline(never)
func copiedBehind() {
    let cell = deadCell()
    let account = cell.account
    passBy()
    done(account.deposit(3))
}

// MARK: helpers

@inline(never)
@_optimize(none)
func makeAccount() -> Account { opaque(false) ? Savings() : Account() }

@inline(never)
@_optimize(none)
func makeSavings() -> Savings { Savings() }

@inline(never)
@_optimize(none)
func makeScreen() -> Screen { Screen() }

@inline(never)
@_optimize(none)
func makeVault<Content>(_ content: Content) -> Vault<Content> { Vault(content) }

@inline(never)
@_optimize(none)
func makeDrawer<Content>(_ content: Content) -> Drawer<Content> { Drawer(content) }

@inline(never)
@_optimize(none)
func makeBranch() -> Branch { Branch() }

/// Returns a cell whose account and screen have strong references only in `kept`.
@inline(never)
@_optimize(none)
func cell() -> Cell {
    let screen = makeScreen()
    let account = makeAccount()
    kept = [screen, account]
    return Cell(screen, account)
}

/// A cell whose account was freed.
@inline(never)
@_optimize(none)
func deadCell() -> Cell {
    let cell = cell()
    dropReference(cell.held.toOpaque())
    return cell
}

/// Returns the address of the first kept object. Not inlined, so that no reference in the caller outlives the drop.
@inline(never)
@_optimize(none)
func keptAddress() -> UnsafeRawPointer { address(kept[0]) }

@inline(never)
@_optimize(none)
func makeTile() -> Tile { Tile() }

/// Returns slots whose objects have strong references only in `kept`.
@inline(never)
@_optimize(none)
func sinks() -> [SinkSlot] {
    let screen = makeScreen()
    let panel = Panel()
    kept = [screen, panel]
    return [SinkSlot(sink: screen), SinkSlot(sink: panel)]
}

@inline(never)
@_optimize(none)
func layers() -> [LayerSlot] {
    let tile = makeTile()
    let frame = Frame()
    kept = [tile, frame]
    return [LayerSlot(shape: tile), LayerSlot(shape: frame)]
}

@inline(never)
@_optimize(none)
func dropFirst<Slot>(_ slots: [Slot]) -> [Slot] {
    dropReference(keptAddress())
    return slots
}

/// A cell whose screen was freed.
@inline(never)
@_optimize(none)
func deadScreen() -> Cell {
    let cell = cell()
    dropReference(keptAddress())
    return cell
}

@inline(never)
@_optimize(none)
func branch() -> Branch {
    let parent = makeBranch()
    let branch = makeBranch()
    branch.parent = parent
    kept = [parent]
    return branch
}

/// A branch whose parent was freed.
@inline(never)
@_optimize(none)
func deadBranch() -> Branch {
    let branch = branch()
    dropReference(keptAddress())
    return branch
}

@inline(never)
func depositTo(_ account: Account) -> Int { account.deposit(3) }

let callBack: @convention(c) (UnsafeMutableRawPointer?) -> Int = { context in
    Unmanaged<Account>.fromOpaque(context!).takeUnretainedValue().deposit(5)
}

@inline(never)
@_optimize(none)
func passBy() { if isatty(-1) == 1 { print("a terminal") } }

@inline(never)
@_optimize(none)
func readOrWrite(_ account: Account) -> Int {
    if isatty(-1) == 1 { return account.rate }
    account.rate = 7
    return 4
}
