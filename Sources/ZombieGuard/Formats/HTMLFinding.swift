// Renders one finding as HTML: sentence, picture of the block, stacks, and details.

package struct HTMLFinding {
    let finding: Finding
    /// The finding's number on the page, from 1.
    let number: Int
    let isOpen: Bool
    let sourceRoot: String?
    let sources: SourceExcerpts?

    /// Number of findings that have a second picture for narrow windows. The limit keeps a page with thousands of
    /// findings small.
    private static let findingsWithNarrowPicture = 20

    /// Renders the only finding of a page, expanded and without source excerpts.
    package static func article(of finding: Finding) -> String {
        Self(finding: finding, number: 1, isOpen: true, sourceRoot: nil, sources: nil).article
    }

    /// A `details` element.
    var article: String {
        let badge =
            finding.count > 1 ? "<span class=\"cnt\" title=\"how often it was seen\">×\(finding.count)</span>" : ""
        let unsure = finding.confidence == .inferred ? "<span class=\"tag\">inferred</span>" : ""
        return """
            <details class="f" id="f\(number)"\(isOpen ? " open" : "")><summary><span class="no">\(number)</span>\
            <span class="say">\(sentence)</span>\(unsure)\(badge)</summary><div class="in">\(block)\(holders)\(waits)\(stacks)\(changes)\(details)</div>\
            </details>

            """
    }

    // The sentence, with its source location in a separate element.
    private var sentence: String {
        // Omit addresses in a group: its findings are about different blocks.
        var text = finding.count > 1 ? withoutAddresses(finding.sentence) : finding.sentence
        guard let place = finding.stacks.accessOrigin?.shortPlace, text.hasSuffix(", in " + place) else {
            return htmlText(text, cutAt: 700)
        }
        text.removeLast((", in " + place).count)
        return "\(htmlText(text, cutAt: 600)) <span class=\"where\">in \(htmlText(place))</span>"
    }

    private var block: String {
        guard let block = finding.block else { return "" }
        let pictures = BlockPicture.pictures(finding, hasNarrow: number <= Self.findingsWithNarrowPicture)
        var facts = ["\(sizeText(block.size))", state(block)]
        if let className = block.className {
            facts.append("\(language(block))<b>\(htmlText(className, cutAt: 160))</b>")
        }
        facts.append("<code>\(block.start) – \(Address(block.start.rawValue &+ block.size))</code>")
        if let address = finding.address, address != block.start { facts.append("address <code>\(address)</code>") }
        return """
            <figure class="bk"><div class="scroll">\(pictures)</div><figcaption>\(facts.joined(separator: " · "))\
            </figcaption></figure>
            """
    }

    private func language(_ block: Finding.Block) -> String {
        switch block.knownLanguage {
        case .swift: "Swift object "
        case .cxx: "C++ object "
        case .unknown, nil: "object "
        }
    }

    private func state(_ block: Finding.Block) -> String {
        let text =
            switch block.knownState {
            case .live: "in use"
            case .quarantined: "in quarantine"
            case .retired: "freed, its pages protected"
            case .reusable: "freed, evicted from the quarantine"
            case .unused, .freeing, nil: "state \(htmlText(block.state ?? "unknown", cutAt: 40))"
            }
        return "<span class=\"state \(block.stateClass)\">\(text)</span>"
    }

    private var stacks: String {
        let sections = finding.stacksToShow.map { event in
            HTMLStack(
                event: event, sourceRoot: sourceRoot,
                excerpt: event.frames.origin.flatMap {
                    $0.isLibraryCode ? nil : sources?.excerpt(for: $0, by: finding.author)
                }
            ).section
        }
        if sections.isEmpty { return "" }
        return "<div class=\"stacks n\(sections.count)\">\(sections.joined())</div>"
    }

    // The remaining pointers to the freed block.
    private var holders: String {
        guard let holders = finding.holders else { return "" }
        if holders.isEmpty {
            return "<section class=\"chg\"><h4>No other pointer to the block was found</h4></section>"
        }
        let rows = holders.map { holder in
            let reference = holder.isTyped ? "a reference" : "a word that equals the address"
            return "<tr><td>\(htmlText(holder.text, cutAt: 400))<td>\(reference)"
        }
        return
            "<section class=\"chg held\"><h4>Still held by</h4>\(HolderPicture(finding)?.list ?? "")<div class=\"scroll\"><table>"
            + rows.joined() + "</table></div></section>"
    }

    // The wait-for graph of a deadlock, or the flame graph of a stall's samples.
    private var waits: String { WaitGraph(finding)?.figure ?? finding.stall?.flame ?? "" }

    // The retains and releases of the object, as in the text report.
    private var changes: String {
        let shown = finding.history.withoutBalancedPairs
        if shown.isEmpty { return "" }
        let pairs = (finding.history.count - shown.count) / 2
        let omitted = pairs == 0 ? "" : " (\(pairs) balanced \(pairs == 1 ? "pair" : "pairs") left out)"
        let rows = shown.map { change in
            let place = htmlText(change.place(Self.framesOfChange), cutAt: 400)
            return "<tr><td>\(htmlText(change.text, cutAt: 60))<td>thread \(change.thread)<td><code>\(place)</code>"
        }
        return
            "<section class=\"chg\"><h4>Retains and releases, newest first\(omitted)</h4><div class=\"scroll\"><table>"
            + rows.joined() + "</table></div></section>"
    }
    private static let framesOfChange = 3

    private var details: String {
        var parts: [(String, String)] = []
        if let program = finding.program {
            parts.append(("program", htmlText(program) + (finding.processID.map { " [\($0)]" } ?? "")))
        } else if let processID = finding.processID {
            parts.append(("process", "\(processID)"))
        }
        if let thread = finding.thread {
            parts.append(
                ("thread", "\(thread.id)" + (thread.name.map { $0.isEmpty ? "" : " (\(htmlText($0)))" } ?? "")))
        }
        if let triage = finding.triage { parts.append(("triage", htmlText(triage.text))) }
        if let time = finding.time { parts.append(("time", htmlText(time))) }
        parts.append(("signature", "<code>\(htmlText(finding.signature ?? finding.computeSignature()))</code>"))
        parts.append(("access", htmlText("\(finding.access.rawValue), \(finding.confidence.rawValue)")))
        for (name, value) in (finding.crash?.annotations ?? [:]).sorted(by: { $0.key < $1.key }) {
            parts.append((htmlText(name, cutAt: 60), htmlText(value)))
        }
        if let registers = finding.crash?.registers, !registers.isEmpty {
            let list = registers.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            parts.append(("registers", "<code>\(htmlText(list.joined(separator: ", ")))</code>"))
        }
        for (name, value) in finding.detail.sorted(by: { $0.key < $1.key }) {
            parts.append((htmlText(name.split(separator: "_").joined(separator: " "), cutAt: 60), htmlText(value)))
        }
        return "<dl class=\"meta\">" + parts.map { "<div><dt>\($0.0)</dt><dd>\($0.1)</dd></div>" }.joined() + "</dl>"
    }
}

extension Finding.Block {
    /// The CSS class for the block's state.
    var stateClass: String { knownState.flatMap { $0.isReported ? $0.rawValue : nil } ?? "unknown" }
}
