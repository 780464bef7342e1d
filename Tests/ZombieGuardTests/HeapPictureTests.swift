// Pictures of a heap and of a finding's holders: layouts of treemap and flame graph, and the text in them.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HeapPictureTests {
    // MARK: treemap

    private static let area = Treemap.Rectangle(x: 0, y: 0, width: 1140, height: 320)

    static let amounts: [[Double]] = [
        [1], [5, 5], [100, 1], [6, 6, 4, 3, 2, 2, 1], Array(repeating: 1, count: 100), [1e15, 1, 1, 1],
        (1...60).map { 1e9 / Double($0 * $0 * $0) }, (0..<60).map { Double(UInt64.max >> UInt64($0)) },
    ]

    @Test(arguments: amounts) func areasAreProportionalAndInside(values: [Double]) {
        let places = Treemap.layout(values, in: Self.area)
        #expect(places.count == values.count)
        let total = values.reduce(0, +)
        let whole = Self.area.width * Self.area.height
        for (value, place) in zip(values, places) {
            #expect(abs(place.width * place.height / whole - value / total) < 1e-9)
            #expect(place.x >= -1e-6 && place.y >= -1e-6 && place.width >= 0 && place.height >= 0)
            #expect(
                place.x + place.width <= Self.area.width + 1e-6 && place.y + place.height <= Self.area.height + 1e-6)
        }
        for (number, one) in places.enumerated() {
            for other in places[..<number] {
                let width = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
                let height = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
                #expect(width < 1e-6 || height < 1e-6, "\(one) covers \(other)")
            }
        }
    }

    @Test func equalValuesAreNearlySquares() {
        let places = Treemap.layout(Array(repeating: 1, count: 30), in: Self.area)
        #expect(places.allSatisfy { max($0.width / $0.height, $0.height / $0.width) < 2 })
    }

    private func item(_ name: String, _ value: UInt64) -> Treemap.Item {
        Treemap.Item(name, detail: "\(value) B", note: " · 1 block", value: value)
    }

    @Test func smallClassesAreOneRectangle() {
        let items = (1...200).map { item("C\($0)", UInt64($0) * 100) } + [item("none", 0), item("small", 1)]
        let drawn = Treemap(items) { "\($0) B" }.items
        #expect(drawn.count == Treemap.mostItems + 1)
        #expect(drawn.first?.name == "C200" && drawn.last?.name == "141 others")
        #expect(drawn.reduce(0) { $0 + $1.value } == items.reduce(0) { $0 + $1.value })
        #expect(Treemap([item("none", 0)]) { "\($0)" }.figure(caption: "x") == "")
    }

    @Test func namesAreEscaped() {
        let text = Treemap([item("<script>alert(1)</script>", 9), item("A\u{1b}[31m\"'&", 8)]) { "\($0)" }
            .figure(caption: "of <b>\"x\"</b>")
        #expect(!text.contains("<script") && !text.contains("<b>") && !text.contains("\u{1b}"))
        #expect(text.contains("&lt;script&gt;alert(1)&lt;/script&gt; · 9 B"))
        #expect(text.contains("aria-label=\"of &lt;b&gt;&quot;x&quot;&lt;/b&gt;\""))
    }

    // MARK: flame graph

    private static let measures = [FlameGraph.Measure("bytes") { "\($0) B" }, FlameGraph.Measure("blocks") { "\($0)" }]

    private func calls(_ names: String) -> [FlameTree.Call] {
        names.split(separator: " ").map { FlameTree.Call(String($0)) }
    }

    private func tree(_ stacks: [(String, [UInt64])]) -> FlameTree {
        var tree = FlameTree(measures: 2)
        for (names, values) in stacks { tree.add(calls(names), values) }
        return tree
    }

    @Test func stacksAreMerged() throws {
        let tree = tree([("main a b", [60, 1]), ("main a", [30, 2]), ("main c", [10, 7]), ("", [0, 0])])
        let root = FlameGraph(tree, Self.measures).root
        #expect(root.values == [100, 10] && root.count == 5 && root.depth == 4)
        let main = try #require(root.children.first)
        #expect(main.spans == [.init(start: 0, width: 1), .init(start: 0, width: 1)])
        #expect(main.children.map(\.values) == [[90, 3], [10, 7]])
        let rounded = main.children.map { $0.spans.map { [$0.start, $0.width].map { ($0 * 1000).rounded() } } }
        #expect(rounded == [[[0, 900], [0, 300]], [[900, 100], [300, 700]]])
        #expect(main.children[0].children.map(\.values) == [[60, 1]])
    }

    // Checks that every box lies inside its caller's, that no boxes overlap, and that widths match the amounts.
    private func check(_ box: FlameGraph.Box) {
        for measure in box.values.indices {
            var end = 0.0
            for child in box.children {
                let span = child.spans[measure]
                #expect(span.start >= end - 1e-9 && span.width >= 0 && span.start + span.width <= 1 + 1e-9)
                if box.values[measure] > 0 {
                    #expect(abs(span.width - Double(child.values[measure]) / Double(box.values[measure])) < 1e-9)
                }
                end = span.start + span.width
            }
            #expect(box.children.reduce(0) { $0 + $1.values[measure] } <= box.values[measure])
        }
        for child in box.children { check(child) }
    }

    @Test func manyStacksStayInBounds() {
        var stacks: [(String, [UInt64])] = []
        for number in 0..<20_000 {
            let digits = String(number).map { "f\($0)" }.joined(separator: " ")
            stacks.append(("main \(digits)", [UInt64(number % 97) * 16, UInt64(number % 5)]))
        }
        let root = FlameGraph(tree(stacks), Self.measures).root
        check(root)
        #expect(root.count <= 2 * FlameGraph.mostBoxes + 1 && root.count > 1000)
        #expect(root.values == [stacks.reduce(0) { $0 + $1.1[0] }, stacks.reduce(0) { $0 + $1.1[1] }])
        // Functions too small to be drawn are counted in their caller's box.
        func omitted(_ box: FlameGraph.Box) -> Int { box.omitted + box.children.reduce(0) { $0 + omitted($1) } }
        #expect(omitted(root) > 0)
    }

    @Test func deepStacksAreCut() {
        let deep = (0..<5000).map { "f\($0)" }.joined(separator: " ")
        let root = FlameGraph(tree([(deep, [5, 1])]), Self.measures).root
        #expect(root.depth == FlameTree.mostDepth + 1)
        check(root)
    }

    @Test func nothingIsDrawnOfNothing() {
        check(FlameGraph(FlameTree(measures: 2), Self.measures).root)
        let text = FlameGraph(tree([("main", [0, 0])]), Self.measures).figure(caption: "")
        #expect(!text.contains("nan") && !text.contains("inf"))
    }

    @Test func callsAreEscaped() {
        let hostile = "</title><script>alert('1')</script>\u{1b}"
        var tree = FlameTree(measures: 2)
        tree.add([FlameTree.Call(hostile)], [9, 1])
        let text = FlameGraph(tree, Self.measures).figure(caption: hostile)
        #expect(!text.contains("<script") && !text.contains("\u{1b}") && !text.contains("alert('"))
        #expect(text.contains("&lt;/title&gt;&lt;script&gt;"))
    }

    // MARK: holders

    private static let block = Finding.Block(start: Address(0x100), size: 48, offset: 16, state: "live")

    private func page(_ holder: Finding.Holder) -> String {
        var finding = Finding(
            kind: .useAfterFree,
            block: Finding.Block(start: Address(0x900), size: 32, state: "quarantined", className: "Shop.<Listener>"))
        finding.holders = [holder]
        return HTMLFinding.article(of: finding)
    }

    @Test func pathLeadsFromRootToFreedBlock() throws {
        var field = Finding.Holder(
            place: "field", className: "Shop.Feed", member: "listener", block: Self.block, isTyped: true)
        field.path = [
            Finding.Holder(place: "element", className: "[Shop.<Feed>]", block: Self.block, isTyped: true),
            Finding.Holder(
                place: "global", symbol: "feeds", frame: Finding.Frame(pc: Address(5), module: "/l/libshop.so")),
        ]
        let text = page(field)
        let names = text.matches(of: /<li class="([a-z ]+)"><div><i>([^<]*)<\/i><b>([^<]*)<\/b>/).map {
            "\($0.1): \($0.2) \($0.3)"
        }
        #expect(
            names == [
                "root loose: global (libshop.so) feeds", "object: [Shop.&lt;Feed&gt;] [element]",
                "object: Feed .listener", "freed: freed Shop.&lt;Listener&gt;",
            ])
        field.path = []
        #expect(page(field).contains("<li class=\"unknown\">"))
        #expect(!page(field.path.first ?? Finding.Holder(place: "stack")).contains("<li class=\"unknown\">"))
    }

    @Test func stepsOfAPathHaveNoPath() throws {
        let step = #"{"where":"global","typed":false,"count":1,"path":[{"where":"field"}]}"#
        let line =
            #"{"schema":"zguard.finding/1","kind":"use-after-free","access":"read","confidence":"exact","holders":[{"where":"field","typed":true,"count":1,"path":[\#(step)]}]}"#
        let finding = try Finding(parsing: line)
        #expect(finding.holders?.first?.path.map(\.place) == ["global"])
        #expect(finding.holders?.first?.path.first?.path == [])
        #expect(try Finding(parsing: finding.jsonLine).holders == finding.holders)
    }

    @Test func groupsHaveNoAddress() {
        #expect(
            withoutAddresses("a freed block of 48 bytes at 0x7f10 was read, in f (a.c:1)")
                == "a freed block of 48 bytes was read, in f (a.c:1)")
        #expect(withoutAddresses("Cart (48 bytes at 0x7f10) at 0xzz") == "Cart (48 bytes) at 0xzz")
        #expect(withoutAddresses("nothing") == "nothing")
    }
}
