// Tests of the states of groups. Tests/Fleet/triage.py tests them in every kind of store.

import Testing
import ZombieGuard

@testable import ZombieGuardFleet

@Suite struct TriageTests {
    private let start = Timestamp("2026-11-01T10:00:00Z")!
    private let signature = "00000000000000ab"

    private func later(_ seconds: Int64) -> Timestamp { start.earlier(bySeconds: -seconds) }

    private func event(_ action: TriageEvent.Action, at seconds: Int64 = 0) -> TriageEvent {
        TriageEvent(action, of: signature, by: "anna", time: later(seconds))
    }

    private func triage(
        _ events: [TriageEvent], seen: [(version: String, seconds: Int64)] = [], count: Int64 = 1, now: Int64 = 100
    ) -> Triage {
        let sightings = seen.map { Triage.Sighting(version: $0.version, last: later($0.seconds)) }
        return Triage(events, Triage.Occurrences(sightings: sightings, count: count), now: later(now))
    }

    @Test func lastDecisionCounts() {
        let resolved = event(.resolve(version: "1.10"), at: 2)
        let opened = event(.reopen, at: 3)
        #expect(triage([opened, event(.mute(until: nil)), resolved]).state == .open)
        #expect(triage([resolved, event(.mute(until: nil))]).state == .resolved)
        let assigned = triage([event(.assign(to: "bob")), event(.comment, at: 1), resolved])
        #expect(assigned.state == .resolved && assigned.assigned == "bob" && assigned.events.count == 3)
        #expect(triage([event(.assign(to: "bob")), event(.assign(to: nil), at: 1)]).assigned == nil)
        #expect(triage([]).text == nil)
    }

    @Test(
        arguments: [
            ("1.10", "1.9", 5, false), ("1.10", "1.10", 5, true), ("1.10", "1.11-rc1", 5, true),
            ("1.10", "1.10", -5, false),
            ("1.10", "", 5, false), (nil, "", 5, true), (nil, "1.0", 5, true), (nil, "1.0", -5, false),
        ] as [(String?, String, Int64, Bool)])
    func regressions(resolvedIn: String?, seenIn: String, seconds: Int64, isRegression: Bool) {
        let state = triage([event(.resolve(version: resolvedIn))], seen: [("1.0", -50), (seenIn, seconds)])
        #expect(state.state == (isRegression ? .regression : .resolved))
        #expect(state.seenAgain == (isRegression ? seenIn : nil))
    }

    @Test func wrongClocksMakeNoRegression() {
        #expect(triage([event(.resolve(version: nil))], seen: [("1.0", 2 * 86400)], now: 100).state == .resolved)
        #expect(
            triage([event(.resolve(version: nil))], seen: [("1.0", 2 * 86400)], now: 3 * 86400).state == .regression)
    }

    @Test func regressionNamesTheOldestVersion() {
        let state = triage([event(.resolve(version: "1.2"))], seen: [("1.10", 9), ("1.3", 8), ("1.1", 7)])
        #expect(state.text == "regression: resolved in 1.2 by anna on 2026-11-01, seen again in 1.3")
    }

    @Test(
        arguments: [
            (TriageEvent.Limit.time(Timestamp("2026-11-01T10:01:00Z")!), 59, 1, "", true),
            (.time(Timestamp("2026-11-01T10:01:00Z")!), 60, 1, "", false),
            (.occurrences(5, before: 10), 9, 4, "", true), (.occurrences(5, before: 10), 9, 5, "", false),
            (.occurrences(.max, before: 10), 9, 15, "", true),
            (.version("2.0"), 9, 9, "1.99", true),
            (.version("2.0"), 9, 9, "2.0", false),
        ] as [(TriageEvent.Limit, Int64, Int64, String, Bool)])
    func mutesEnd(limit: TriageEvent.Limit, now: Int64, count: Int64, version: String, isMuted: Bool) {
        let state = triage([event(.mute(until: limit))], seen: [(version, 5)], count: count, now: now)
        #expect(state.state == (isMuted ? .muted : .open))
    }

    @Test(
        arguments: [
            .resolve(version: "1.10"), .resolve(version: nil), .mute(until: nil),
            .mute(until: .occurrences(7, before: 2)),
            .mute(until: .version("2 \"beta\"")), .mute(until: .time(Timestamp("2026-12-01T00:00:00Z")!)), .reopen,
            .assign(to: "bob"), .assign(to: nil), .comment,
        ] as [TriageEvent.Action])
    func eventsAreReadBack(action: TriageEvent.Action) {
        let event = TriageEvent(
            action, of: signature, by: "anna \"a\" b", comment: "tab\tand \u{1b}[31m", tenant: "red")
        #expect(TriageEvent(line: event.line[...]) == event)
        #expect(TriageEvent(columns: event.columns) == event)
        #expect(TriageEvent(line: event.line.dropLast(3)) == nil)
        #expect(!event.line.contains("\u{1b}"))
    }

    @Test func unknownActionsAreLeftOut() {
        let line = event(.mute(until: .occurrences(7, before: 2))).line
        #expect(TriageEvent(line: line.replacing("mute", with: "archive")[...]) == nil)
        // A muting with an unknown limit, written by a later version, is ignored; it must not mute for ever.
        #expect(TriageEvent(line: line.replacing("count 7 after 2", with: "phase 7")[...]) == nil)
    }

    /// Tests the use of the scanned values. The scanner itself is fuzzed as a part of the report reader.
    @Test func damagedLinesAreReadOrLeftOut() {
        var state: UInt64 = 1
        func random(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        let lines = [
            event(.mute(until: .occurrences(.max, before: .min))), event(.resolve(version: "1.10")),
            event(.mute(until: .time(start))), event(.assign(to: "bob")),
        ].map { Array($0.line.utf8) }
        var read: [TriageEvent] = []
        for _ in 0..<20_000 {
            var bytes = lines[random(lines.count)]
            for _ in 0...random(3) { bytes[random(bytes.count)] = UInt8(random(256)) }
            if let event = TriageEvent(line: String(decoding: bytes, as: UTF8.self)[...]) { read.append(event) }
        }
        #expect(read.count > 1000)
        let whole = triage(read, seen: [("1.0", 5)], count: .max, now: 100)
        #expect(whole.events.count == read.count && whole.text != nil)
    }
}
