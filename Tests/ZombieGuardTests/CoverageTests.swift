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
        (["allocations": 7, "fenced_blocks": 7], "no block was freed; 100 % of the blocks were isolated"),
        // Memory tags watch a block as guard pages do.
        (
            ["allocations": 100, "tagged_blocks": 97, "fenced_blocks": 2],
            "no block was freed; 99 % of the blocks were tagged or isolated"
        ),
        (
            ["allocations": 7, "frees": 5, "guarded_at_once": 5, "pairs": 1, "pairs_watched": 1],
            "watched 1 of 1 allocation and free pair, 100 % of the frees at once"
        ),
        // Rounding: a part never becomes 100 %, and one in a million never becomes 0 %.
        (
            ["allocations": 1_000_000, "frees": 1_000_000, "guarded_at_once": 1, "pairs": 4120, "pairs_watched": 312],
            "watched 312 of 4,120 allocation and free pairs, 0.1 % of the frees at once"
        ),
        (
            [
                "allocations": 100_000, "frees": 100_000, "guarded_at_once": 99_999, "pairs": 1_234_567,
                "pairs_watched": 1_234_567,
            ], "watched 1,234,567 of 1,234,567 allocation and free pairs, 99 % of the frees at once"
        ),
        // Threads may publish their counters late; even then no part is shown as larger than its whole.
        (
            [
                "allocations": 100, "frees": 100, "guarded_at_once": 4, "guarded_later": 200, "pairs": 7,
                "pairs_watched": 9, "waiting_bytes_peak": 262_144, "children_unguarded": 1,
            ],
            "watched 7 of 7 allocation and free pairs, 4 % of the frees at once, 96 % within 256 KiB of other frees, 1 program ran unguarded"
        ),
        // Nothing is known of blocks that bypassed the runtime: their frees count as not guarded.
        (
            ["allocations": 1, "passed_blocks": 999, "fenced_blocks": 1],
            "no guarded block was freed; 0.1 % of the blocks were isolated"
        ),
        (
            [
                "allocations": 10, "unguarded_allocations": 40, "passed_blocks": 50, "frees": 10,
                "guarded_at_once": 10, "pairs": 3, "pairs_watched": 3,
            ],
            "watched 3 of 3 allocation and free pairs of the 10 % of the blocks that were guarded, 10 % of the frees at once"
        ),
        (
            [
                "allocations": .max, "frees": .max, "guarded_at_once": .max, "pairs": .max, "pairs_watched": .max - 1,
            ],
            "watched 18,446,744,073,709,551,614 of 18,446,744,073,709,551,615 allocation and free pairs, 100 % of the frees at once"
        ),
    ]

    @Test(arguments: shares) func sharesAreSaid(row: (counters: [String: UInt64], text: String)) {
        #expect(coverage(row.counters).text == row.text)
    }

    @Test func unknownProcessesAreSaidAndReachNothing() {
        var all = coverage(["allocations": 7, "frees": 7, "guarded_at_once": 7, "pairs": 3, "pairs_watched": 3])
        #expect(all.reaches(percent: 100))
        all.unknownProcesses = 2
        #expect(all.text.hasSuffix(" at once, 2 more processes reported no coverage"))
        #expect(!all.reaches(percent: 0.1) && all.reaches(percent: 0))
    }

    /// The required coverage is a share of pairs: it is missed if rare frees are unwatched, even if all blocks are
    /// isolated.
    @Test func requirementIsAboutPairs() {
        let busy = coverage([
            "allocations": 300_000, "fenced_blocks": 300_000, "contexts": 1, "contexts_fenced": 1, "frees": 300_000,
            "guarded_at_once": 64, "pairs": 2, "pairs_watched": 1,
        ])
        #expect(busy.stacksPermille == 1000 && busy.pairsPermille == 500 && !busy.reaches(percent: 90))
        #expect(busy.requirementText == "50 % of the allocation and free pairs were watched")
        #expect(coverage(["allocations": 5, "frees": 5]).pairsPermille == 0)
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
            "frees": 10, "pairs": 4, "pairs_watched": 4,
        ]
        #expect(coverage(counters, ["sample_rate": second]).stacksPermille == 10)
        #expect(coverage(counters, ["sample_rate": second]).pairsPermille == 10)
    }

    @Test func jsonNamesShareAndReason() throws {
        let text = coverage(
            [
                "allocations": 1000, "fenced_blocks": 145, "contexts": 100, "contexts_fenced": 61, "frees": 500,
                "guarded_at_once": 2, "guarded_later": 495, "pairs": 40, "pairs_watched": 3, "waiting_bytes_peak": 4096,
            ],
            ["fence_bytes": 5 * second], start: 4 * second
        ).json.line
        #expect(
            text
                == #"{"pairs":40,"pairs_watched":3,"pairs_percent":7.5,"frees":500,"frees_guarded_at_once_percent":0.4,"#
                + #""frees_guarded_later_percent":99,"waiting_bytes_most":4096,"#
                + #""stacks_percent":61,"blocks_percent":14.5,"stacks":100,"stacks_watched":61,"blocks":1000,"blocks_watched":145,"#
                + #""reason":"fence_bytes","reason_text":"isolated_bytes was used up","reason_ms":1000,"unguarded_programs":0,"exempt_programs":0,"#
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
        page.pointee.waiting_bytes_peak = 8 << 10
        withUnsafeMutableBytes(of: &page.pointee.sums) {
            let sums = $0.bindMemory(to: UInt64.self)
            sums[Int(zg_coverage_sum_allocations.rawValue)] = 200
            sums[Int(zg_coverage_sum_fenced_blocks.rawValue)] = 100
            sums[Int(zg_coverage_sum_frees.rawValue)] = 100
            sums[Int(zg_coverage_sum_guarded_at_once.rawValue)] = 50
            sums[Int(zg_coverage_sum_guarded_later.rawValue)] = 40
            sums[Int(zg_coverage_sum_pairs.rawValue)] = 10
            sums[Int(zg_coverage_sum_pairs_watched.rawValue)] = 9
        }
        withUnsafeMutableBytes(of: &page.pointee.first_ns) {
            $0.bindMemory(to: UInt64.self)[Int(zg_coverage_reason_fence_bytes.rawValue)] = 1
        }
        #expect(
            run.coverage?.text
                == "watched 9 of 10 allocation and free pairs, 50 % of the frees at once, 40 % within 8 KiB of other frees (isolated_bytes was used up at 0.0 s)"
        )
    }
}
