// Renders a store of findings as HTML: a list of groups, and a page per group. `htmlText` escapes every text.

import ZombieGuard

/// Renders the pages of a store.
public struct FleetPages {
    private let source: FleetSource
    /// Name of the store, as given; nil: not shown.
    private let name: String?
    private let warn: (String) -> Void
    private let symbolicators: StoreSymbolicators
    private let today: () -> Timestamp
    /// The user who requests the page; nil if the server has no tokens.
    private var user: User?

    private static let groupsOfPage = 100
    static let sparkDays: Int64 = 30

    /// Makes a renderer for one thread.
    ///
    /// - Parameters:
    ///   - source: the store.
    ///   - name: name of the store for the footer; nil if readers may be users of other machines.
    ///   - symbols: symbol sources for raw frames.
    ///   - warn: called with errors that are hidden from users with tokens; the text is safe to print.
    ///   - today: current time; charts end on this day.
    public init(
        _ source: FleetSource, name: String?, symbols: SymbolSources = SymbolSources(),
        warn: @escaping (String) -> Void = { _ in }, today: @escaping () -> Timestamp = { .now }
    ) {
        self.source = source
        (self.name, self.warn) = (name, warn)
        // With a path alone, a finding could name a file that its sender may not read: require build-ids.
        symbolicators = StoreSymbolicators(
            source.address, sources: symbols, needsBuildIDs: name == nil || source.address.isDatabase)
        self.today = today
    }

    /// Answers a request.
    ///
    /// - Parameter request: a parsed request.
    /// - Returns: a page, or an error page with status 404 or 503.
    public func response(to request: HTTPRequest) -> HTTPResponse {
        var pages = self
        pages.user = request.user
        return pages.answer(request)
    }

    private func answer(_ request: HTTPRequest) -> HTTPResponse {
        do throws(FleetError) {
            switch request.path {
            case "/": return try overview(request.query)
            case "/style.css":
                return HTTPResponse(type: "text/css; charset=utf-8", body: HTMLStyle.text + FleetPageStyle.text)
            case "/metrics": return try metrics(request.query)
            case "/keys.js": return HTTPResponse(type: "text/javascript; charset=utf-8", body: FleetPageStyle.keys)
            default:
                let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
                if parts.count == 3, parts[1] == "group" { return try group(String(parts[2]), request.query) }
                if parts.count >= 3, parts[1] == "api" {
                    return try FleetAPI(self).response(parts.dropFirst(2), request)
                }
                return page(
                    "Not found", status: 404,
                    "<main><p class=\"none\">There is no such page. <a href=\"/\">All groups</a></p></main>")
            }
        } catch {
            if request.user != nil { warn("\(error)") }
            let text = error.text(for: request.user)
            if request.path.hasPrefix("/api/") { return .problem(503, text) }
            return page("Store not available", status: 503, "<main><p class=\"none\">\(htmlText(text))</p></main>")
        }
    }

    private func page(_ title: String, status: Int = 200, _ body: String) -> HTTPResponse {
        HTTPResponse(
            status: status,
            body: """
                \(FleetPageStyle.head(htmlText(title), more: "\n<script src=\"/keys.js\" defer></script>"))
                \(body)
                \(user.map(Self.logout) ?? "")<footer>zguard \(htmlText(zombieGuardVersion))\(name.map { " · " + htmlText($0) } ?? "") · keys: <kbd>/</kbd> search, <kbd>j</kbd> <kbd>k</kbd> \
                next and previous, <kbd>Enter</kbd> open, <kbd>u</kbd> back</footer>
                </body>
                </html>

                """)
    }

    private static func logout(_ user: User) -> String {
        """
        <form class="logout" action="/logout" method="post">\(htmlText(user.name, cutAt: 100)) <button>Log out</button></form>

        """
    }

    // MARK: Overview

    /// The states that the list of groups shows, by value of parameter `state`; without a value, those that need a
    /// decision.
    static let states: [(value: String, label: String, states: Set<Triage.State>)] =
        [("", "open and regressions", [.open, .regression]), ("all", "all", [])]
        + Triage.State.allCases.map { ($0.rawValue, $0.rawValue, [$0]) }

