// Passes references into class fields, out of arrays, through closures, existentials and weak loads. All objects stay
// alive.

protocol Part: AnyObject {
    var number: Int { get }
}

final class Item: Part {
    let number: Int
    weak var other: Item?
    init(_ number: Int) { self.number = number }
}

final class Desk {
    var left: Item
    var right: any Part
    var onLook: () -> Item
    init(_ item: Item) {
        left = item
        right = item
        onLook = { item }
    }
}

@main
struct Benchmark {
    static func main() {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        let items = (0..<64).map(Item.init)
        for (index, item) in items.enumerated() { item.other = items[(index + 1) % 64] }
        let desks = items.map(Desk.init)
        var sum = 0
        for round in 0..<Int(4_000_000 * scale) {
            let desk = desks[round & 63]
            desk.left = items[(round &* 7) & 63]
            desk.right = desk.left
            sum &+= desk.onLook().number &+ desk.right.number &+ (desk.left.other?.number ?? 0)
        }
        print(sum)
    }
}
