// SARIF: results, rules, locations, URIs, and escaping in messages.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SARIFReportTests {
    /// Returns the one run of a report, as a SARIF reader sees it.
    private func run(_ document: ReportDocument) throws -> [String: Any] {
        let log = try #require(
            JSONSerialization.jsonObject(with: Data(SARIFReport(document).text.utf8)) as? [String: Any])
        #expect(log["version"] as? String == "2.1.0")
        let runs = try #require(log["runs"] as? [[String: Any]])
        #expect(runs.count == 1)
        return try #require(runs.first)
    }

    private func results(_ document: ReportDocument) throws -> [[String: Any]] {
        try #require(try run(document)["results"] as? [[String: Any]])
    }

    private func text(_ value: Any?) -> String? { (value as? [String: Any])?["text"] as? String }

    @Test func resultOfAFinding() throws {
        var finding = Finding.sample()
        finding.count = 3
        finding.signature = "0123456789abcdef"
        let result = try #require(try results(ReportDocument(findings: [finding])).first)
        #expect(result["ruleId"] as? String == "double-free")
        #expect(result["level"] as? String == "error")
        #expect(result["occurrenceCount"] as? Int == 3)
        #expect(result["partialFingerprints"] as? [String: String] == ["zguardSignature/v1": "0123456789abcdef"])
        #expect(
            text(result["message"]) == finding.sentence
                + "; the block was [freed by thread 2](1), [allocated by thread 1](2)")
        #expect((result["provenance"] as? [String: String]) == ["firstDetectionTimeUtc": "2026-01-02T03:04:05Z"])
        #expect(result["suppressions"] == nil)

        let locations = try #require(result["locations"] as? [[String: Any]])
        let place = try #require(locations.first?["physicalLocation"] as? [String: Any])
        #expect((place["artifactLocation"] as? [String: String]) == ["uri": "src/app.c"])
        #expect((place["region"] as? [String: Int]) == ["startLine": 41])
        let stacks = try #require(result["stacks"] as? [[String: Any]])
        #expect(
            stacks.map { text($0["message"]) } == [
                "freed again by thread 3 (worker)", "freed by thread 2", "allocated by thread 1",
            ])
        #expect(stacks.map { ($0["frames"] as? [Any])?.count } == [2, 1, 1])
        let properties = try #require(result["properties"] as? [String: Any])
        #expect(properties["address"] as? String == "0x7f000010")
        #expect(properties["pid"] as? Int == 77)
    }

    @Test func theWayOfABlockGoesFromAllocationToAccess() throws {
        let result = try #require(try results(ReportDocument(findings: [.sample()])).first)
        let flows = try #require(result["codeFlows"] as? [[String: Any]])
        let threads = try #require(flows.first?["threadFlows"] as? [[String: Any]])
        #expect(threads.map { $0["id"] as? String } == ["thread 1", "thread 2", "thread 3"])
        let orders = threads.flatMap {
            ($0["locations"] as? [[String: Any]] ?? []).map { $0["executionOrder"] as? Int }
        }
        #expect(orders == [1, 2, 3])

        var oneThread = Finding.sample()
        oneThread.thread = Finding.Thread(id: 1)
        oneThread.block?.freeingThread = 1
        let other = try #require(
            try results(ReportDocument(findings: [oneThread])).first?["codeFlows"] as? [[String: Any]])
        #expect((other.first?["threadFlows"] as? [[String: Any]])?.count == 1)
    }

    @Test func rulesAreTheTableOfKinds() throws {
        let strange = Finding.sample(Finding.Kind(rawValue: "new-kind"))
        let run = try run(ReportDocument(findings: [strange, .sample(.wildAccess)]))
        let driver = try #require((run["tool"] as? [String: Any])?["driver"] as? [String: Any])
        let rules = try #require(driver["rules"] as? [[String: Any]])
        #expect(rules.map { $0["id"] as? String } == FindingKind.all.map(\.kind.rawValue) + ["new-kind"])
        for result in try #require(run["results"] as? [[String: Any]]) {
            #expect(rules[try #require(result["ruleIndex"] as? Int)]["id"] as? String == result["ruleId"] as? String)
        }
        #expect(driver["informationUri"] == nil)
        #expect(Set(rules.map { $0["name"] as? String }).count == rules.count)
    }

    @Test func lateWriteIsShownWhereTheBlockWasFreed() throws {
        var finding = Finding.sample(.writeAfterFree)
        #expect(finding.primaryFrame?.function == "close_once")
        finding.stacks.free = []
        #expect(finding.primaryFrame?.function == "open_it")
        #expect(Finding.sample().primaryFrame?.function == "close_twice")
    }

    @Test func findingWithoutAnythingIsAResult() throws {
        let bare = Finding(kind: .nullAccess)
        let result = try #require(try results(ReportDocument(findings: [bare])).first)
        #expect(result["locations"] == nil && result["stacks"] == nil && result["codeFlows"] == nil)
        var ofProgram = bare
        ofProgram.program = "/opt/a b"
        let other = try #require(try results(ReportDocument(findings: [ofProgram])).first)
        #expect("\(other["locations"] ?? "")".contains("file:///opt/a%20b"))
    }

    @Test func frameWithoutSourceIsAnAddress() throws {
        let finding = Finding(
            kind: .wildAccess, stacks: Finding.Stacks(access: [.unnamed("/lib/x.so", 0x10), .unnamed(nil, 1 << 60)]))
        let text = SARIFReport(ReportDocument(findings: [finding])).text
        #expect(text.contains(#""artifactLocation":{"uri":"file:///lib/x.so"},"address":{"absoluteAddress":20496"#))
        #expect(!text.contains("\(0x5000 + (UInt64(1) << 60))")) // readers would round a number this large
    }

    @Test func inferredFindingsWarn() throws {
        var finding = Finding.sample()
        finding.confidence = .inferred
        #expect(try results(ReportDocument(findings: [finding])).first?["level"] as? String == "warning")
    }

    @Test func suppressedFindingsAreResultsThatSaySo() throws {
        let suppressed = ReportDocument.Suppressed(.sample(.invalidFree), reason: "known, see [42]")
        let results = try results(ReportDocument(findings: [.sample()], suppressedFindings: [suppressed]))
        #expect(
            results.map { ($0["suppressions"] as? [[String: String]])?.first } == [
                nil, ["kind": "external", "status": "accepted", "justification": "known, see [42]"],
            ])
        #expect((results[0]["suppressions"] as? [Any])?.isEmpty == true)
    }

    @Test func invocationSaysWhatTheReaderHasToKnow() throws {
        let document = ReportDocument(
            findings: [], commandLine: ["zguard", "report", "a b", "it's", ""], made: Timestamp(milliseconds: 1500),
            notes: ["no names for '/x': gone"], sourceRoot: "/work/ü", isComplete: false, exitStatus: 139,
            coverage: Coverage(blocks: 10, watchedBlocks: 1, stacks: 4, watchedStacks: 3))
        let run = try run(document)
        let coverage = (run["properties"] as? [String: Any])?["coverage"] as? [String: Any]
        #expect(coverage?["stacks_percent"] as? Int == 75 && coverage?["blocks_watched"] as? Int == 1)
        let invocation = try #require((run["invocations"] as? [[String: Any]])?.first)
        #expect(invocation["executionSuccessful"] as? Bool == false)
        #expect(invocation["commandLine"] as? String == #"zguard report 'a b' 'it'\''s' ''"#)
        #expect(invocation["arguments"] as? [String] == ["report", "a b", "it's", ""])
        #expect(invocation["endTimeUtc"] as? String == "1970-01-01T00:00:01.500Z")
        let notes = invocation["toolExecutionNotifications"] as? [[String: Any]]
        #expect(notes?.map { text($0["message"]) } == ["no names for '/x': gone"])
        #expect("\(run["originalUriBaseIds"] ?? "")".contains("file:///work/%C3%BC/"))
    }

    @Test(arguments: [
        ("a[0] {x}", #"a\[0\] {{x}}"#), (#"a\b"#, #"a\\b"#), ("[x](1)", #"\[x\](1)"#), ("[\u{301}", "\\[\u{301}"),
        ("\u{1b}", #"\\u{{1b}}"#),
    ]) func messagesHoldNoLinksAndPlaceholders(text: String, escaped: String) {
        #expect(SARIFReport.escaped(text) == escaped)
    }

    struct Path: Sendable, CustomTestStringConvertible {
        var path: String
        var uri: String?
        var isBelow = false
        var testDescription: String { path }
    }

    static let paths: [Path] = [
        Path(path: "/work/app/src/a.c", uri: "src/a.c", isBelow: true),
        Path(path: "/work/app/./src/../b c#?%.c", uri: "b%20c%23%3F%25.c", isBelow: true),
        Path(path: "/work/application/a.c", uri: "file:///work/application/a.c"),
        Path(path: "/work/app", uri: "file:///work/app"),
        Path(path: "/usr/include/c++/12", uri: "file:///usr/include/c++/12"),
        Path(path: "/../../etc/x", uri: "file:///etc/x"), Path(path: "src/ü.c", uri: "src/%C3%BC.c", isBelow: true),
        Path(path: "a:b.c", uri: "a%3Ab.c", isBelow: true), Path(path: "./x.c", uri: "x.c", isBelow: true),
        Path(path: "../x.c"), Path(path: "a/../../x.c"), Path(path: ""), Path(path: "/"), Path(path: "."),
        Path(path: "/\u{fffd}/x", uri: "file:///%EF%BF%BD/x"), Path(path: "//double//x", uri: "file:///double/x"),
    ]

    @Test(arguments: paths) func uris(row: Path) {
        let reference = FileURI(root: "/work/app/").reference(to: row.path)
        #expect(reference?.uri == row.uri)
        #expect(reference?.isBelowRoot ?? false == row.isBelow)
    }

    @Test func withoutARootNothingIsRelativeToIt() {
        for root in [nil, "relative", ""] {
            #expect(FileURI(root: root).rootURI == nil)
            #expect(FileURI(root: root).reference(to: "a.c") == FileURI.Reference(uri: "a.c", isBelowRoot: false))
        }
        #expect(FileURI(root: "/").rootURI == "file:///")
        #expect(FileURI(root: "/").reference(to: "/a") == FileURI.Reference(uri: "a", isBelowRoot: true))
    }
}