    func filter(_ query: [String: String]) -> (filter: FleetFilter, problem: String?) {
        func value(_ name: String) -> String? { query[name].flatMap { $0.isEmpty ? nil : String($0.prefix(500)) } }
        var filter = FleetFilter()
        var problem: String?
        filter.tenant = value("tenant")
        let state = value("state") ?? ""
        if let choice = Self.states.first(where: { $0.value == state }) {
            filter.states = choice.states
        } else {
            problem = "state: expected one of \(Self.states.map(\.value).dropFirst().joined(separator: ", "))"
        }
        do throws(ValueError) { try FleetSearch.add(value("q") ?? "", to: &filter, now: today()) } catch {
            problem = "since, until: expected \(error.expected)"
        }
        for key in FleetSearch.Key.allCases {
            guard let text = value(key.rawValue) else { continue }
            do throws(ValueError) { try FleetSearch.add(key, text, to: &filter, now: today()) } catch {
                problem = "\(key): expected \(error.expected)"
            }
        }
        return (filter, problem)
    }

    private func overview(_ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let (filter, problem) = filter(query)
        let order = FleetReader.Order(rawValue: query["order"] ?? "") ?? .often
        let number = max(1, min(Int(digits: query["page"] ?? "") ?? 1, 10_000))
        let first = today().earlier(bySeconds: (Self.sparkDays - 1) * 86400)
        let answer = try source.ask { (reader) throws(FleetError) in
            var filter = filter
            let triage = try reader.triage(filter.tenant, now: today())
            filter.triage = triage
            let (groups, totals) = try reader.page(
                filter, order: order, limit: Self.groupsOfPage + 1, offset: (number - 1) * Self.groupsOfPage)
            return (
                groups, totals,
                try reader.days(
                    of: groups.prefix(Self.groupsOfPage).map(\.signature), since: first.day, tenant: filter.tenant),
                triage, try heatMap(filter, reader)
            )
        }
        let (groups, totals, days, triage, map) = answer
        var body = """
            <header><div class="bar"><h1><a href="/">Findings</a></h1><p class="sum"><b>\(totals.groups)</b> \
            group\(totals.groups == 1 ? "" : "s"), seen <b>\(totals.occurrences)</b> times</p></div>
            \(searchForm(query, order))</header><main>
            \(Self.searchHint)
            """
        if let problem { body += "<p class=\"notes\">\(htmlText(problem))</p>\n" }
        if groups.isEmpty {
            let isPart = !filter.states.isEmpty
            body +=
                "<p class=\"none\">No findings\(isPart ? " in this state. <a href=\"/?state=all\">All states</a>" : ".")</p>\n"
        }
        body += map
        body += "<ol class=\"groups\" start=\"\((number - 1) * Self.groupsOfPage + 1)\">\n"
        for group in groups.prefix(Self.groupsOfPage) {
            body += row(group, triage[group.signature], days[group.signature] ?? [:], since: first, query)
        }
        body += "</ol>\n" + pager(query, number: number, hasMore: groups.count > Self.groupsOfPage) + "</main>"
        return page("Findings", body)
    }

    private func row(
        _ group: FleetReader.Group, _ triage: Triage?, _ days: [String: Int64], since: Timestamp,
        _ query: [String: String]
    ) -> String {
        let link = "/group/\(urlText(group.signature))" + tenantQuery(query)
        let version = group.version.map { " · since <b>\(htmlText($0, cutAt: 60))</b>" } ?? ""
        let state =
            triage.map { $0.state == .open ? "" : "<span class=\"state \($0.state)\">\($0.state)</span> " } ?? ""
        let assigned = triage?.assigned.map { " · \(htmlText($0, cutAt: 60))" } ?? ""
        return """
            <li class="g"><a href="\(link)">\(state)<span class="kind">\(htmlText(group.kind, cutAt: 60))</span> \(htmlText(withoutAddresses(group.headline), cutAt: 300))</a>\
            <span class="facts"><b>×\(group.occurrences)</b> · last \(dayText(group.last))\(version)\(assigned)</span>\(DayChart(days, since: since, count: Int(Self.sparkDays)).svg(width: 150, height: 26))</li>

            """
    }

    func tenantQuery(_ query: [String: String]) -> String {
        HTTPRequest.tenant(in: query).map { "?tenant=\(urlText($0))" } ?? ""
    }

    func dayText(_ time: Timestamp) -> String { "<time>\(time.day)</time>" }

    private func pager(_ query: [String: String], number: Int, hasMore: Bool) -> String {
        func link(_ page: Int, _ label: String) -> String {
            var query = query
            query["page"] = "\(page)"
            let text = query.sorted { $0.key < $1.key }.map { "\(urlText($0.key))=\(urlText($0.value))" }.joined(
                separator: "&amp;")
            return "<a href=\"/?\(text)\">\(label)</a>"
        }
        if number == 1, !hasMore { return "" }
        return
            "<nav class=\"pages\">\(number > 1 ? link(number - 1, "previous") : "") page \(number) \(hasMore ? link(number + 1, "next") : "")</nav>\n"
    }

    // MARK: One group

    // `wanted` may be a signature that the group had earlier.
    private func group(_ wanted: String, _ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let tenant = HTTPRequest.tenant(in: query)
        let days = 60
        let first = today().earlier(bySeconds: Int64(days - 1) * 86400)
        let answer = try source.ask { (reader) throws(FleetError) in
            let groups = try reader.groups(signed: wanted, tenant: tenant)
            let signature = groups.first?.signature ?? wanted
            return (
                groups, try reader.hosts(of: signature, tenant: tenant),
                try reader.versions(of: signature, tenant: tenant),
                try GroupFindings(query, groups.first, tenant: tenant, reader),
                try reader.days(of: [signature], since: first.day, tenant: tenant),
                try reader.triage(tenant, now: today())[signature],
                try groups.first.map { (group) throws(FleetError) in try heatMap(of: group, tenant, reader) } ?? ""
            )
        }
        let (groups, hosts, versions, findings, counts, triage, map) = answer
        guard let group = groups.first else {
            return page(
                "Not found", status: 404,
                "<main><p class=\"none\">There is no such group. <a href=\"/\">All groups</a></p></main>")
        }
        var body = """
            \(HTMLReport.patterns)<header><div class="bar"><h1><a href="/\(tenantQuery(query))">Findings</a> / <span class="kind">\(htmlText(group.kind, cutAt: 60))</span></h1>\
            <p class="sum">seen <b>\(group.occurrences)</b> times on <b>\(hosts.count)</b> machine\(hosts.count == 1 ? "" : "s"), first \
            \(htmlText(group.first.description)), last \(htmlText(group.last.description))</p></div></header>
            <main><h2>\(htmlText(withoutAddresses(group.headline), cutAt: 500))</h2>
            \(triage.map(history) ?? "")\(TriageForms.text(for: group.signature, tenantQuery(query), user))\
            <figure class="chart">\(DayChart(counts[group.signature] ?? [:], since: first, count: days).svg(width: 720, height: 80))\
            <figcaption>occurrences per day, last \(days) days</figcaption></figure>
            <div class="tables">
            """
        body += "<section><h3>Machines <span>\(hosts.count)</span></h3><table>"
        for host in hosts.hosts {
            body +=
                "<tr><td>\(htmlText(host.name, cutAt: 120))<td class=\"n\">×\(host.occurrences)<td>\(dayText(host.last))"
        }
        body += "</table></section><section><h3>Versions</h3><table>"
        for version in versions {
            let name = version.name.isEmpty ? "none" : htmlText(version.name, cutAt: 120)
            body +=
                "<tr><td>\(name)<td class=\"n\">×\(version.occurrences)<td>\(dayText(version.first)) – \(dayText(version.last))"
        }
        body += "</table></section></div>\n"
        body += map
        body += findings.list(path: "/group/\(urlText(group.signature))", query)
        if let finding = findings.shown ?? Finding(jsonLine: group.line) {
            var named = symbolicators.symbolicate(finding, of: tenant)
            // Symbolication may have changed the signature; this store knows only the group's.
            named.signature = group.signature
            body += FindingLife(named)?.figure ?? ""
            body += "<div class=\"list\">\(HTMLFinding.article(of: named))</div>\n"
        }
        return page("\(group.kind)", body + "</main>")
    }
}

