// Finding groups: their size stays bounded, counts are right, and groups of several sources merge.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct GroupsTests {
    private func finding(_ function: String, count: Int = 1, time: String? = nil, process: Int = 1) -> Finding {
        var finding = Finding.sample()
        finding.stacks.access = [.named(function)]
        finding.count = count
        finding.time = time
        finding.processID = process
        return finding
    }

    @Test func countsNeverOverflow() {
        var groups = FindingGroups()
        groups.add(finding("a", count: .max))
        groups.add(finding("a", count: .max))
        groups.add(finding("b", count: .max))
        #expect(groups.findings.map(\.count) == [.max, .max])
        #expect(groups.occurrences == .max)
        #expect(groups.summary == "2 findings (2 double-free, seen \(Int.max) times)")
        #expect(Int.min.addingSaturated(-1) == .min && 2.addingSaturated(3) == 5)
    }

    @Test func whatIsBeyondTheLimitIsCountedAndSaid() {
        var limits = FindingGroups.Limits()
        limits.groups = 2
        var groups = FindingGroups(limits: limits)
        for function in ["a", "b", "c", "a", "c", "d", "b"] { groups.add(finding(function)) }
        #expect(groups.isFull)
        #expect(groups.findings.map(\.count) == [2, 2])
        #expect(groups.further == 3 && groups.occurrences == 7)
        #expect(groups.summary == "2 findings (2 double-free, 3 of further bugs counted but not stored, seen 7 times)")
    }

    @Test func stacksAreBoundedByTheirSize() {
        var limits = FindingGroups.Limits()
        limits.bytes = 1 << 20
        var groups = FindingGroups(limits: limits)
        for number in 0..<40 {
            var finding = finding("f\(number)")
            finding.stacks.free = (0..<1000).map { .unnamed("/lib/a.so", UInt64(number * 1000 + $0)) }
            groups.add(finding)
        }
        #expect((5...20).contains(groups.findings.count))
        #expect(groups.findings.count + groups.further == 40)
    }

    @Test func textsOfManyGroupsBoundMemoryToo() {
        var limits = FindingGroups.Limits()
        limits.bytes = 1 << 20
        var groups = FindingGroups(limits: limits)
        for number in 0..<100 {
            groups.add(finding(String(repeating: "x", count: 100_000) + "\(number)"))
        }
        #expect((5...15).contains(groups.findings.count))
    }

    @Test func equalRawFindingsAreNamedOnce() {
        var groups = FindingGroups()
        var named = 0
        for number in 0..<5 {
            var raw = Finding.sample()
            raw.stacks.access = [.unnamed("/opt/app", UInt64(number % 2) * 16)]
            raw.stacks.access[0].pc = Address(UInt64(number)) // address of another run
            raw.address = Address(UInt64(number))
            groups.add(raw) { finding in
                named += 1
                var finding = finding
                finding.stacks.access[0].function = "f"
                return finding
            }
        }
        #expect(named == 2)
        #expect(groups.findings.map(\.count) == [5])
        #expect(groups.findings[0].stacks.access[0].function == "f")
    }

    @Test func withoutAnOffsetTheAddressTellsFramesApart() {
        var groups = FindingGroups()
        for pc in [1, 2, 1] as [UInt64] {
            var raw = Finding.sample()
            raw.stacks.access = [Finding.Frame(pc: Address(pc))]
            groups.add(raw)
        }
        #expect(groups.findings.map(\.count) == [2, 1])
    }

    @Test func firstAndLastTimesAreKept() {
        var groups = FindingGroups()
        groups.add(finding("a", time: "2026-01-02T00:00:05Z"))
        #expect(groups.findings[0].firstSeen == nil && groups.findings[0].lastSeen == nil)
        groups.add(finding("a", time: "2026-01-02T00:00:05.5Z"))
        #expect(groups.findings[0].lastSeen == "2026-01-02T00:00:05.5Z")
        for time in ["2026-01-01T00:00:00Z", nil, "zzzz", "", "2026-01-01T12:00:00Z"] {
            groups.add(finding("a", time: time))
        }
        #expect(groups.findings[0].time == "2026-01-02T00:00:05Z")
        #expect(groups.findings[0].firstSeen == "2026-01-01T00:00:00Z")
        #expect(groups.findings[0].lastSeen == "2026-01-02T00:00:05.5Z")
        // A finished report with these groups, merged with another report.
        var other = FindingGroups()
        other.add(finding("a", time: "2026-01-01T06:00:00Z"))
        other.add(groups.findings[0])
        #expect(other.findings[0].count == 8)
        #expect(other.findings[0].firstSeen == "2026-01-01T00:00:00Z")
        #expect(other.findings[0].lastSeen == "2026-01-02T00:00:05.5Z")
    }

    @Test func processesAndProgramsAreCounted() {
        var groups = FindingGroups()
        for process in [1, 2, 1, 3] { groups.add(finding("a", process: process)) }
        var other = finding("b", process: 1)
        other.program = "/opt/other"
        groups.add(other)
        #expect(groups.processes == 4 && groups.programs == 2)
    }

    @Test func suppressedFindingsAreCountedAndSaid() throws {
        let rules = try Suppressions(parsing: "double-free: a\ndouble-free: z\n", file: "s")
        var groups = FindingGroups(suppressions: rules)
        var isNew = groups.add(finding("a", count: 3))
        #expect(!isNew)
        #expect(groups.summary == "no findings (3 suppressed)")
        isNew = groups.add(finding("a", process: 7))
        #expect(!isNew && groups.findings.isEmpty && groups.occurrences == 0 && groups.processes == 0)
        isNew = groups.add(finding("b"))
        #expect(isNew && groups.summary == "1 finding (1 double-free, 4 suppressed)")
        #expect(groups.suppressions.rules.map(\.count) == [4, 0])
        #expect(groups.suppressions.unused.map(\.line) == [2])
    }

    @Test func moreThanIsRememberedIsStillGrouped() {
        var known = FindingCache()
        for number in 0...FindingCache.most { known[.init(finding("f\(number)"))] = .further }
        #expect(known[.init(finding("f0"))] == .further)
        #expect(known[.init(finding("f\(FindingCache.most)"))] == nil)
    }
}
