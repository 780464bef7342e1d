// Tests of how leaks and retain cycles are written: sentences, JSON, groups.

import Testing
import ZombieGuard

@Suite struct LeakTextTests {
    private func frame(_ function: String, _ file: String, _ line: Int?) -> Finding.Frame {
        Finding.Frame(pc: Address(0x1000), function: function, file: file, line: line)
    }

    private var leak: Finding {
        var finding = Finding(
            kind: .leak, block: Finding.Block(start: Address(0x7f00), size: 64, state: "live"),
            stacks: Finding.Stacks(alloc: [frame("make", "/src/feed.c", 12)]))
        finding.leak = Finding.Leak(blocks: 3, bytes: 192)
        return finding
    }

    private func step(
        _ className: String?, _ member: String? = nil, _ place: String, code: Finding.Frame? = nil
    ) -> Finding.Leak.Step {
        Finding.Leak.Step(
            className: className, member: member, place: place, code: code, start: Address(0x7f00), size: 48,
            alloc: [frame("start", "/src/a.swift", 3)])
    }

    private func cycle(_ steps: [Finding.Leak.Step]) -> Finding {
        var finding = Finding(kind: .retainCycle, stacks: Finding.Stacks(alloc: steps[0].alloc))
        finding.leak = Finding.Leak(blocks: 2, bytes: 96, cycle: steps)
        return finding
    }

    @Test func sentencesOfLeaks() {
        var finding = leak
        #expect(finding.sentence == "nothing refers to 3 live blocks (192 bytes); allocated in make (feed.c:12)")
        finding.leak = Finding.Leak(blocks: 1, bytes: 1, indirectBlocks: 1, indirectBytes: 40)
        #expect(
            finding.sentence
                == "nothing refers to a live block of 1 byte, which alone leads to 1 more block (40 bytes); allocated in make (feed.c:12)"
        )
        finding.block?.className = "shop::Item"
        finding.leak = Finding.Leak(blocks: 2, bytes: 96)
        #expect(
            finding.sentence
                == "nothing refers to 2 live objects of shop::Item (96 bytes); allocated in make (feed.c:12)")
    }

    @Test func pathsOfCycles() {
        let closure = frame("partial apply for closure #1 in Session.start()", "/src/session.swift", 40)
        #expect(
            cycle([step("Shop.Session", "handler", "field", code: closure)]).cyclePath
                == "Session.handler → closure #1 in Session.start() (session.swift:40) → Session")
        #expect(
            cycle([
                step("Shop.Timer", "handler", "field", code: closure), step("closure context", nil, "capture"),
                step("Shop.Session", "timer", "field"),
            ]).cyclePath
                == "Timer.handler → closure #1 in Session.start() (session.swift:40) → Session.timer → Timer")
        #expect(
            cycle([
                step("Shop.Parent", "children", "field"),
                step("Swift._ContiguousArrayStorage<Shop.Child>", nil, "element"),
                step("Shop.Child", "parent", "field"),
            ]).cyclePath == "Parent.children → element of [Child] → Child.parent → Parent")
        #expect(
            cycle([
                step("Shop.Box<Swift.Int>", "all", "field"),
                step("Swift._DictionaryStorage<Swift.String, Shop.Box<Swift.Int>>", nil, "element"),
            ]).cyclePath == "Box<Int>.all → element of [String: Box<Int>] → Box<Int>")
        #expect(leak.cyclePath == nil)
    }

    @Test func hostileTextIsEscaped() {
        let finding = cycle([step("Shop.\u{1b}[2J", "a\nb", "field")])
        #expect(!finding.sentence.unicodeScalars.contains { $0.value < 0x20 })
    }

    @Test func jsonIsReadAsItWasWritten() throws {
        for finding in [
            leak,
            cycle([step("Shop.Session", "handler", "field", code: frame("f", "/a", 1)), step(nil, nil, "memory")]),
        ] {
            let read = try #require(Finding(jsonLine: finding.jsonLine))
            #expect(read.leak == finding.leak)
        }
    }

    @Test func equalLeaksAreAddedUp() {
        var groups = FindingGroups()
        groups.add(leak)
        groups.add(leak)
        #expect(groups.findings.count == 1)
        #expect(groups.findings[0].leak?.blocks == 6 && groups.findings[0].leak?.bytes == 384)
    }

    @Test func cyclesOfOtherPropertiesAreOtherBugs() {
        let one = cycle([step("Shop.A", "b", "field")])
        let other = cycle([step("Shop.A", "c", "field")])
        #expect(one.computeSignature() != other.computeSignature())
    }
}
