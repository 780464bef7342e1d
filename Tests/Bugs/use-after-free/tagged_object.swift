// A method of a freed object is called through an unowned(unsafe) reference under MTE: the finding names the method.
// processor: aarch64
// options: profile=mte
// libs: -Xlinker --build-id -Xlinker -z -Xlinker now
// finding: use-after-free
// access: retain
// confidence: exact
// block: language=swift class=Shop.Account member=deposit(_:)
// stack-access: ~useCell
// stack-free: ~makeCell
// stack-alloc: ~makeAccount
// exit: 139

class Account {
    var balance = 1
    func deposit(_ amount: Int) -> Int {
        balance += amount
        return balance
    }
}

final class Cell {
    unowned(unsafe) var account: Account
    init(_ account: Account) { self.account = account }
}

nonisolated(unsafe) var kept: [Account] = []

@inline(never)
func makeAccount() -> Account { Account() }

@inline(never)
func makeCell() -> Cell {
    let account = makeAccount()
#if FIXED
    kept.append(account)
#endif
    return Cell(account)
}

@inline(never)
func useCell(_ cell: Cell) -> Int { cell.account.deposit(3) }

print("balance", useCell(makeCell()))