extension FleetPages {
    // MARK: Triage

    /// What was decided about a group, the latest first.
    private func history(_ triage: Triage) -> String {
        var text = "<section class=\"triage\"><p><span class=\"state \(triage.state)\">\(triage.state)</span> "
        let words = triage.text ?? ""
        let rest = words.hasPrefix("\(triage.state): ") ? words.dropFirst("\(triage.state): ".count) : words[...]
        text += "\(htmlText(String(rest), cutAt: 500))</p><table>"
        for event in triage.events.reversed().prefix(Self.mostEvents) {
            let comment = event.comment.isEmpty ? "" : ": " + htmlText(event.comment, cutAt: 1000)
            text +=
                "<tr><td>\(dayText(event.time))<td>\(htmlText("\(event.author) \(event.action)", cutAt: 600))\(comment)"
        }
        return text + "</table></section>\n"
    }

    private static let mostEvents = 50

    // MARK: Metrics

    /// Metrics of the store for Prometheus.
    private func metrics(_ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let tenant = HTTPRequest.tenant(in: query)
        let (counts, states) = try source.ask { (reader) throws(FleetError) in
            (try reader.counts(tenant, most: Self.mostSeries), try reader.states(tenant, now: today()))
        }
        var text = """
            # HELP zguard_store_findings Findings in the store by kind, program and version.
            # TYPE zguard_store_findings gauge

            """
        func series(_ name: String, _ value: (FleetReader.Count) -> Int64) {
            for count in counts {
                let labels = [("kind", count.kind), ("program", count.program), ("version", count.version)]
                    .map { "\($0)=\"\(Self.label($1))\"" }.joined(separator: ",")
                text += "\(name){\(labels)} \(value(count))\n"
            }
        }
        series("zguard_store_findings", \.findings)
        text += """
            # HELP zguard_store_occurrences How often the bugs occurred, by kind, program and version.
            # TYPE zguard_store_occurrences gauge

            """
        series("zguard_store_occurrences", \.occurrences)
        text += """
            # HELP zguard_store_groups Groups of equal findings by state.
            # TYPE zguard_store_groups gauge

            """
        for state in Triage.State.allCases {
            text += "zguard_store_groups{state=\"\(state.rawValue)\"} \(states[state] ?? 0)\n"
        }
        return HTTPResponse(type: "text/plain; version=0.0.4; charset=utf-8", body: text)
    }

