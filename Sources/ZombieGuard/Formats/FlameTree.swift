// Merges stacks into a tree of calls, from which a flame graph is drawn.

/// A tree of calls. Each call has the sum of the amounts of all stacks that pass through it.
package struct FlameTree {
    /// A call as the picture names it.
    package struct Call: Hashable, Sendable {
        /// Not safe to print.
        package var name: String
        package var isLibraryCode: Bool

        package init(_ name: String, isLibraryCode: Bool = false) {
            self.name = name
            self.isLibraryCode = isLibraryCode
        }
    }

    package struct Node: Sendable {
        package var call: Call
        /// An amount for each measure, such as bytes and blocks.
        package var values: [UInt64]
        package var parent: Int
        package var children: [Int] = []
    }

    private struct Key: Hashable {
        var parent: Int
        var call: Call
    }

    /// Maximum depth of calls in the tree: browsers limit how deep elements nest.
    package static let mostDepth = 96

    /// The first node is the root, with the amounts of all stacks. Each node comes after its parent.
    package private(set) var nodes: [Node]
    private var numbers: [Key: Int] = [:]

    /// - Parameter measures: number of amounts of each stack.
    package init(measures: Int) {
        nodes = [Node(call: Call("all"), values: Array(repeating: 0, count: measures), parent: 0)]
    }

    /// Adds a stack.
    ///
    /// - Parameters:
    ///   - calls: the outermost call first.
    ///   - values: an amount for each measure.
    package mutating func add(_ calls: [Call], _ values: [UInt64]) {
        precondition(values.count == nodes[0].values.count)
        var at = 0
        count(values, at: at)
        for call in calls.prefix(Self.mostDepth) {
            let key = Key(parent: at, call: call)
            if let known = numbers[key] {
                at = known
            } else {
                nodes[at].children.append(nodes.count)
                numbers[key] = nodes.count
                nodes.append(Node(call: call, values: Array(repeating: 0, count: values.count), parent: at))
                at = nodes.count - 1
            }
            count(values, at: at)
        }
    }

    private mutating func count(_ values: [UInt64], at node: Int) {
        for (measure, value) in values.enumerated() { nodes[node].values[measure] &+= value }
    }
}
