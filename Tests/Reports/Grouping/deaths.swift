// Ways to die that have different signatures, and ways that are one bug, for grouping.py; the argument chooses the way.
// grouping.py inserts code at the UNRELATED markers.

// UNRELATED 1

final class Cart {
    var items: [Int] = []
    @inline(never) func first(_ index: Int) -> Int { items[index] + 1 }
}

struct NoItems: Error { var order: Int }
struct NoPrice: Error { var order: Int }

@inline(never) func end(_ how: String, _ number: Int) -> Int {
    let items = [1, 2, 3]
    // UNRELATED line
    switch how {
    case "fatal": fatalError("order \(number) has no items")
    case "fatal-other": fatalError("order \(number) has no price")
    case "index": return items[number]
    case "add": return Int.max + number
    case "divide": return 17 / (number - number)
    case "nil": return Int(how)!
    default: return 0
    }
}

@inline(never) func order(_ how: String, _ number: Int) throws -> Int {
    if how == "error" { throw NoItems(order: number) }
    if how == "error-other" { throw NoPrice(order: number) }
    return 0
}

@inline(never) func take(_ how: String, _ number: Int) -> Int { try! order(how, number) + 1 }

// UNRELATED 2

let how = CommandLine.arguments.count > 1 ? CommandLine.arguments[1] : ""
let number = CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2])! : 17
print(how == "cart" ? Cart().first(number) : end(how, number) + take(how, number))
