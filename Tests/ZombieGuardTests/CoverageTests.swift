// Coverage: shares of watched blocks, the reason for missing coverage, and its sentence.

import CZombie
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct CoverageTests {
    private let second: UInt64 = 1_000_000_000

    private func coverage(_ counters: [String: UInt64], _ times: [String: UInt64] = [:], start: UInt64 = 0) -> Coverage
    {
        let reasons = Coverage.Reason.table.map { times[$0.name] ?? 0 }
        return Coverage(counter: { counters[$0] ?? 0 }, firstTimes: reasons, start: start)
    }

    static let shares: [(counters: [String: UInt64], text: String)] = [
        ([:], "no block was allocated"),
        (
            ["allocations": 7, "fenced_blocks": 7, "contexts": 3, "contexts_fenced": 3],
            "100 % of the blocks, from 100 % of the allocation stacks, were isolated"
        ),
        (
            ["allocations": 1000, "fenced_blocks": 140, "contexts": 100, "contexts_fenced": 61],
            "14 % of the blocks, from 61 % of the allocation stacks, were isolated"
        ),
        // Memory tags watch a block as guard pages do.
        (
            ["allocations": 100, "tagged_blocks": 97, "fenced_blocks": 2, "contexts": 10, "contexts_fenced": 9],
            "99 % of the blocks, from 90 % of the allocation stacks, were tagged or isolated"
        ),
        // Rounding: a part of the blocks never becomes 100 %, and one in a million never becomes 0 %.
        (
            ["allocations": 1_000_000, "fenced_blocks": 1, "contexts": 100_000, "contexts_fenced": 99_999],
            "0.1 % of the blocks, from 99 % of the allocation stacks, were isolated"
        ),
        (
            ["allocations": 1000, "fenced_blocks": 45],
            "4.5 % of the blocks, from 0 % of the allocation stacks, were isolated"
        ),
        // Blocks from the program's own allocator count as blocks, too. Threads may publish their counters late.
        (
            [
                "allocations": 5, "unguarded_allocations": 10, "passed_blocks": 5, "fenced_blocks": 6, "contexts": 1,
                "contexts_fenced": 2, "children_unguarded": 1,
            ], "30 % of the blocks, from 100 % of the allocation stacks, were isolated, 1 program ran unguarded"
        ),
        (
            ["allocations": .max, "fenced_blocks": .max, "contexts": .max, "contexts_fenced": .max - 1],
            "100 % of the blocks, from 99 % of the allocation stacks, were isolated"
        ),
    ]

    @Test(arguments: shares) func sharesAreSaid(row: (counters: [String: UInt64], text: String)) {
        #expect(coverage(row.counters).text == row.text)
    }

    @Test func unknownProcessesAreSaidAndReachNothing() {
        var all = coverage(["allocations": 7, "fenced_blocks": 7, "contexts": 3, "contexts_fenced": 3])
        #expect(all.reaches(percent: 100))
        all.unknownProcesses = 2
        #expect(all.text.hasSuffix(", were isolated, 2 more processes reported no coverage"))
        #expect(!all.reaches(percent: 0.1) && all.reaches(percent: 0))
    }

    private let some: [String: UInt64] = ["allocations": 10, "fenced_blocks": 5, "contexts": 4, "contexts_fenced": 2]

    @Test func theFirstEventIsToldUnlessThereIsACause() {
        let events = ["fence_bytes": 9 * second, "mappings": 5 * second, "fence_per_context": 2 * second]
        let told = coverage(some, events, start: 4_200_000_000)
        #expect(told.reason?.name == "mappings")
        #expect(told.text.hasSuffix(" (the mappings for protected pages were used up at 0.8 s)"))
        #expect(coverage(some, events.merging(["off": 9 * second]) { $1 }).reason?.name == "off")
        #expect(coverage(some, ["fence_per_context": second]).reason?.sentence.contains(" at ") == false)
        // Full coverage needs no reason.
        #expect(coverage(["allocations": 5, "fenced_blocks": 5], events).reason == nil)
        // The clock was set back.
        #expect(coverage(some, events, start: 100 * second).reason?.seconds == 0)
    }

    static let times: [(nanoseconds: UInt64, text: String)] = [
        (4_400_000, "0.004 s"), (800_000_000, "0.8 s"), (9_940_000_000, "9.9 s"), (59_000_000_000, "59 s"),
        (303_000_000_000, "5 min 3 s"),
    ]

    @Test(arguments: times) func timesAreShort(row: (nanoseconds: UInt64, text: String)) {
        #expect(coverage(some, ["pressure": row.nanoseconds]).text.hasSuffix(" (memory ran short at \(row.text))"))
    }

    @Test func anotherAllocatorLeavesNothingToWatch() {
        let none = coverage([:], ["other_allocator": second])
        #expect(none.text == "no block was watched (another allocator serves the program)")
        #expect(none.stacksPermille == 0 && !none.reaches(percent: 1))
        #expect(coverage(some, ["other_allocator": second]).reason == nil)
    }

    @Test func sampledBlocksSayNothingOfOtherStacks() {
        let counters: [String: UInt64] = [
            "allocations": 10, "passed_blocks": 990, "fenced_blocks": 10, "contexts": 4, "contexts_fenced": 4,
        ]
        #expect(coverage(counters, ["sample_rate": second]).stacksPermille == 10)
    }

    @Test func jsonNamesShareAndReason() throws {
        let text = coverage(
            ["allocations": 1000, "fenced_blocks": 145, "contexts": 100, "contexts_fenced": 61],
            ["fence_bytes": 5 * second], start: 4 * second
        ).json.line
        #expect(
            text
                == #"{"stacks_percent":61,"blocks_percent":14.5,"stacks":100,"stacks_watched":61,"blocks":1000,"blocks_watched":145,"#
                + #""reason":"fence_bytes","reason_text":"isolated_bytes was used up","reason_ms":1000,"unguarded_programs":0,"#
                + #""filtered_programs":0,"unknown_processes":0}"#)
        let all = coverage(["allocations": 1, "fenced_blocks": 1, "contexts": 1, "contexts_fenced": 1]).json.line
        #expect(all.contains(#""reason":null,"reason_text":null,"reason_ms":null"#))
    }

    @Test func reasonsHaveNamesAndTexts() {
        let table = Coverage.Reason.table
        #expect(table.count == Int(zg_coverage_reason_count.rawValue))
        #expect(Set(table.map(\.name)).count == table.count)
        #expect(table.allSatisfy { !$0.text.isEmpty && !$0.text.hasSuffix(".") })
    }

    @Test func documentHasTheReasons() throws {
        let rows = try ProjectFiles().table("`reason`", of: "docs/COVERAGE.md")
        #expect(rows.map { $0[0] } == Coverage.Reason.table.map { "`\($0.name)`" })
        #expect(rows.map { $0.last == "yes" } == Coverage.Reason.table.map { $0.kind == .event })
        let keys = try ProjectFiles().table("key of `coverage`", of: "docs/COVERAGE.md").flatMap {
            $0[0].split(separator: ", ")
        }
        let documented = try Set(self.keys(of: Coverage().json))
        #expect(Set(keys.map { $0.filter { $0 != "`" } }) == documented)
    }

    private func keys(of json: JSONText) throws -> [String] {
        let object = try JSONSerialization.jsonObject(with: Data(json.line.utf8)) as? [String: Any]
        return try #require(object).keys.sorted()
    }

    @Test func requiredShares() throws {
        for (text, value) in [("90%", 90), ("90", 90), ("0", 0), ("100%", 100), ("99.5%", 99.5), ("007", 7)] {
            #expect(try RunCommand.percentage(text) == value)
        }
        for bad in ["", "%", "101", "100.1", "5.55", ".5", "5.", "-1", "+1", "1e1", "90 %", "90%%", "nan", "0x10", "٩"]
        {
            #expect(throws: Failure.self, "\(bad)") { try RunCommand.percentage(bad) }
        }
    }

    @Test func pageOfARunIsReadThroughItsLink() throws {
        let scratch = try Scratch()
        let run = try RunCoverage(at: scratch.path + "/page")
        // No program has reported to the page yet.
        #expect(run.coverage == nil)
        let file = try Descriptor(opening: scratch.path + "/page", flags: O_RDWR)
        #expect(ftruncate(file.number, 0) != 0 && ftruncate(file.number, 1 << 20) != 0)
        let mapped = mmap(nil, Int(ZG_COVERAGE_BYTES), PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0)
        let page = try #require(mapped).bindMemory(to: zg_coverage_page.self, capacity: 1)
        defer { munmap(mapped, Int(ZG_COVERAGE_BYTES)) }
        #expect(page.pointee.version == UInt32(ZG_STATS_VERSION))
        page.pointee.programs = 1
        withUnsafeMutableBytes(of: &page.pointee.sums) {
            let sums = $0.bindMemory(to: UInt64.self)
            sums[Int(zg_coverage_sum_allocations.rawValue)] = 200
            sums[Int(zg_coverage_sum_fenced_blocks.rawValue)] = 100
            sums[Int(zg_coverage_sum_contexts.rawValue)] = 10
            sums[Int(zg_coverage_sum_contexts_fenced.rawValue)] = 9
        }
        withUnsafeMutableBytes(of: &page.pointee.first_ns) {
            $0.bindMemory(to: UInt64.self)[Int(zg_coverage_reason_fence_bytes.rawValue)] = 1
        }
        #expect(
            run.coverage?.text
                == "50 % of the blocks, from 90 % of the allocation stacks, were isolated (isolated_bytes was used up at 0.0 s)"
        )
    }
}
