// References that are copied before they are used, as code without optimisation does with nearly all: the retain is what faults, and
// what the copy was for is told by the code behind it.

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

// case: A method through an unsafe reference of another object.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
@inline(never)
func copiedMethod() {
    let cell = deadCell()
    done(cell.account.deposit(3))
}

// case: A property.
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

// case: A property is changed in place.
// class: Shop.Account
// access: call|write|read|retain
// member: log
@inline(never)
func copiedAppend() {
    let cell = deadCell()
    cell.account.log.append(4)
    done(1)
}

// case: A final property is read in place: its value cannot be told from others where nothing is retained.
// class: Shop.Account
// access: read|retain
// member: rate
@inline(never)
func copiedFinalRead() {
    let cell = deadCell()
    done(cell.account.rate)
}

// case: A constant.
// class: Shop.Account
// access: call|read|retain
// member: number
// on O: silent=1 (nothing is retained, and a plain value is read from what the object was filled with)
@inline(never)
func copiedConstant() {
    let cell = deadCell()
    done(cell.account.number)
}

// case: A method that is called directly.
// class: Shop.Account
// access: call|retain
// member: sum()
// on O: access=call|read; member=balance (it is inlined)
@inline(never)
func copiedFinalMethod() {
    let cell = deadCell()
    done(cell.account.sum())
}

// case: A computed property.
// class: Shop.Account
// access: call|read|retain
// member: doubled
// on O: member=doubled|balance (it may be inlined)
@inline(never)
func copiedComputed() {
    let cell = deadCell()
    done(cell.account.doubled)
}

// case: A computed property is changed.
// class: Shop.Account
// access: call|write|retain
// member: doubled
// on O: access=call|read|write; member=doubled|balance (it may be inlined)
@inline(never)
func copiedModify() {
    let cell = deadCell()
    cell.account.doubled += 2
    done(1)
}

// case: A subscript.
// class: Shop.Account
// access: call|read|retain
// member: subscript(_:)
// on O: member=subscript(_:)|balance (it may be inlined)
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

// case: An unmanaged reference.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
@inline(never)
func copiedUnmanaged() {
    let cell = deadCell()
    done(cell.held.takeUnretainedValue().deposit(1))
}

// case: The context of a callback.
// class: Shop.Account
// access: call|retain
// member: deposit(_:)
// frame: *
@inline(never)
func copiedContext() {
    let cell = deadCell()
    done(opaque(callBack)(cell.held.toOpaque()))
}

// case: A method of a subclass, and what it inherits.
// class: Shop.Savings
// access: call|retain
// member: sum()
// on O: access=call|read|retain; member=sum()|balance (it may be inlined)
@inline(never)
func copiedInherited() {
    let savings = makeSavings()
    let held = Unmanaged.passUnretained(savings)
    drop(savings)
    done(opaque(held).takeUnretainedValue().sum())
}

// case: A requirement of a protocol.
// class: Shop.Screen
// access: call|retain|read
// member: tapped(_:)|count
// on Onone: access=retain; member=tapped(_:) (it is called through the witness)
@inline(never)
func copiedRequirement() {
    let cell = deadScreen()
    done(cell.sink.tapped(1))
}

// case: A property that a protocol requires.
// class: Shop.Screen
// access: call|retain|read
// member: title
@inline(never)
func copiedRequiredProperty() {
    let cell = deadScreen()
    done(cell.sink.title)
}

// case: A method of a protocol's extension.
// class: Shop.Screen
// access: call|retain|read
// member: tapped(_:)|count
// frame: tappedTwice|copiedExtension
@inline(never)
func copiedExtension() {
    let cell = deadScreen()
    done(cell.sink.tappedTwice())
}

// case: A property of a generic class, whose place only its metadata knows.
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

// case: A method of a generic class.
// class: Shop.Vault<Swift.Array<Swift.Int>>
// access: retain|read|call
// member: open()|content
// on Onone: member=open() (nothing is inlined)
@inline(never)
func copiedGenericMethod() {
    let vault = makeVault([1, 2])
    let held = Unmanaged.passUnretained(vault)
    drop(vault)
    done(opaque(held).takeUnretainedValue().open())
}

// case: A property of a generic class that is not final.
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

// case: An optional reference, unwrapped in a chain.
// class: Shop.Branch
// access: retain|read
// member: depth|parent
// frame: *
@inline(never)
func copiedChain() {
    let branch = deadBranch()
    done(branch.depth)
}

// case: An optional reference, mapped.
// class: Shop.Branch
// access: retain|read
// member: path()|parent
// on Onone: member=- (it lies in memory of the library's map)
// frame: copiedMap|path
@inline(never)
func copiedMap() {
    let branch = deadBranch()
    done(branch.path())
}

// case: A closure uses it.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
@inline(never)
func copiedByClosure() {
    let cell = deadCell()
    let action = { cell.account.deposit(3) }
    done(opaque(action)())
}

// case: A closure has captured the reference itself.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
// on Onone: member=-|deposit(_:) (it lies in the closure's context)
@inline(never)
func copiedIntoClosure() {
    let cell = deadCell()
    let action = { [unowned(unsafe) account = cell.account] in account.deposit(3) }
    done(opaque(action)())
}

// case: An element of an array.
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

// case: A loop over an array.
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

// case: An array is mapped.
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

// case: A value of a dictionary, in a chain.
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

// case: An argument of another function.
// class: Shop.Account
// access: retain|call
// member: deposit(_:)
// frame: copiedArgument|depositTo
@inline(never)
func copiedArgument() {
    let cell = deadCell()
    done(depositTo(cell.account))
}

// case: An asynchronous method.
// class: Shop.Account
// access: retain|call
// confidence: exact|inferred
// member: settle()
// on O: access=call|read|retain; member=settle()|balance (it may be inlined)
@inline(never)
func copiedAsync() async {
    let cell = deadCell()
    done(await cell.account.settle())
}

// case: It is only compared: there is no member to name.
// class: Shop.Account
// access: retain
// member: -
// on O: silent=1 (nothing is retained)
@inline(never)
func copiedIdentity() {
    let cell = deadCell()
    done(cell.account === cell)
}

// case: What is not known decides between a read and a write of a property: neither is said.
// class: Shop.Account
// access: retain
// member: -
// on O: access=call|read|write|retain; member=* (nothing need be retained)
// frame: copiedEither|readOrWrite
@inline(never)
func copiedEither() {
    let cell = deadCell()
    done(readOrWrite(cell.account))
}

// case: A function of the program in between may never return: the member is not certain.
// class: Shop.Account
// access: retain
// confidence: inferred
// member: deposit(_:)
// on O: access=call|read|write|retain; confidence=exact|inferred; member=* (another access may come first)
// on Onone-dynamic, aarch64: confidence=exact; member=- (a function in between stores its caller's x20 in its frame, as one does that uses it)
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

/// The last references to account and screen are those in `kept`.
@inline(never)
@_optimize(none)
func cell() -> Cell {
    let screen = makeScreen()
    let account = makeAccount()
    kept = [screen, account]
    return Cell(screen, account)
}

/// A cell whose account is gone.
@inline(never)
@_optimize(none)
func deadCell() -> Cell {
    let cell = cell()
    dropReference(cell.held.toOpaque())
    return cell
}

/// By itself, so that no reference of the caller's outlives the drop.
@inline(never)
@_optimize(none)
func keptAddress() -> UnsafeRawPointer { address(kept[0]) }

/// A cell whose screen is gone.
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

/// A branch whose parent is gone.
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