    private static let mostSeries = 1000

    private static func label(_ text: String) -> String {
        visible(text).replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    }

    /// Queries the store.
    func ask<Answer>(_ question: (FleetReader) throws(FleetError) -> Answer) throws(FleetError) -> Answer {
        try source.ask(question)
    }

    var now: Timestamp { today() }
}

/// Percent-encodes a text for a URL.
func urlText(_ text: String) -> String {
    var escaped = ""
    for byte in text.utf8 {
        let isPlain =
            byte < 0x80
            && (Character(Unicode.Scalar(byte)).isLetter || Character(Unicode.Scalar(byte)).isNumber
                || "-._~".utf8.contains(byte))
        let digits = String(byte, radix: 16, uppercase: true)
        escaped += isPlain ? String(Unicode.Scalar(byte)) : "%" + (byte < 16 ? "0" : "") + digits
    }
    return escaped
}

/// A bar chart of occurrences per day.
struct DayChart {
    private let counts: [(day: String, count: Int64)]

    init(_ days: [String: Int64], since: Timestamp, count: Int) {
        counts = (0..<count).map { index in
            let day = since.earlier(bySeconds: -Int64(index) * 86400).day
            return (day, max(0, days[day] ?? 0))
        }
    }

    func svg(width: Int, height: Int) -> String {
        let most = counts.max { $0.count < $1.count } ?? ("", 0)
        let sum = counts.reduce(Int64(0)) { $0.addingReportingOverflow($1.count).overflow ? .max : $0 + $1.count }
        let label =
            sum == 0
            ? "not seen in \(counts.count) days"
            : "seen \(sum) times in \(counts.count) days, most on \(most.day): \(most.count)"
        var text =
            "<svg class=\"spark\" role=\"img\" aria-label=\"\(label)\" viewBox=\"0 0 \(width) \(height)\" width=\"\(width)\" height=\"\(height)\"><title>\(label)</title>"
        let step = Double(width) / Double(max(1, counts.count))
        for (index, entry) in counts.enumerated() where entry.count > 0 {
            // At least 2 units high, so that the smallest bar is visible.
            let tall = max(2, Double(height - 2) * Double(entry.count) / Double(most.count))
            text +=
                "<rect x=\"\(points(Double(index) * step))\" y=\"\(points(Double(height) - 1 - tall))\" width=\"\(points(max(1, step - 1)))\" height=\"\(points(tall))\"/>"
        }
        return text + "<path d=\"M0 \(height - 1)H\(width)\"/></svg>"
    }
}
