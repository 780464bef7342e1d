// Renders a report as one self-contained HTML page: no network, no fonts; the script is optional.

/// An HTML page for a report document.
public struct HTMLReport {
    private let document: ReportDocument
    private let sources: SourceExcerpts?
    private let sections: [Section]

    /// Findings of one kind, grouped by class.
    private struct Section {
        var kind: Finding.Kind
        var classes: [(name: String?, findings: [(number: Int, finding: Finding)])]
        var count: Int { classes.reduce(0) { $0 + $1.findings.count } }
    }

    /// Maximum number of findings for which a page shows all findings expanded. A page with more findings shows only
    /// the first one expanded.
    private static let maxExpandedFindings = 3
    /// Number of findings that get source excerpts. The limit keeps a page with thousands of findings small.
    private static let findingsWithSources = 200
    private static let mostTimelines = 6

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - document: the report; its text is untrusted.
    ///   - sources: reads source files; nil omits excerpts.
    public init(_ document: ReportDocument, sources: SourceExcerpts? = SourceExcerpts()) {
        self.document = document
        self.sources = sources
        sections = Self.sections(document.findings)
    }

    // Kinds in the order of the runtime's table, followed by unknown kinds; classes and findings in the order of the
    // document.
    private static func sections(_ findings: [Finding]) -> [Section] {
        var kinds = FindingKind.all.map(\.kind)
        var byKind: [Finding.Kind: [Finding]] = [:]
        for finding in findings {
            if byKind[finding.kind, default: []].isEmpty, !kinds.contains(finding.kind) { kinds.append(finding.kind) }
            byKind[finding.kind, default: []].append(finding)
        }
        var number = 0
        return kinds.compactMap { kind in
            guard let findings = byKind[kind] else { return nil }
            var names: [String?] = []
            var byClass: [String?: [Finding]] = [:]
            for finding in findings {
                let name = finding.block?.className
                if byClass[name] == nil { names.append(name) }
                byClass[name, default: []].append(finding)
            }
            return Section(
                kind: kind,
                classes: names.map { name in
                    (
                        name,
                        (byClass[name] ?? []).map { finding in
                            number += 1
                            return (number, finding)
                        }
                    )
                })
        }
    }

    /// The page, including its final line feed.
    public var text: String {
        var page = head
        page += "<body>\n\(Self.patterns)\(masthead)\n<main>\n\(notes)\(timelines)"
        if let coverage = document.coverage {
            page += "<p class=\"notes watched\">Coverage: \(htmlText(coverage.text))</p>\n"
        }
        if let end = document.end?.text {
            page += "<p class=\"notes ended\">How the program ended: \(htmlText(end))</p>\n"
        }
        if document.findings.isEmpty { page += "<p class=\"none\">No findings.</p>\n" }
        for section in sections { page += sectionHTML(section) }
        page += suppressed + "</main>\n\(footer)<script>\(HTMLScript.text)</script>\n</body>\n</html>\n"
        return page
    }

    // The hatch pattern for the surroundings of a block, shared by all pictures.
    package static let patterns = """
        <svg class="defs" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">\
        <path d="M-1 7L7 -1M-1 1L1 -1M5 7L7 5"/></pattern></defs></svg>
        """

    private var head: String {
        HTMLPage.head(
            title: title, styles: [HTMLStyle.part], script: HTMLPage.Part(HTMLScript.text, digest: HTMLScript.digest),
            version: document.version)
    }

    private var title: String {
        if let title = document.title { return title }
        let names = document.programs.map { String(($0.split(separator: "/").last ?? $0[...]).prefix(60)) }
        switch names.count {
        case 0: return "report"
        case 1...3: return names.joined(separator: ", ")
        default: return "\(names[0]) and \(names.count - 1) other programs"
        }
    }

    private var masthead: String {
        let findings = document.findings.count
        var text = "<header><div class=\"bar\"><h1>\(htmlText(title))</h1>"
        text += "<p class=\"sum\"><b>\(findings)</b> finding\(findings == 1 ? "" : "s")"
        if document.occurrences != findings { text += ", seen \(document.occurrences) times" }
        if document.suppressedCount > 0 { text += ", \(document.suppressedCount) suppressed" }
        text += "</p><div class=\"tools\" hidden><input id=\"q\" type=\"search\" placeholder=\"Filter\""
        text += " aria-label=\"show only findings that contain this text\"><output id=\"n\"></output>"
        text += "<button id=\"all\" type=\"button\">Open all</button></div></div><nav>"
        for section in sections {
            text +=
                "<a href=\"#\(anchor(section.kind))\"><b>\(section.count)</b> \(htmlText(section.kind.rawValue, cutAt: 60))</a>"
        }
        return text + "</nav></header>"
    }

