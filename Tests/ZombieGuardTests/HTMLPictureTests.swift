// Pictures: the bytes of a block that are shown and marked, and the axes of a timeline.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HTMLPictureTests {
    private func finding(
        _ kind: Finding.Kind = .useAfterFree, size: UInt64, offset: Int64?, language: String? = nil,
        className: String? = nil,
        detail: [String: String] = [:], confidence: Finding.Confidence = .exact
    ) -> Finding {
        Finding(
            kind: kind, access: .read, confidence: confidence,
            block: Finding.Block(
                start: Address(0x1000), size: size, offset: offset, state: "quarantined", language: language,
                className: className), detail: detail)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var finding: Finding
        var touched: Range<Int64>?
        var window: Range<Int64>
        var isPartial = false
        var testDescription: String { name }
    }

    @Test func placesInABlock() throws {
        var elsewhere = finding(size: 48, offset: 8, confidence: .inferred)
        elsewhere.address = Address(0x5555_5555)
        let rows = [
            Row(name: "address of a value from the block", finding: elsewhere, touched: nil, window: -8..<56),
            Row(name: "middle", finding: finding(size: 48, offset: 16), touched: 16..<17, window: -8..<56),
            Row(name: "one byte", finding: finding(size: 1, offset: 0), touched: 0..<1, window: -8..<16),
            Row(name: "no bytes", finding: finding(size: 0, offset: 0), touched: 0..<1, window: -8..<16),
            Row(name: "before", finding: finding(size: 48, offset: -3), touched: -3 ..< -2, window: -8..<56),
            Row(name: "behind", finding: finding(size: 48, offset: 60), touched: 60..<61, window: -8..<64),
            Row(name: "fits", finding: finding(size: 96, offset: 95), touched: 95..<96, window: 0..<96),
            Row(
                name: "large", finding: finding(size: 1 << 30, offset: 1 << 29), touched: 1 << 29..<(1 << 29) + 1,
                window: (1 << 29) - 32..<(1 << 29) + 64, isPartial: true),
            Row(
                name: "last byte", finding: finding(size: 4096, offset: 4095), touched: 4095..<4096,
                window: 4008..<4104,
                isPartial: true),
            Row(
                name: "unknown place", finding: finding(size: 4096, offset: nil), touched: nil, window: -8..<88,
                isPartial: true),
            Row(name: "too far", finding: finding(size: 16, offset: 1 << 40), touched: nil, window: -8..<24),
            Row(
                name: "changed bytes",
                finding: finding(.writeAfterFree, size: 48, offset: 0, detail: ["offset": "8", "length": "5"]),
                touched: 8..<13, window: -8..<56),
            Row(
                name: "behind, by a call",
                finding: finding(
                    .heapOverflow, size: 48, offset: 48, detail: ["call": "send", "bytes": "58", "excess": "10"]),
                touched: 48..<58, window: -8..<64),
            Row(
                name: "reference count", finding: finding(size: 48, offset: 0, detail: ["part": "reference count"]),
                touched: 8..<16, window: -8..<56),
            Row(
                name: "word of contents",
                finding: finding(size: 48, offset: 0, detail: ["part": "contents", "offset": "24"]),
                touched: 24..<32, window: -8..<56),
            Row(
                name: "only inferred, and elsewhere", finding: finding(size: 48, offset: 4000, confidence: .inferred),
                touched: nil, window: -8..<56),
        ]
        for row in rows {
            let map = try #require(BlockMap(row.finding))
            #expect(
                map.touched == row.touched && map.window == row.window && map.isPartial == row.isPartial,
                "\(row.name): \(map)")
        }
        #expect(BlockMap(Finding(kind: .nullAccess)) == nil)
    }

    @Test func everyPictureCanBeDrawn() throws {
        let sizes: [UInt64] = [0, 1, 7, 8, 33, 95, 96, 97, 4096, 1 << 30, 1 << 60, .max]
        let offsets: [Int64?] = [nil, 0, 1, 8, 95, 96, 97, -1, -8, -97, -100_000, 1 << 20, .min, .max]
        let lengths: [[String: String]] = [
            [:], ["length": "9223372036854775807"], ["length": "-5"], ["call": "x", "bytes": "18446744073709551615"],
            ["part": "class pointer"], ["part": "contents", "offset": "-9223372036854775808"],
        ]
        for size in sizes {
            for offset in offsets {
                for detail in lengths {
                    let finding = finding(
                        .heapOverflow, size: size, offset: offset, language: "swift", className: "A", detail: detail)
                    let map = try #require(BlockMap(finding))
                    let words = (map.window.upperBound - map.window.lowerBound) / BlockMap.wordBytes
                    #expect(
                        (1...BlockMap.windowWords).contains(words) && map.window.lowerBound % BlockMap.wordBytes == 0)
                    if let touched = map.touched {
                        #expect(touched.overlaps(map.window), "\(size) \(offset ?? 0) \(detail)")
                    }
                    let svg = BlockPicture.pictures(finding, hasNarrow: true)
                    #expect(svg.matches(of: #/<svg /#).count == 2)
                    #expect(
                        !svg.contains("width=\"-") && !svg.contains("height=\"-"), "\(size) \(offset ?? 0) \(detail)")
                }
            }
        }
    }

    @Test func regionsOfAnObject() throws {
        let object = finding(size: 33, offset: 0, language: "swift", className: "Shop.Cart")
        let map = try #require(BlockMap(object))
        let regions = map.regions(headerBytes: 16).map { "\($0.range.lowerBound) \($0.region)" }
        #expect(regions == ["-8 before", "0 header", "16 body", "33 beyond"])
        #expect(object.block?.headerWords == ["class", "refs"])
        #expect(finding(size: 33, offset: 0, language: "c++", className: "A").block?.headerWords == ["vtable"])
        #expect(finding(size: 33, offset: 0, language: "swift").block?.headerWords == [])
    }

    @Test func captionSaysWhatWasTouched() throws {
        func caption(_ finding: Finding) throws -> String { try #require(BlockPicture(finding)).caption }
        #expect(try caption(finding(size: 48, offset: 50)) == "block of 48 bytes, read 2 bytes behind the block")
        #expect(try caption(finding(size: 48, offset: 48)) == "block of 48 bytes, read right behind the block")
        #expect(try caption(finding(size: 48, offset: -1)) == "block of 48 bytes, read 1 byte before the block")
        #expect(
            try caption(finding(.writeAfterFree, size: 4096, offset: 0, detail: ["offset": "8", "length": "2"]))
                == "block of 4 KiB, 2 bytes changed at +8")
        #expect(
            try caption(finding(.doubleFree, size: 48, offset: 0)) == "block of 48 bytes, pointer given to free at +0")
        #expect(
            try caption(finding(size: 48, offset: 0, language: "c++", detail: ["part": "class pointer"]))
                == "block of 48 bytes, read through the vtable pointer at +0")
    }

    // MARK: timeline

    private func samples(_ count: Int, every milliseconds: Int64 = 1000) -> [TimelineSample] {
        (0..<count).map { number in
            var sample = TimelineSample(time: Timestamp(milliseconds: Int64(number) * milliseconds), processID: 7)
            sample.liveBytes = UInt64(number) * 1000
            sample.quarantinedBytes = number == count / 2 ? 9_000_000 : 500
            return sample
        }
    }

    @Test func timelineNeedsTwoMoments() {
        #expect(TimelinePicture([], marks: []) == nil)
        #expect(TimelinePicture(samples(1), marks: []) == nil)
        #expect(TimelinePicture(samples(3, every: 0), marks: []) == nil)
        #expect(TimelinePicture(samples(2), marks: []) != nil)
    }

    @Test func manySamplesKeepTheirPeaks() throws {
        let figure = try #require(TimelinePicture(samples(100_000).shuffled(), marks: [])).figure
        #expect(figure.utf8.count < 60_000)
        #expect(figure.contains("12 MiB")) // the axis fits the one large value
    }

    @Test func findingsAreMarkedAtTheirTime() throws {
        let marks = [(2000, 1), (2000, 2), (500_000, 3)].map {
            TimelinePicture.Mark(time: Timestamp(milliseconds: $0.0), number: $0.1)
        }
        let figure = try #require(TimelinePicture(samples(5), marks: marks)).figure
        #expect(figure.contains("href=\"#f1\"") && figure.contains("href=\"#f2\""))
        #expect(!figure.contains("#f3")) // the mark is far behind the last sample, as after a change of the clock
        #expect(figure.matches(of: /class="ml"/).count == 1) // numbers do not overlap
    }

    @Test(arguments: [
        (UInt64(0), UInt64(3)), (3, 3), (4, 4), (5, 6), (1000, 1024), (1_500_000, 1_572_864), (.max, 1 << 62),
    ])
    func axisTops(largest: UInt64, top: UInt64) { #expect(TimelinePicture.axisTop(largest) == top) }

    @Test(arguments: [
        (Int64(1), Int64(1)), (900, 100), (60_000, 10_000), (3_600_000, 600_000), (86_400_000, 10_800_000),
    ])
    func timeSteps(span: Int64, step: Int64) { #expect(TimelinePicture.timeStep(span) == step) }
}
