// Retain and release of one live object, and nothing else: a guard must not slow this down at all.

final class Item {
    let number: Int
    init(_ number: Int) { self.number = number }
}

@inline(never)
@_optimize(none)
func give(_ item: Item) -> Item { item }  // retains; the caller releases

@main
struct Benchmark {
    static func main() {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        let item = Item(1)
        var sum = 0
        for _ in 0..<Int(110_000_000 * scale) { sum &+= give(item).number }
        print(sum)
    }
}
