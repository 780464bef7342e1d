// Tests of the graph search: reachability, strongly connected components, shortest cycles.

import Testing

@testable import ZombieGuardGraph

@Suite struct ReferencesTests {
    @Test func reachesExactlyWhatStartsLeadTo() {
        let graph = References([[1, 2], [3], [3], [], [5], [4], []])
        let marks = FlatArray<UInt8>(repeating: 0, count: graph.count)
        graph.reach(from: [0], mark: 1, in: marks)
        #expect(Array(marks.elements) == [1, 1, 1, 1, 0, 0, 0])
        graph.reach(from: [4], mark: 2, in: marks)
        #expect(Array(marks.elements) == [1, 1, 1, 1, 2, 2, 0])
    }

    @Test func opaqueNodesAreReachedButNotFollowed() {
        let graph = References([[1], [2], []])
        let marks = FlatArray<UInt8>(repeating: 0, count: graph.count)
        graph.reach(from: [0], mark: 1, in: marks, isOpaque: { $0 == 1 })
        #expect(Array(marks.elements) == [1, 1, 0])
    }

    @Test func findsComponents() {
        // 0 → (1 ⇄ 2) → (3 → 4 → 5 → 3), 6 alone
        let graph = References([[1], [2], [1, 3], [4], [5], [3], []])
        let (component, count) = graph.components()
        #expect(count == 4)
        #expect(component[1] == component[2])
        #expect(component[3] == component[4] && component[4] == component[5])
        #expect(Set([component[0], component[1], component[3], component[6]]).count == 4)
        // A component's number is lower than those of the components that lead to it.
        #expect(component[3] < component[1] && component[1] < component[0])
    }

    @Test func componentsOfALongChainNeedNoRecursion() {
        let length = 300_000
        var lists = (0..<length).map { [UInt32($0 + 1)] }
        lists.append([])
        #expect(References(lists).components().count == length + 1)
        lists[length] = [0]
        #expect(References(lists).components().count == 1)
    }

    @Test func componentsEqualMutualReachability() {
        var seed: UInt64 = 7
        func random(_ limit: Int) -> Int {
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(seed >> 33) % limit
        }
        for _ in 0..<200 {
            let count = 1 + random(12)
            let graph = References((0..<count).map { _ in (0..<random(4)).map { _ in UInt32(random(count)) } })
            let reached = (0..<count).map { start in
                let marks = FlatArray<UInt8>(repeating: 0, count: count)
                graph.reach(from: [UInt32(start)], mark: 1, in: marks)
                return Array(marks.elements)
            }
            let (component, _) = graph.components()
            for a in 0..<count {
                for b in 0..<count {
                    #expect((component[a] == component[b]) == (reached[a][b] == 1 && reached[b][a] == 1))
                }
            }
        }
    }

    @Test func findsTheShortestCycle() {
        // 0 → 1 → 2 → 3 → 0, with the short cut 1 → 3
        let graph = References([[1], [2, 3], [3], [0]])
        #expect(graph.shortestCycle(through: 0) { _ in true } == [0, 1, 3])
        #expect(graph.shortestCycle(through: [0, 1, 2, 3])?.count == 3)
    }

    @Test func findsSelfReferences() {
        let graph = References([[0], [0]])
        #expect(graph.shortestCycle(through: 0) { _ in true } == [0])
        #expect(graph.shortestCycle(through: 1) { _ in true } == nil)
    }

    @Test func staysInsideTheGivenNodes() {
        let graph = References([[1], [0, 2], [0]])
        #expect(graph.shortestCycle(through: 2) { $0 != 1 } == nil)
    }
}
