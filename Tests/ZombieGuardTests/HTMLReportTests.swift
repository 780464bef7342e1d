// The HTML report: contents, escaping, folding.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HTMLReportTests {
    private func page(_ findings: [Finding], notes: [String] = [], timeline: [TimelineSample] = []) -> String {
        HTMLReport(ReportDocument(findings: findings, timeline: timeline, notes: notes), sources: nil).text
    }

    private func count(_ part: String, in text: String) -> Int { text.components(separatedBy: part).count - 1 }

    @Test func countsNeverOverflow() {
        var finding = Finding.sample()
        finding.count = .max
        #expect(page([finding, finding]).contains("seen \(Int.max) times"))
    }

    @Test func findingHasItsSentenceStacksAndSmallPrint() {
        var finding = Finding.sample()
        finding.count = 4
        finding.signature = "0123456789abcdef"
        let page = page([finding])
        for part in [
            "a freed block of 48 bytes was freed again",
            "<span class=\"where\">in close_twice (app.c:41)</span>",
            "<h4>Freed again by thread 3 (worker)</h4>", "<h4>Freed by thread 2</h4>", "<h4>Allocated by thread 1</h4>",
            "src/app.c:12:7", "×4", "0123456789abcdef", "/opt/app [77]", "2026-01-02T03:04:05Z",
            "<title>app – zguard</title>",
        ] {
            #expect(page.contains(part), "\(part)")
        }
        #expect(page.hasPrefix("<!DOCTYPE html>") && page.hasSuffix("</html>\n"))
        #expect(!page.contains("What was watched"))
        let watched = ReportDocument(
            findings: [], coverage: Coverage(blocks: 10, frees: 10, freesGuardedAtOnce: 1, pairs: 4, watchedPairs: 3))
        #expect(
            HTMLReport(watched, sources: nil).text.contains(
                "Coverage: watched 3 of 4 allocation and free pairs, 10 % of the frees at once"))
    }

    @Test func findingsStandByKindAndClass() throws {
        var cart = Finding.sample(.useAfterFree)
        cart.block?.className = "Shop.Cart"
        var order = cart
        order.block?.className = "Shop.Order"
        let later = Finding.sample(Finding.Kind(rawValue: "later kind"))
        let page = page([later, .sample(.doubleFree), order, cart, order])
        let headings = page.matches(of: /<h2>([^<]*) <span>(\d+)<\/span>/).map { "\($0.1) \($0.2)" }
        #expect(headings == ["use-after-free 3", "double-free 1", "later kind 1"])
        #expect(
            page.matches(of: /<h3>([^<]*) <span>(\d+)<\/span>/).map { "\($0.1) \($0.2)" } == [
                "Shop.Order 2", "Shop.Cart 1",
            ])
        // Findings are numbered from top to bottom, and every link has a target.
        #expect(page.matches(of: /<details class="f" id="f(\d+)"/).map { String($0.1) } == ["1", "2", "3", "4", "5"])
        for link in page.matches(of: /href="#([^"]*)"/) { #expect(page.contains("id=\"\(link.1)\"")) }
    }

    @Test func nothingOfAReportBecomesMarkup() {
        let evil = "</script><script>alert(1)</script>\"'><img src=x>&\u{202e}\u{7}"
        var finding = Finding.sample(Finding.Kind(rawValue: evil))
        finding.access = Finding.Access(rawValue: evil)
        finding.program = evil
        finding.time = evil
        finding.signature = evil
        finding.thread?.name = evil
        finding.block?.className = evil
        finding.block?.member = evil
        finding.block?.state = evil
        finding.block?.language = evil
        finding.detail = [evil: evil, "part": evil, "what": evil]
        finding.stacks.access = [.named(evil, evil, 1), .unnamed(evil, 1)]
        finding.stacks.free = [.named(evil, evil, 1)]
        var sample = TimelineSample(time: Timestamp(milliseconds: 1), processID: 1, program: evil)
        sample.liveBytes = 5
        var later = sample
        later.time = Timestamp(milliseconds: 9)
        let document = ReportDocument(
            findings: [finding], suppressedFindings: [ReportDocument.Suppressed(finding, reason: evil)],
            timeline: [sample, later], title: evil, version: evil, commandLine: [evil], notes: [evil])
        let page = HTMLReport(document, sources: nil).text
        #expect(count("<script", in: page) == 1 && count("</script", in: page) == 1)
        #expect(
            !page.contains("<img") && !page.contains("\u{202e}") && !page.contains("\u{7}") && !page.contains("\"'>"))
        #expect(count("&lt;img src=x&gt;", in: page) > 20)
    }

    @Test func framesOfRuntimesAreFolded() {
        let library = Finding.Frame(pc: Address(1), module: "/lib/libc.so.6", function: "start")
        func stack(_ frames: [Finding.Frame]) -> String {
            HTMLStack(
                event: Finding.Event(role: .access, title: "read", thread: nil, frames: frames), sourceRoot: nil,
                excerpt: nil
            ).section
        }
        let own = Finding.Frame.named("mine", "a.c", 1)
        #expect(stack([own, library, library]).contains("<summary>2 frames of libc.so.6</summary>"))
        #expect(!stack([own, library]).contains("<summary>")) // a single frame is not folded
        #expect(!stack([library, library]).contains("<summary>")) // a stack of library frames only is not folded
        let long = stack((1...50).map { Finding.Frame.named("mine", "a.c", $0) })
        #expect(count("<b>mine</b>", in: long) == 48 && long.contains("2 more frames further out"))
    }

    @Test func recursionIsCounted() {
        func rows(_ functions: String) -> [String] {
            let frames = functions.map { Finding.Frame.named(String($0), "a.c", 1) }
            let stack = HTMLStack(
                event: Finding.Event(role: .access, title: "read", thread: nil, frames: frames), sourceRoot: nil,
                excerpt: nil)
            return stack.section.matches(of: /<i>(\d+)<\/i><b>(.)<\/b>|"more">([^<]*)/).map {
                $0.3.map(String.init) ?? "\($0.1 ?? "")\($0.2 ?? "")"
            }
        }
        #expect(rows("faaaaam") == ["0f", "1a", "this frame 4 times more", "6m"])
        #expect(rows("ababababm") == ["0a", "1b", "these 2 frames 3 times more", "8m"])
        #expect(rows("aaabbb") == ["0a", "1a", "2a", "3b", "4b", "5b"])
        #expect(rows("") == [])
        #expect(rows(String(repeating: "abcdef", count: 500) + "m").last == "3000m")
        #expect(rows("ab" + String(repeating: "xyz", count: 4) + String(repeating: "q", count: 4)).count == 8)
    }

    @Test func pathsBelowTheRootAreShort() {
        let frame = Finding.Frame.named("f", "/work/app/src/a.c", 3)
        let stack = HTMLStack(
            event: Finding.Event(role: .free, title: "freed", thread: 1, frames: [frame]), sourceRoot: "/work/app",
            excerpt: nil)
        #expect(stack.section.contains("<span>src/a.c:3</span>"))
    }

    @Test func pageWithoutFindings() {
        let page = page([], notes: ["a note"])
        #expect(page.contains("No findings.") && page.contains("<li>a note"))
        #expect(page.contains("<title>report – zguard</title>"))
        #expect(!HTMLReport(ReportDocument(findings: []), sources: nil).text.contains("class=\"notes\""))
    }

    @Test func policyNamesStyleAndScript() throws {
        let page = page([])
        let policy = try #require(page.firstMatch(of: /Content-Security-Policy" content="([^"]*)"/)?.1)
        #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
        #expect(policy.contains("style-src 'sha256-\(HTMLStyle.digest)'"))
        #expect(
            page.contains("<style>\(HTMLStyle.text)</style>") && page.contains("<script>\(HTMLScript.text)</script>"))
        #expect(!page.contains(" style=\""))
    }

    @Test func longNamesAreCut() {
        #expect(htmlText(String(repeating: "<", count: 1000), cutAt: 3) == "&lt;&lt;&lt;…")
        let tower = "a" + String(repeating: "\u{301}", count: 100_000) // one character of 100,001 scalars
        #expect(htmlText(tower).unicodeScalars.count == 301)
    }

    @Test(arguments: [
        (UInt64(0), "0 bytes"), (1, "1 byte"), (4095, "4095 bytes"), (4096, "4 KiB"), (5000, "5000 bytes"),
        (10_240, "10 KiB"),
        (1 << 20, "1 MiB"), (3 << 19, "1.5 MiB"), (1 << 30, "1 GiB"), (.max, "15.9 EiB"),
    ]) func sizes(bytes: UInt64, text: String) { #expect(sizeText(bytes) == text) }

    @Test(arguments: [(1.0, "1"), (0.25, "0.3"), (-0.5, "-0.5"), (-1.25, "-1.3"), (.nan, "0"), (.infinity, "0")])
    func lengths(value: Double, text: String) { #expect(points(value) == text) }
}
