// Short-lived class instances: allocated and released at once.

final class Item {
    let number: Int
    var weight = 1.5
    var label: StaticString = "item"
    init(_ number: Int) { self.number = number }
}

@inline(never)
@_optimize(none)
func make(_ number: Int) -> Item { Item(number) }  // prevents allocation on the stack

@main
struct Benchmark {
    static func main() {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        var sum = 0
        for round in 0..<Int(25_000_000 * scale) { sum &+= make(round).number }
        print(sum)
    }
}
