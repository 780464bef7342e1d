// Coverage of pairs over many runs of a build: logs, the file, the stacks passed to the runtime, and the report.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct PairCoverageTests {
    private func log(_ lines: String...) throws -> PairCoverage {
        try #require(PairCoverage(lines: Array(("zguard.coverage/1\n" + lines.joined(separator: "\n") + "\n").utf8)))
    }

    private var both: [String] {
        ["M 0 abcd /opt/a b", "M 1 - /lib/c.so", "S 10 0+1f 1+2 -", "S 20 1+3", "P 10 20", "W 10 20", "P 10 30"]
    }

    @Test func logIsRead() throws {
        let pairs = try #require(
            PairCoverage(lines: Array((["zguard.coverage/1"] + both).joined(separator: "\n").utf8)))
        #expect(pairs.modules == [.init(path: "/opt/a b", buildID: "abcd"), .init(path: "/lib/c.so", buildID: nil)])
        #expect(pairs.stacks[0x10] == [.init(module: 0, offset: 0x1f), .init(module: 1, offset: 2), nil])
        #expect(pairs.pairs[.init(alloc: 0x10, free: 0x20)] == .init(seen: 1, watched: 1))
        #expect(pairs.seenCount == 2 && pairs.watchedCount == 1)
    }

    @Test func otherFilesAndDamagedLines() throws {
        #expect(PairCoverage(lines: []) == nil && PairCoverage(lines: Array("zguard.coverage/2\nP 1 2".utf8)) == nil)
        let pairs = try log(
            "", "P", "P 1", "P x 2", "P 1 2 3", "P 1 2 -3 4", "W 1", "S", "S zz 0+1", "M 0", "M x - /a", "R 1", "Q 1 2",
            "P 11111111111111111111 2", "S 7 9+1 0+ +1", "P 3 4")
        #expect(pairs.pairs.keys.contains(.init(alloc: 3, free: 4)))
        #expect(pairs.stacks[7] == [nil, nil, nil] && pairs.modules.isEmpty)
        #expect(pairs.seenCount == 1 && pairs.watchedCount == 0)
    }

    @Test func runsAddUp() throws {
        var all = PairCoverage()
        all.add(run: try log("P 1 2", "P 1 2", "W 1 2", "P 3 4"))
        all.add(run: try log("P 3 4", "W 3 4", "P 5 6"))
        #expect(all.runs == [.init(pairs: 2, watched: 1), .init(pairs: 3, watched: 2)])
        #expect(all.pairs[.init(alloc: 1, free: 2)] == .init(seen: 1, watched: 1))
        #expect(all.pairs[.init(alloc: 3, free: 4)] == .init(seen: 2, watched: 1))
        // Each of the two runs watched one new pair. Ten more runs would watch ten more, but only one is unwatched.
        #expect(all.expectedInTenRuns == 1)
        let read = try #require(PairCoverage(lines: Array(all.lines.utf8)))
        #expect(read.lines == all.lines && read.runs == all.runs && read.pairs == all.pairs)
    }

    @Test func machinesAddUp() throws {
        var one = PairCoverage()
        var other = PairCoverage()
        one.add(run: try log("M 0 - /a", "S 1 0+1", "P 1 2", "W 1 2"))
        other.add(run: try log("M 0 - /b", "M 1 - /a", "S 3 0+7 1+8", "P 1 2", "P 3 4"))
        one.add(other)
        #expect(one.seenCount == 2 && one.watchedCount == 1 && one.runs.count == 2)
        #expect(one.runs.last == .init(pairs: 2, watched: 1))
        #expect(one.stacks[3] == [.init(module: 1, offset: 7), .init(module: 0, offset: 8)])
    }

    @Test func runtimeIsToldWhatWasWatched() throws {
        var all = PairCoverage()
        all.add(run: try log("P 11 2", "W 11 2", "P 20 2", "W 20 2", "P 20 3", "P 30 2"))
        let words = all.watchedStacks.withUnsafeBytes { Array($0.bindMemory(to: UInt64.self)) }
        #expect(words == [2, 0x10, 0x21])
    }

    @Test func directoryKeepsRuns() throws {
        let scratch = try Scratch()
        let directory = CoverageDirectory(scratch.path + "/new")
        try directory.create()
        try directory.create()
        #expect(try directory.read().runs.isEmpty)
        for _ in 0..<3 { try directory.add(run: try log("P 1 2")) }
        #expect(try directory.read().runs.count == 3)
        try "something else\n".write(toFile: scratch.path + "/new/pairs", atomically: true, encoding: .utf8)
        #expect(throws: SystemError(number: EINVAL)) { try directory.read() }
        #expect(throws: SystemError.self) { try CoverageDirectory(scratch.path + "/no/where").create() }
    }

    @Test func reportShowsRunsFilesAndPairs() throws {
        var all = PairCoverage()
        all.add(run: try log("M 0 - /opt/<app>", "S 1 0+1f", "S 2 0+20", "P 1 2", "W 1 2", "P 2 2"))
        all.add(run: try log("P 2 2"))
        let report = CoverageReport(all)
        #expect(report.text.hasPrefix("2 runs: watched 1 of 2 allocation and free pairs\n"))
        #expect(report.text.contains("<app>+0x20, <app>+0x20"))
        let json = try #require(try JSONSerialization.jsonObject(with: Data(report.json.utf8)) as? [String: Any])
        #expect(json["pairs"] as? Int == 2 && json["pairs_watched"] as? Int == 1)
        #expect((json["unwatched"] as? [[String: Any]])?.first?["runs"] as? Int == 2)
        #expect(report.html.contains("&lt;app&gt;+0x20") && !report.html.contains("<app>"))
    }
}
