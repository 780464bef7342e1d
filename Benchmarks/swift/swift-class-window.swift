// Class instances, of which the newest thousand stay alive.

class Item {
    let number: Int
    var weight = 1.5
    var next: Item?
    init(_ number: Int) { self.number = number }
}

final class Large: Item {
    var text = "a text that is part of the program"
    var numbers = (1, 2, 3, 4, 5, 6)
}

@main
struct Benchmark {
    static func main() {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        var window = (0..<1000).map { Item($0) }
        var sum = 0
        var at = 0
        for round in 0..<Int(24_000_000 * scale) {
            sum &+= window[at].number
            window[at] = round & 3 == 0 ? Large(round) : Item(round)
            at = at == 999 ? 0 : at + 1
        }
        print(sum)
    }
}
