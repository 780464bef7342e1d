// A directed graph in two flat arrays (compressed sparse rows).

/// Nodes are numbered from 0. The targets of node n are `targets[offsets[n]..<offsets[n + 1]]`.
package struct References {
    package let offsets: FlatArray<UInt32>
    package let targets: FlatArray<UInt32>

    package init(offsets: FlatArray<UInt32>, targets: FlatArray<UInt32>) {
        precondition(offsets.count > 0 && Int(offsets[offsets.count - 1]) == targets.count)
        self.offsets = offsets
        self.targets = targets
    }

    /// A graph from lists of targets.
    package init(_ lists: [[UInt32]]) {
        let offsets = FlatArray<UInt32>()
        let targets = FlatArray<UInt32>()
        for list in lists {
            offsets.append(UInt32(targets.count))
            for target in list { targets.append(target) }
        }
        offsets.append(UInt32(targets.count))
        self.init(offsets: offsets, targets: targets)
    }

    package var count: Int { offsets.count - 1 }

    @inline(__always)
    package func targets(of node: UInt32) -> UnsafeBufferPointer<UInt32> {
        let start = Int(offsets.base[Int(node)])
        return UnsafeBufferPointer(
            start: targets.base + start, count: Int(offsets.base[Int(node) &+ 1]) &- start)
    }

    // MARK: Reachability

    /// Sets `mark` in `marks` for all nodes that can be reached from `starts`. Does not visit nodes that already have a
    /// mark, and does not follow references of nodes for which `isOpaque` is true.
    package func reach(
        from starts: some Sequence<UInt32>, mark: UInt8, in marks: FlatArray<UInt8>,
        isOpaque: (UInt32) -> Bool = { _ in false },
        visit: (UInt32) -> Void = { _ in }
    ) {
        let pending = FlatArray<UInt32>()
        @inline(__always) func add(_ node: UInt32) {
            if marks.base[Int(node)] != 0 { return }
            marks.base[Int(node)] = mark
            visit(node)
            pending.append(node)
        }
        for start in starts {
            add(start)
            while pending.count > 0 {
                let node = pending.removeLast()
                if isOpaque(node) { continue }
                for target in targets(of: node) { add(target) }
            }
        }
    }

    // MARK: Strongly connected components

    /// The number of the strongly connected component of each node, and the number of components. A component's number
    /// is lower than those of the components that lead to it (Tarjan's algorithm, without recursion).
    package func components() -> (of: FlatArray<UInt32>, count: Int) {
        let unseen = UInt32.max
        let component = FlatArray<UInt32>(repeating: unseen, count: count)
        let index = FlatArray<UInt32>(repeating: unseen, count: count)
        let low = FlatArray<UInt32>(repeating: 0, count: count)
        let open = FlatArray<UInt32>() // nodes without a component yet
        let path = FlatArray<UInt32>() // nodes whose references are being followed
        let next = FlatArray<UInt32>() // for each node of `path`, the index of its next reference in `targets`
        var found: UInt32 = 0
        var components: UInt32 = 0
        for root in 0..<count where index.base[root] == unseen {
            path.append(UInt32(root))
            next.append(offsets.base[root])
            index.base[root] = found
            low.base[root] = found
            found += 1
            open.append(UInt32(root))
            while path.count > 0 {
                let node = Int(path.base[path.count - 1])
                let place = next.base[path.count - 1]
                if place < offsets.base[node + 1] {
                    next.base[path.count - 1] = place + 1
                    let target = Int(targets.base[Int(place)])
                    if index.base[target] == unseen {
                        index.base[target] = found
                        low.base[target] = found
                        found += 1
                        open.append(UInt32(target))
                        path.append(UInt32(target))
                        next.append(offsets.base[target])
                    } else if component.base[target] == unseen {
                        low.base[node] = min(low.base[node], index.base[target])
                    }
                    continue
                }
                _ = path.removeLast()
                _ = next.removeLast()
                if path.count > 0 {
                    let parent = Int(path.base[path.count - 1])
                    low.base[parent] = min(low.base[parent], low.base[node])
                }
                guard low.base[node] == index.base[node] else { continue }
                while true {
                    let member = Int(open.removeLast())
                    component.base[member] = components
                    if member == node { break }
                }
                components += 1
            }
        }
        return (component, Int(components))
    }

    // MARK: Cycles

    /// The shortest cycle that begins with a node and otherwise has only nodes for which `isInside` is true; nil if
    /// there is none. A node that refers to itself is a cycle of one.
    package func shortestCycle(
        through start: UInt32, atMost most: Int = .max, isInside: (UInt32) -> Bool
    ) -> [UInt32]? {
        var parents: [UInt32: UInt32] = [:]
        var level = [start]
        var length = 1
        while !level.isEmpty, length <= most {
            var following: [UInt32] = []
            for node in level {
                for target in targets(of: node) {
                    if target == start {
                        var cycle = [node]
                        while let last = cycle.last, last != start { cycle.append(parents[last]!) }
                        return cycle.reversed()
                    }
                    guard isInside(target), parents[target] == nil else { continue }
                    parents[target] = node
                    following.append(target)
                }
            }
            level = following
            length += 1
        }
        return nil
    }

    /// The shortest cycle through any of the nodes. Of 256 nodes or more only a part is tried, so the cycle may not be
    /// the shortest. `isInside` may accept nodes of other strongly connected components, because a path that leaves a
    /// component never returns to it.
    package func shortestCycle(through nodes: [UInt32], isInside: (UInt32) -> Bool = { _ in true }) -> [UInt32]? {
        let tried = 128
        var best: [UInt32]?
        let step = max(1, nodes.count / tried)
        for index in stride(from: 0, to: nodes.count, by: step) {
            let cycle = shortestCycle(
                through: nodes[index], atMost: best.map { $0.count - 1 } ?? .max, isInside: isInside)
            if let cycle, cycle.count < best?.count ?? .max { best = cycle }
            if best?.count ?? .max <= 2 { break }
        }
        return best
    }
}
