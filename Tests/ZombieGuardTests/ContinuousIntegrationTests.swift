// JUnit XML and GitHub annotations: their fields, and escaping.

import Foundation
import FoundationXML
import Testing

@testable import ZombieGuard

@Suite struct JUnitReportTests {
    private func suite(_ document: ReportDocument) throws -> XMLElement {
        let root = try #require(XMLDocument(xmlString: JUnitReport(document).text).rootElement())
        #expect(root.name == "testsuites")
        return try #require(root.elements(forName: "testsuite").first)
    }

    private func value(_ element: XMLElement, _ name: String) -> String? {
        element.attribute(forName: name)?.stringValue
    }

    @Test func findingsFailAndSuppressedOnesAreSkipped() throws {
        var other = Finding.sample(.wildAccess)
        other.signature = "00000000000000ff"
        let suite = try suite(
            ReportDocument(
                findings: [.sample()], suppressedFindings: [.init(other, reason: "known \"x\" < 3")],
                title: "/opt/app", notes: ["no names for '/x'"], exitStatus: 6))
        #expect(value(suite, "name") == "app")
        #expect(["tests", "failures", "errors", "skipped"].map { value(suite, $0) } == ["2", "1", "0", "1"])
        let cases = suite.elements(forName: "testcase")
        #expect(cases.map { value($0, "classname") } == ["app", "app"])
        #expect(value(cases[0], "name")?.hasPrefix("double-free in close_twice [") == true)
        let failure = try #require(cases[0].elements(forName: "failure").first)
        #expect(value(failure, "message") == Finding.sample().sentence)
        #expect(failure.stringValue == TextRenderer().render(.sample()))
        #expect(
            value(try #require(cases[1].elements(forName: "skipped").first), "message") == "suppressed: known \"x\" < 3"
        )
        #expect(suite.elements(forName: "system-err").first?.stringValue == "no names for '/x'")
    }

    @Test func withoutFindingsOneTestPassesUnlessSomethingIsMissing() throws {
        let nothing = try suite(ReportDocument(findings: []))
        #expect(nothing.elements(forName: "testcase").map { value($0, "name") } == ["no findings"])
        #expect(value(nothing, "failures") == "0" && value(nothing, "errors") == "0")
        let incomplete = try suite(ReportDocument(findings: [], isComplete: false))
        #expect(incomplete.elements(forName: "testcase").map { value($0, "name") } == ["report is complete"])
        #expect(value(incomplete, "errors") == "1")
    }

    @Test func whatXMLCannotHoldIsEscaped() {
        #expect(xmlText("a<b>&\"'\n\t]]>") == "a&lt;b&gt;&amp;&quot;&#39;\n\t]]&gt;")
        #expect(xmlText("\u{1b}\u{0}\r\u{fffe}\u{202e}ü漢") == "\\u{1b}\\u{0}\\u{d}\\u{fffe}\\u{202e}ü漢")
    }
}

@Suite struct GitHubAnnotationTests {
    @Test func anErrorNamesItsLine() {
        var finding = Finding.sample()
        finding.stacks.access[0] = .named("close_twice", "/work/src/app.c", 41, column: 9)
        finding.signature = "0123456789abcdef"
        finding.count = 3
        #expect(
            GitHubAnnotations(workspace: "/work").line(for: finding)
                == "::error file=src/app.c,line=41,col=9,title=double-free (ZombieGuard)::\(finding.sentence)"
                + "%0Afreed by thread 2: close_once (src/app.c:30)%0Aallocated by thread 1: open_it (src/app.c:12)"
                + "%0Aseen 3 times%0Asignature 0123456789abcdef\n")
    }

    @Test func whatIsLessCertainIsAWarning() {
        var inferred = Finding.sample()
        inferred.confidence = .inferred
        let annotations = GitHubAnnotations(workspace: nil)
        #expect(annotations.line(for: inferred).hasPrefix("::warning file=src/app.c,line=41,title=double-free"))
        #expect(annotations.line(for: .sample(.deallocMismatch)).hasPrefix("::warning "))
    }

    @Test func aLineOfTheWorkspaceIsPreferred() {
        var finding = Finding.sample()
        finding.stacks.access = [
            .named("in_a_dependency", "/elsewhere/x.c", 5), .named("caller", "/work/y.c", 7),
            .named("main", "/work/z.c", 9),
        ]
        #expect(GitHubAnnotations(workspace: "/work").line(for: finding).hasPrefix("::error file=y.c,line=7,"))
        #expect(
            GitHubAnnotations(workspace: "/other").line(for: finding).hasPrefix("::error file=/elsewhere/x.c,line=5,"))
    }

    @Test func nothingEndsACommandEarly() {
        var finding = Finding.sample(Finding.Kind(rawValue: "a:b,c\n::error::x"))
        finding.stacks.access = [.named("f\r\n::stop-commands::x", "/w/100%,a:b.c", 3)]
        let line = GitHubAnnotations(workspace: "/w").line(for: finding)
        #expect(
            line.hasPrefix("::error file=100%25%2Ca%3Ab.c,line=3,title=a%3Ab%2Cc\\n%3A%3Aerror%3A%3Ax (ZombieGuard)::"))
        #expect(line.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).last == "")
        #expect(line.filter { $0 == "\n" }.count == 1)
        let unplaced = Finding(
            kind: .wildAccess, access: .read, address: nil, block: nil, stacks: .init(access: [], free: [], alloc: []))
        #expect(
            GitHubAnnotations(workspace: nil).line(for: unplaced).hasPrefix("::error title=wild-access (ZombieGuard)::")
        )
    }
}
