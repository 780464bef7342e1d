// The text of an alert, and its forms for programs, Slack, Microsoft Teams and mail.

import Glibc
import ZombieGuard

/// An event of a group, about which a message is sent. Stored until the message has been sent.
struct AlertEvent: Hashable {
    /// "new", "regression", "rate", "hosts", "stall" or "deadlock".
    var event: String
    var signature: String
    /// Why the event is an alert, such as "seen 120 times within an hour, more than 100"; "" if the event needs no
    /// reason.
    var reason: String
    /// For a regression: id of the decision that had resolved the group.
    var decision = ""

    /// The event as JSON, for the column `body` of zguard_alerts.
    var body: String {
        JSONText.object([
            ("event", .string(event)), ("signature", .string(signature)), ("reason", .string(reason)),
            ("decision", .string(decision)),
        ]).line
    }

    init(event: String, signature: String, reason: String, decision: String = "") {
        (self.event, self.signature, self.reason, self.decision) = (event, signature, reason, decision)
    }

    /// Decodes a body; nil if it is malformed.
    init?(body: String) {
        var text = body
        let read = try? JSONScanner.read(&text) { (scanner) throws(JSONScanner.Problem) in
            try scanner.dictionary { (scanner) throws(JSONScanner.Problem) in try scanner.anyText() }
        }
        guard let read, let event = read["event"], let signature = read["signature"] else { return nil }
        self.init(
            event: event, signature: signature, reason: read["reason"] ?? "", decision: read["decision"] ?? "")
    }

    /// The event in words.
    var title: String {
        switch event {
        case "new": "new bug"
        case "regression": "regression"
        case "rate": "frequent bug"
        case "hosts": "bug on many machines"
        case "stall": "long stall"
        case "deadlock": "deadlock"
        default: event
        }
    }
}

/// A message for one destination (`way`). Its title, lines and link are safe to print: they have no control characters.
struct AlertMessage {
    /// 32 hexadecimal digits. A message that is sent again keeps its id.
    var id: String
    /// One line that says what happened.
    var title: String
    /// Further facts, one per line.
    var lines: [String]
    /// Address of the page of `zguard serve` to open; nil if the address of `zguard serve` is unknown.
    var link: String?
    var json: JSONText

    /// The message about one group.
    init(id: String, _ event: AlertEvent, _ facts: AlertFacts, tenant: String, pages: String?) {
        let group = facts.group
        let versions = facts.versions
        func list(_ names: [String], _ count: Int64? = nil) -> String {
            let more = (count ?? Int64(names.count)) - Int64(min(3, names.count))
            let shown = names.prefix(3).map { Self.short($0, 120) }.joined(separator: ", ")
            return more > 0 ? "\(shown) and \(more) more" : shown
        }
        let headline = withoutAddresses(group.headline)
        self.id = id
        title = Self.short("\(event.title): \(headline)", 600)
        link = pages.map { "\($0)/group/\(group.signature)\(Self.query(tenant))" }
        var lines: [String] = []
        if !event.reason.isEmpty { lines.append(event.reason) }
        if !facts.programs.isEmpty { lines.append("program: \(list(facts.programs))") }
        if let last = versions.last {
            let since = versions.count > 1 ? " (since \(Self.short(versions[0], 120)))" : ""
            lines.append("version: \(Self.short(last, 120))\(since)")
        }
        if !facts.hosts.isEmpty { lines.append("host: \(list(facts.hosts, facts.hostCount))") }
        let times = group.occurrences == 1 ? "once" : "\(group.occurrences) times"
        lines.append("seen \(times), first \(group.first), last \(group.last)")
        lines.append("state: " + Self.short(facts.triage?.text ?? "open", 500))
        lines.append("signature: \(group.signature)")
        if tenant != ShippedFinding.Sender.standardTenant { lines.append("tenant: \(Self.short(tenant, 120))") }
        self.lines = lines
        json = .object([
            ("schema", .string("zguard.alert/1")), ("id", .string(id)), ("event", .string(event.event)),
            ("text", .string(title)), ("reason", event.reason.isEmpty ? nil : .string(event.reason)),
            ("tenant", .string(visible(tenant))), ("url", link.map { .string($0) }),
            ("programs", .array(facts.programs.map { .string($0) })),
            ("versions", .array(versions.map { .string($0) })),
            ("hosts", .array(facts.hosts.map { .string($0) })), ("host_count", .integer(facts.hostCount)),
            ("group", group.json(facts.triage)),
        ])
    }

