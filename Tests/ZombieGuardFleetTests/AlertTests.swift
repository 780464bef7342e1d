// Tests of alerts: rules, the stored record of earlier events, pauses, and message formats.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import ZombieGuardFleet

@Suite struct AlertTests {
    private func rules(_ lines: String...) throws -> AlertRules {
        try AlertRules(
            (["way a mail a@example.com", "way b command /bin/b"] + lines).joined(separator: "\n"), file: "f")
    }

    private func trigger(_ line: String) throws -> AlertWatch.Trigger {
        try #require(try rules("alert \(line) to a").watches.first).trigger
    }

    @Test func rulesAreRead() throws {
        #expect(try trigger("new") == .new(since: nil))
        #expect(try trigger("new since 1.10") == .new(since: "1.10"))
        #expect(try trigger("regression kind=crash host=h") == .regression)
        #expect(try trigger("rate over 100 per hour") == .over(.occurrences, limit: 100, seconds: 3600))
        #expect(try trigger("rate over 5 per 10m") == .over(.occurrences, limit: 5, seconds: 600))
        #expect(try trigger("rate over 5") == .over(.occurrences, limit: 5, seconds: 86400))
        #expect(try trigger("hosts over 3 per week") == .over(.hosts, limit: 3, seconds: 7 * 86400))
        #expect(try trigger("hosts over 99% per day") == .over(.hostShare, limit: 99, seconds: 86400))
        #expect(try trigger("stall over 1500ms") == .over(.duration, limit: 1500, seconds: 86400))
        #expect(try trigger("stall over 2m per minute") == .over(.duration, limit: 120_000, seconds: 60))
        #expect(try trigger("deadlock") == .over(.deadlocks, limit: 0, seconds: 86400))
    }

    @Test func eachWayIsWatchedFor() throws {
        let rules = try rules(
            "alert new program=bin/x to a b", "alert new program=bin/x to b", "# no rule", "", "digest 3")
        #expect(rules.watches.map(\.way.name) == ["a", "b"] && rules.digest == 3)
        #expect(rules.watches.allSatisfy { $0.conditions.program == "bin/x" })
        // A watch keeps its id if the order of rules changes, and has another id if its condition changes.
        let other = try self.rules("alert new program=bin/y to a", "alert new program=bin/x to b")
        #expect(other.watches[1].id == rules.watches[1].id && other.watches[0].id != rules.watches[0].id)
        #expect(try self.rules("alert new to a", "pages https://x.example//").pages == "https://x.example")
    }

    @Test func wordsAreQuoted() throws {
        let rules = try rules(
            #"way c command "/a b" "say \"x\" \\" c"d e"f"#, #"way d shell  echo "a b"  | cat"#, "alert new to c d")
        #expect(rules.ways[2].form == .command(["/a b", #"say "x" \"#, "cd ef"]))
        #expect(rules.ways[3].form == .shell(#"echo "a b"  | cat"#))
    }

    /// A file with any contents is read, or refused with a line number.
    @Test func damagedRulesAreReadOrRefused() {
        var state: UInt64 = 7
        func random(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        let text = """
            way a slack file:/x
            way b command /bin/x "a b"
            pages https://x.example
            alert new since 1.10 kind=crash to a b
            alert rate over 100 per hour host=h to a
            alert hosts over 5% per day to b
            """
        var (read, refused) = (0, 0)
        for _ in 0..<20_000 {
            var bytes = Array(text.utf8)
            for _ in 0...random(3) {
                switch random(3) {
                case 0: bytes[random(bytes.count)] = UInt8(random(256))
                case 1: bytes.remove(at: random(bytes.count))
                default: bytes.insert(bytes[random(bytes.count)], at: random(bytes.count))
                }
            }
            do throws(FleetError) {
                _ = try AlertRules(String(decoding: bytes, as: UTF8.self), file: "f")
                read += 1
            } catch {
                refused += 1
                #expect(error.description.hasPrefix("f:") && visible(error.description) == error.description)
            }
        }
        #expect(read > 1000 && refused > 1000)
    }

    @Test func eventsAreRemembered() {
        let hostile = "a\"\\\u{0}\u{1b}[31m\n{}é\u{202e}"
        let event = AlertEvent(event: "rate", signature: hostile, reason: hostile, decision: hostile)
        #expect(AlertEvent(body: event.body) == event)
        for body in ["", "{", "{}", "[]", "{\"event\":\"new\"}", "{\"event\":1,\"signature\":[]}"] {
            #expect(AlertEvent(body: body) == nil || body.contains("1"))
        }
    }

    @Test func pausesGrow() {
        #expect((4000...5000).contains(AlertWatcher.pause(1)) && (8000...10_000).contains(AlertWatcher.pause(2)))
        #expect((480_000...600_000).contains(AlertWatcher.pause(50)) && AlertWatcher.pause(.max) <= 600_000)
        #expect(AlertWatcher.pause(0) > 0 && AlertWatcher.pause(.min) > 0)
    }

    @Test func measuresAreCompared() {
        var seen = AlertQueries.Seen()
        (seen.occurrences, seen.hosts, seen.duration) = (7, ["a", "b", "c"], 2500)
        func window(_ measure: AlertWatch.Measure, _ limit: Int64) -> AlertWatcher.Window {
            AlertWatcher.Window(measure: measure, limit: limit, seconds: 3600)
        }
        #expect(window(.occurrences, 6).isAbove(seen, hosts: 0) && !window(.occurrences, 7).isAbove(seen, hosts: 0))
        #expect(window(.hosts, 2).isAbove(seen, hosts: 0) && !window(.hosts, 3).isAbove(seen, hosts: 0))
        // 3 of 55 are 5.45 %.
        #expect(window(.hostShare, 5).isAbove(seen, hosts: 55) && !window(.hostShare, 5).isAbove(seen, hosts: 60))
        #expect(window(.duration, 2499).isAbove(seen, hosts: 0) && !window(.duration, 2500).isAbove(seen, hosts: 0))
        #expect(window(.duration, 900).reason(seen, hosts: 0) == "up to 2.5 s within an hour, more than 900 ms")
        #expect(window(.occurrences, 6).reason(seen, hosts: 0) == "seen 7 times within an hour, more than 6")
    }

    @Test func headersOfMail() {
        #expect(AlertMessage.header("plain: text") == "plain: text")
        let text = "bug in Müller's «Warenkorb» =?utf-8?Q?x?= " + String(repeating: "语", count: 40)
        let header = AlertMessage.header(text)
        var decoded = ""
        for word in header.split(separator: "\n").map({ $0.drop { $0 == " " } }) {
            #expect(word.hasPrefix("=?utf-8?Q?") && word.hasSuffix("?=") && word.utf8.count <= 75)
            var bytes: [UInt8] = []
            var rest = word.dropFirst(10).dropLast(2).utf8[...]
            while let byte = rest.popFirst() {
                if byte != UInt8(ascii: "=") {
                    bytes.append(byte)
                    continue
                }
                bytes.append(UInt8(String(Substring(rest.prefix(2))), radix: 16) ?? 0)
                rest.removeFirst(2)
            }
            decoded += String(decoding: bytes, as: UTF8.self)
        }
        #expect(decoded == text)
    }

    @Test func textForSlack() {
        #expect(AlertMessage.slackText("<!channel> & a", 100) == "&lt;!channel&gt; &amp; a")
        let long = AlertMessage.slackText(String(repeating: "&", count: 10_000), 2900)
        #expect(long.unicodeScalars.count <= 2901 && long.hasSuffix("&amp;…"))
    }
}
