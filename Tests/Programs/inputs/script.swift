// For the interpreter (`swift script.swift`): the compiler's process executes this code without creating a file.
import Foundation

final class Node {
    var children: [Node] = []
    weak var parent: Node?
    let name: String
    init(name: String, parent: Node? = nil) { (self.name, self.parent) = (name, parent) }
    var path: String { (parent?.path ?? "") + "/" + name }
}

func grow(_ node: Node, depth: Int) -> Int {
    guard depth > 0 else { return node.path.utf8.count }
    node.children = (0..<4).map { Node(name: "n\($0)", parent: node) }
    return node.children.reduce(0) { $0 + grow($1, depth: depth - 1) }
}

print("arguments", CommandLine.arguments.dropFirst().joined(separator: " "))
print("tree", grow(Node(name: "root"), depth: 7))
var counts: [Substring: Int] = [:]
for line in 0..<20_000 {
    for word in "line \(line % 97) of \(line % 13) words".split(separator: " ") { counts[word, default: 0] += 1 }
}
print("counts", counts.sorted { ($0.value, $1.key) > ($1.value, $0.key) }.prefix(3).map { "\($0.key)=\($0.value)" })
print("json", try JSONSerialization.data(withJSONObject: ["a": [1, 2, 3]]).count)
exit(4)