    private static let mostSignatures = 10_000

    /// The combined message about many groups.
    ///
    /// - Parameters:
    ///   - id: id of the message.
    ///   - messages: the messages to list.
    ///   - events: all events, including those that are only counted.
    init(overview id: String, _ messages: [AlertMessage], of events: [AlertEvent], tenant: String, pages: String?) {
        self.id = id
        var counts: [(title: String, count: Int)] = []
        for event in events {
            if let place = counts.firstIndex(where: { $0.title == event.title }) {
                counts[place].count += 1
            } else {
                counts.append((event.title, 1))
            }
        }
        title = "\(events.count) alerts: " + counts.map { "\($0.title) ×\($0.count)" }.joined(separator: ", ")
        link = pages.map { "\($0)/\(Self.query(tenant))" }
        lines = messages.map { Self.short($0.title, 130) }
        if events.count > messages.count { lines.append("and \(events.count - messages.count) more") }
        json = .object([
            ("schema", .string("zguard.alert/1")), ("id", .string(id)), ("event", .string("digest")),
            ("text", .string(title)), ("tenant", .string(visible(tenant))), ("url", link.map { .string($0) }),
            ("count", .integer(Int64(events.count))), ("alerts", .array(messages.map(\.json))),
            ("signatures", .array(events.prefix(Self.mostSignatures).map { .string($0.signature) })),
        ])
    }

    /// A message that tests whether the destination `way` can be reached.
    init(test id: String, way: String) {
        self.id = id
        title = "test: alerts of zguard arrive by '\(visible(way))'"
        lines = ["sent by zguard alerts --test"]
        json = .object([
            ("schema", .string("zguard.alert/1")), ("id", .string(id)), ("event", .string("test")),
            ("text", .string(title)),
        ])
    }

