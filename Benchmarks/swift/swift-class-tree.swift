// Builds binary trees and releases their roots: deep recursion of releases.

final class Node {
    var left: Node?
    var right: Node?
    let number: Int

    init(depth: Int, _ number: Int) {
        self.number = number
        if depth > 0 {
            left = Node(depth: depth - 1, 2 * number)
            right = Node(depth: depth - 1, 2 * number + 1)
        }
    }

    var sum: Int { number &+ (left?.sum ?? 0) &+ (right?.sum ?? 0) }
}

@main
struct Benchmark {
    static func main() {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        var sum = 0
        let kept = Node(depth: 14, 1)
        for round in 0..<Int(200 * scale) { sum &+= Node(depth: round % 4 == 0 ? 15 : 12, round).sum }
        print(sum &+ kept.sum)
    }
}