    private func anchor(_ kind: Finding.Kind) -> String {
        let known = FindingKind.all.contains { $0.kind == kind }
        return "k-" + (known ? kind.rawValue : "other\(sections.firstIndex { $0.kind == kind } ?? 0)")
    }

    private var notes: String {
        var notes = document.notes.map { htmlText($0) }
        if !document.isComplete { notes.insert("some input could not be read: findings may be missing", at: 0) }
        if notes.isEmpty { return "" }
        let list = notes.map { "<li>\($0)" }.joined()
        if notes.count == 1 { return "<ul class=\"notes\">\(list)</ul>\n" }
        return "<details class=\"notes\"><summary>\(notes.count) notes</summary><ul>\(list)</ul></details>\n"
    }

    private var timelines: String {
        var processes: [Int] = []
        var samples: [Int: [TimelineSample]] = [:]
        for sample in document.timeline {
            if samples[sample.processID] == nil { processes.append(sample.processID) }
            samples[sample.processID, default: []].append(sample)
        }
        let numbered = sections.flatMap { $0.classes.flatMap(\.findings) }
        var text = ""
        var shown = 0
        var left = 0
        for process in processes {
            let marks = numbered.compactMap { number, finding in
                finding.processID == process
                    ? finding.time.flatMap { Timestamp($0) }.map { TimelinePicture.Mark(time: $0, number: number) }
                    : nil
            }
            guard let picture = TimelinePicture(samples[process] ?? [], marks: marks) else { continue }
            if shown == Self.mostTimelines {
                left += 1
                continue
            }
            shown += 1
            let program = samples[process]?.lazy.compactMap(\.program).first
            text += "<h3>\(program.map { htmlText($0) + " " } ?? "process ")[\(process)]</h3>\(picture.figure)"
        }
        if text.isEmpty { return "" }
        if left > 0 { text += "<p class=\"more\">\(left) more process\(left == 1 ? "" : "es") not shown</p>" }
        return "<details class=\"time\" open><summary><h2>Heap and quarantine</h2></summary>\(text)</details>\n"
    }

    private func sectionHTML(_ section: Section) -> String {
        let kind = FindingKind.of(section.kind)
        var text =
            "<section class=\"kind\" id=\"\(anchor(section.kind))\"><h2>\(htmlText(section.kind.rawValue)) <span>\(section.count)"
        text += "</span></h2><p class=\"why\">\(htmlText(kind.summary))"
        text +=
            "<details class=\"help\"><summary>what it means</summary><p>\(htmlText(kind.explanation))<p>\(htmlText(kind.help))</details>\n"
        let total = document.findings.count
        for group in section.classes {
            let name = group.name.map { htmlText($0) } ?? "blocks of no known class"
            let heading = "<h3>\(name) <span>\(group.findings.count)</span></h3>"
            text += "<div class=\"group\">\(section.classes.count > 1 ? heading : "")<div class=\"list\">\n"
            for (number, finding) in group.findings {
                text +=
                    HTMLFinding(
                        finding: finding, number: number, isOpen: total <= Self.maxExpandedFindings || number == 1,
                        sourceRoot: document.sourceRoot, sources: number <= Self.findingsWithSources ? sources : nil
                    ).article
            }
            text += "</div></div>"
        }
        return text + "</section>\n"
    }

    private var suppressed: String {
        if document.suppressedFindings.isEmpty { return "" }
        var text = "<details class=\"supp\"><summary>\(document.suppressedCount) suppressed</summary><ul>"
        for suppressed in document.suppressedFindings {
            text += "<li><b>\(htmlText(suppressed.finding.kind.rawValue))</b> \(htmlText(suppressed.finding.sentence))"
            if suppressed.finding.count > 1 { text += " <span class=\"cnt\">×\(suppressed.finding.count)</span>" }
            if let reason = suppressed.reason { text += " <span class=\"where\">\(htmlText(reason))</span>" }
        }
        return text + "</ul></details>\n"
    }

    private var footer: String {
        var parts = ["zguard \(htmlText(document.version))", "made \(document.made)"]
        if let status = document.exitStatus { parts.append("the program's exit status was \(status)") }
        if let command = document.commandText { parts.append("<code>\(htmlText(command, cutAt: 1000))</code>") }
        return "<footer>\(parts.joined(separator: " · "))</footer>\n"
    }
}