    /// A text that is safe to print, and at most `count` characters long.
    static func short(_ text: String, _ count: Int) -> String {
        let text = visible(text)
        return text.unicodeScalars.count <= count
            ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(count - 1))) + "…"
    }

    private static func query(_ tenant: String) -> String {
        tenant == ShippedFinding.Sender.standardTenant ? "" : "?tenant=\(urlText(tenant))"
    }

    /// Title, lines and link, one below the other.
    var text: String { ([title] + lines + (link.map { [$0] } ?? [])).joined(separator: "\n") }

    // MARK: Slack

    private static let longestSection = 2900, mostShown = 20

    /// The body for an incoming webhook of Slack. Slack shows the blocks in the channel, and `text` in notifications.
    /// All texts are escaped by ``slackText(_:_:)``.
    var slack: JSONText {
        func section(_ text: String) -> JSONText {
            .object([
                ("type", .string("section")),
                (
                    "text",
                    .object([("type", .string("plain_text")), ("text", .string(text)), ("emoji", .bool(false))])
                ),
            ])
        }
        var blocks = [section(Self.slackText(title, Self.longestSection))]
        let rest = Self.slackText(lines.prefix(Self.mostShown + 1).joined(separator: "\n"), Self.longestSection)
        if !rest.isEmpty { blocks.append(section(rest)) }
        if let link {
            let text = JSONText.object([
                ("type", .string("mrkdwn")), ("text", .string("<\(Self.slackLink(link))|open the page>")),
            ])
            blocks.append(.object([("type", .string("section")), ("text", text)]))
        }
        return .object([("text", .string(Self.slackText(title, Self.longestSection))), ("blocks", .array(blocks))])
    }

    /// The text, escaped for Slack; "…" follows its first `limit` characters if it is longer:
    /// https://docs.slack.dev/messaging/formatting-message-text#escaping
    static func slackText(_ text: String, _ limit: Int) -> String {
        var escaped = ""
        var count = 0
        for scalar in text.unicodeScalars {
            let part =
                switch scalar {
                case "&": "&amp;"
                case "<": "&lt;"
                case ">": "&gt;"
                default: String(scalar)
                }
            count += part.unicodeScalars.count
            if count > limit { return escaped + "…" }
            escaped += part
        }
        return escaped
    }

    private static func slackLink(_ link: String) -> String {
        slackText(link, longestSection).replacing("|", with: "%7C")
    }

    // MARK: Microsoft Teams

    /// The body for a webhook of Teams' workflows: a message with an Adaptive Card. Its texts are TextRuns, which show
    /// Markdown characters unchanged.
    var teams: JSONText {
        func block(_ text: String, isTitle: Bool = false) -> JSONText {
            // Break up "{{": Adaptive Cards evaluate functions such as "{{DATE(…)}}".
            let run: [(key: String, value: JSONText?)] = [
                ("type", .string("TextRun")), ("text", .string(text.replacing("{{", with: "{ {"))),
                ("weight", isTitle ? .string("Bolder") : nil),
            ]
            return .object([("type", .string("RichTextBlock")), ("inlines", .array([.object(run)]))])
        }
        let open = link.map { link in
            JSONText.array([
                .object([
                    ("type", .string("Action.OpenUrl")), ("title", .string("Open the page")), ("url", .string(link)),
                ])
            ])
        }
        let card: [(key: String, value: JSONText?)] = [
            ("$schema", .string("http://adaptivecards.io/schemas/adaptive-card.json")),
            ("type", .string("AdaptiveCard")), ("version", .string("1.2")), ("fallbackText", .string(title)),
            (
                "body",
                .array([block(title, isTitle: true)] + lines.prefix(Self.mostShown + 1).map { block($0) })
            ), ("actions", open),
        ]
        return .object([
            ("type", .string("message")),
            (
                "attachments",
                .array([
                    .object([
                        ("contentType", .string("application/vnd.microsoft.card.adaptive")), ("contentUrl", .null),
                        ("content", .object(card)),
                    ])
                ])
            ),
        ])
    }

    // MARK: Mail

    /// The message with its headers, for `sendmail -t`.
    func mail(to addresses: [String]) -> String {
        // RFC 5322 allows 998 bytes a line.
        let body = text.split(separator: "\n").map { Self.folded(String($0)) }.joined(separator: "\n")
        return """
            To: \(addresses.joined(separator: ", "))
            Subject: \(Self.header("[zguard] " + Self.short(title, 150)))
            Message-ID: <\(id)@zguard.invalid>
            Auto-Submitted: auto-generated
            MIME-Version: 1.0
            Content-Type: text/plain; charset=utf-8
            Content-Transfer-Encoding: 8bit

            \(body)

            """
    }

    /// A header's text. If it has other characters than printable ASCII, or "=?", it becomes encoded words (RFC 2047).
    /// The text must be safe to print, because a line end would begin another header.
    static func header(_ text: String) -> String {
        if text.isPrintableASCII, !text.contains("=?") { return text }
        var words: [String] = []
        var word = ""
        for scalar in text.unicodeScalars {
            let bytes = Array(String(scalar).utf8)
            let isPlain = bytes.count == 1 && (Character(scalar).isLetter || Character(scalar).isNumber)
            let part =
                isPlain
                ? String(scalar)
                : bytes.map { "=" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined()
            if word.utf8.count + part.utf8.count > 60 {
                words.append(word)
                word = ""
            }
            word += part
        }
        return (words + [word]).map { "=?utf-8?Q?\($0)?=" }.joined(separator: "\n ")
    }

    private static func folded(_ line: String) -> String {
        var folded = ""
        var count = 0
        for scalar in line.unicodeScalars {
            let size = String(scalar).utf8.count
            if count + size > 900 {
                folded += "\n "
                count = 0
            }
            folded.unicodeScalars.append(scalar)
            count += size
        }
        return folded
    }
}
