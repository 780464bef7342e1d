// Parses the rules of `zguard alerts`: which events raise an alert, and how it is sent. docs/ALERTS.md has the grammar.

import Glibc
import ZombieGuard

/// The contents of a rules file: destinations (`way`), alerts and settings.
public struct AlertRules: Sendable {
    /// Where messages go.
    var ways: [AlertWay] = []
    /// The watches. Each sends its messages to one destination.
    var watches: [AlertWatch] = []
    /// Address of the pages of `zguard serve`, without a slash at the end; nil if there are none.
    var pages: String?
    /// If more alerts than this wait for one destination, they are sent as one message.
    var digest = 10
    /// The program that takes mail.
    var sendmail = "/usr/sbin/sendmail"

    private static let verbs = ["way", "alert", "pages", "digest", "sendmail"]

    /// Parses a file.
    ///
    /// - Parameters:
    ///   - text: the rules, one per line.
    ///   - file: name of the file in messages.
    /// - Throws: ``FleetError`` that names the first wrong line and says what was expected.
    public init(_ text: String, file: String) throws(FleetError) {
        var alerts: [(line: Int, alert: AlertLine)] = []
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            do throws(AlertRuleError) {
                if let alert = try add(line) { alerts.append((number, alert)) }
            } catch {
                throw FleetError("\(visible(file)):\(number + 1): \(error.reason)", hint: error.hint)
            }
        }
        for (number, alert) in alerts {
            for name in alert.ways {
                guard let way = ways.first(where: { $0.name == name }) else {
                    let nearest = nearestName(to: name, among: ways.map(\.name))
                    throw FleetError(
                        "\(visible(file)):\(number + 1): there is no way '\(visible(name))'",
                        hint: nearest.map { "did you mean '\(visible($0))'?" } ?? "way \(visible(name)) mail ADDRESS")
                }
                let watch = AlertWatch(alert, way: way)
                if !watches.contains(where: { $0.id == watch.id }) { watches.append(watch) }
            }
        }
        if watches.isEmpty {
            throw FleetError("\(visible(file)): there is no alert", hint: "alert new to WAY")
        }
    }

    private mutating func add(_ line: Substring) throws(AlertRuleError) -> AlertLine? {
        let first = line.drop { $0 == " " || $0 == "\t" }
        if first.isEmpty || first.hasPrefix("#") { return nil }
        var words = try AlertWords(first)
        let verb = words.next() ?? ""
        switch verb {
        case "way":
            let way = try AlertWay(&words, line: first)
            if ways.contains(where: { $0.name == way.name }) {
                throw AlertRuleError("there are two ways '\(visible(way.name))'")
            }
            ways.append(way)
        case "alert": return try AlertLine(&words)
        case "pages":
            guard let text = words.next(), words.isAtEnd, text.hasPrefix("https://") || text.hasPrefix("http://") else {
                throw AlertRuleError("expected an address", hint: "pages https://findings.example")
            }
            pages = text
            while pages?.hasSuffix("/") ?? false { pages?.removeLast() }
        case "digest":
            guard let number = words.next().flatMap({ Int(digits: $0) }), (1...1000).contains(number), words.isAtEnd
            else { throw AlertRuleError("expected a number from 1 to 1000", hint: "digest 10") }
            digest = number
        case "sendmail":
            guard let path = words.next(), words.isAtEnd, path.hasPrefix("/") else {
                throw AlertRuleError("expected the path of a program", hint: "sendmail /usr/bin/msmtp")
            }
            sendmail = path
        default:
            let nearest = nearestName(to: verb, among: Self.verbs)
            throw AlertRuleError(
                "unknown word '\(visible(verb))'",
                hint: nearest.map { "did you mean '\($0)'?" }
                    ?? "a line begins with \(Self.verbs.joined(separator: ", "))"
            )
        }
        return nil
    }
}

/// What is wrong with a line of the rules.
struct AlertRuleError: Error {
    var reason: String
    var hint: String?

    init(_ reason: String, hint: String? = nil) {
        self.reason = reason
        self.hint = hint
    }
}

/// The words of a line. Blanks separate them, except between double quotes, where a backslash makes the next character
/// literal.
struct AlertWords {
    private var words: ArraySlice<String>

    init(_ line: Substring) throws(AlertRuleError) {
        var words: [String] = []
        var word: String?
        var isQuoted = false
        var rest = line.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "\"":
                isQuoted.toggle()
                word = word ?? ""
            case "\\" where isQuoted: word?.unicodeScalars.append(rest.popFirst() ?? "\\")
            case " " where !isQuoted, "\t" where !isQuoted:
                if let word { words.append(word) }
                word = nil
            default:
                if scalar.value < 0x20 { throw AlertRuleError("the line has a control character") }
                word = word ?? ""
                word?.unicodeScalars.append(scalar)
            }
        }
        if isQuoted { throw AlertRuleError("a double quote has no end") }
        if let word { words.append(word) }
        self.words = words[...]
    }

    var isAtEnd: Bool { words.isEmpty }
    var peek: String? { words.first }
    mutating func next() -> String? { words.popFirst() }
    mutating func rest() -> [String] {
        defer { words = [] }
        return Array(words)
    }

    /// Skips a word if it is the next one.
    mutating func skip(_ word: String) -> Bool {
        if words.first != word { return false }
        words.removeFirst()
        return true
    }
}

/// A line that begins with "alert".
struct AlertLine {
    var trigger: AlertWatch.Trigger
    var conditions = AlertWatch.Conditions()
    var ways: [String] = []

    private static let forms = """
        alert new | new since VERSION | regression | rate over N per hour | hosts over N|P% per day | stall over 10s | \
        deadlock
        """
    private static let spans = ["minute": "1m", "hour": "1h", "day": "1d", "week": "1w"]
    private static let longest: Int64 = 30 * 86400

    init(_ words: inout AlertWords) throws(AlertRuleError) {
        switch words.next() {
        case "new":
            var version: String?
            if words.skip("since") {
                version = words.next()
                if version == nil {
                    throw AlertRuleError("'since' needs a version", hint: "alert new since 1.10 to WAY")
                }
            }
            trigger = .new(since: version)
        case "regression": trigger = .regression
        case "deadlock":
            trigger = .over(.deadlocks, limit: 0, seconds: try Self.span(&words))
        case "rate":
            let limit = try Self.limit(&words, "rate over 100 per hour") { Int64(signedDigits: $0) }
            trigger = .over(.occurrences, limit: limit, seconds: try Self.span(&words))
        case "hosts":
            var isShare = false
            let limit = try Self.limit(&words, "hosts over 5% per day") { text in
                isShare = text.hasSuffix("%")
                let number = Int64(signedDigits: isShare ? String(text.dropLast()) : text)
                return isShare && number ?? 0 >= 100 ? nil : number
            }
            trigger = .over(isShare ? .hostShare : .hosts, limit: limit, seconds: try Self.span(&words))
        case "stall":
            let limit = try Self.limit(&words, "stall over 10s") { text in
                if text.hasSuffix("ms") { return Int64(signedDigits: String(text.dropLast(2))) }
                return Retention.parseAge(text).map { $0 * 1000 }
            }
            trigger = .over(.duration, limit: limit, seconds: try Self.span(&words))
        case let word:
            throw AlertRuleError(
                word.map { "unknown event '\(visible($0))'" } ?? "there is no event", hint: Self.forms)
        }
        while let word = words.peek, word != "to" {
            try conditions.add(word)
            _ = words.next()
        }
        guard words.skip("to"), !words.isAtEnd else {
            throw AlertRuleError("the line does not say where the alert goes", hint: "alert … to WAY")
        }
        ways = words.rest()
    }

    private static func limit(
        _ words: inout AlertWords, _ example: String, _ parse: (String) -> Int64?
    ) throws(AlertRuleError) -> Int64 {
        guard words.skip("over"), let word = words.next(), let limit = parse(word), limit >= 0 else {
            throw AlertRuleError("expected 'over' and a limit", hint: "alert \(example) to WAY")
        }
        return limit
    }

    /// Parses the period that follows "per", in seconds. Without "per", the period is a day.
    private static func span(_ words: inout AlertWords) throws(AlertRuleError) -> Int64 {
        guard words.skip("per") else { return 86400 }
        let word = words.next() ?? ""
        guard let seconds = Retention.parseAge(spans[word] ?? word), (1...longest).contains(seconds) else {
            throw AlertRuleError(
                "'\(visible(word))' is no span of time", hint: "per minute, hour, day or week, or such as per 10m")
        }
        return seconds
    }
}

/// An alert rule for one destination.
struct AlertWatch: Sendable {
    /// The event that makes an alert.
    enum Trigger: Hashable, Sendable {
        /// A group that the store did not have when the watch began and, with `since`, that no version before `since`
        /// had.
        case new(since: String?)
        /// A resolved group that was seen again.
        case regression
        /// A group whose measure over the last `seconds` is above the limit.
        case over(Measure, limit: Int64, seconds: Int64)
    }

    /// What is measured of a group's findings over a period.
    enum Measure: String, Sendable {
        case occurrences = "rate"
        /// Number of machines.
        case hosts
        /// Number of machines with the bug, as a percentage of the machines that have sent findings within a month.
        case hostShare = "host share"
        /// Longest duration of a stall, in milliseconds.
        case duration = "stall"
        /// Occurrences of deadlocks.
        case deadlocks = "deadlock"
    }

    /// Conditions that findings must meet. A nil property is no condition.
    struct Conditions: Hashable, Sendable {
        var kind: String?
        /// The program's path, or its last components.
        var program: String?
        var version: String?
        var host: String?

        var isEmpty: Bool { self == Conditions() }

        fileprivate mutating func add(_ word: String) throws(AlertRuleError) {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let keys = ["kind", "program", "version", "host"]
            guard parts.count == 2, !parts[1].isEmpty, keys.contains(parts[0]) else {
                throw AlertRuleError(
                    "'\(visible(word))' is no condition",
                    hint: "kind=, program=, version= or host= with a value, and then 'to' with the ways")
            }
            switch parts[0] {
            case "kind":
                let known = Finding.Kind.all.map(\.rawValue)
                guard known.contains(parts[1]) else {
                    throw AlertRuleError(
                        "unknown kind '\(visible(parts[1]))'",
                        hint: nearestName(to: parts[1], among: known).map { "did you mean '\($0)'?" })
                }
                kind = parts[1]
            case "program": program = parts[1]
            case "version": version = parts[1]
            default: host = parts[1]
            }
        }

        fileprivate var words: [String] {
            [("kind", kind), ("program", program), ("version", version), ("host", host)].compactMap { name, value in
                value.map { "\(name)=\($0)" }
            }
        }
    }

    var trigger: Trigger
    var conditions: Conditions
    var way: AlertWay
    /// Digest of trigger, conditions and destination. A changed line is therefore a new watch, which starts without
    /// history.
    var id: String

    init(_ line: AlertLine, way: AlertWay) {
        (trigger, conditions, self.way) = (line.trigger, line.conditions, way)
        switch trigger {
        case .over(.deadlocks, _, _): conditions.kind = Finding.Kind.deadlock.rawValue
        case .over(.duration, _, _): conditions.kind = Finding.Kind.stall.rawValue
        default: break
        }
        var digest = Digest()
        digest.add("\(trigger)")
        for word in conditions.words { digest.add(word) }
        digest.add(way.id)
        id = digest.digits(16)
    }

    /// The name of the event.
    var event: String {
        switch trigger {
        case .new: "new"
        case .regression: "regression"
        case .over(let measure, _, _): measure.event
        }
    }
}

extension AlertWatch.Measure {
    var event: String { self == .hostShare ? "hosts" : rawValue }
}

/// Where alerts go.
struct AlertWay: Sendable {
    /// A web address, or the file or environment variable that holds it, so that the rules need not contain a secret.
    enum Place: Hashable, Sendable {
        case address(String)
        case file(String)
        case environment(String)
    }

    enum Form: Hashable, Sendable {
        /// A program with its arguments, started without a shell.
        case command([String])
        /// A command line for /bin/sh.
        case shell(String)
        case webhook(Place)
        case slack(Place)
        case teams(Place)
        case mail([String])
    }

    var name: String
    var form: Form
    /// Digest of name and form. It is part of a message's id, so that each message is sent once to each destination.
    var id: String

    private static let forms = ["command", "shell", "webhook", "slack", "teams", "mail"]

    fileprivate init(_ words: inout AlertWords, line: Substring) throws(AlertRuleError) {
        guard let name = words.next(), name != "to", name.utf8.allSatisfy(Self.isNameByte) else {
            throw AlertRuleError("expected a name of letters, digits, - and _", hint: "way NAME mail ADDRESS")
        }
        let kind = words.next() ?? ""
        let rest = words.rest()
        switch kind {
        case "command":
            guard let program = rest.first, program.hasPrefix("/") else {
                throw AlertRuleError(
                    "expected the path of a program", hint: "way \(visible(name)) command /usr/bin/logger")
            }
            form = .command(rest)
        case "shell":
            // The shell gets the rest of the line unchanged, including quotes.
            let blanks: (Character) -> Bool = { $0 == " " || $0 == "\t" }
            var text = line
            for _ in 0..<3 { text = text.drop { !blanks($0) }.drop(while: blanks) }
            if text.isEmpty { throw AlertRuleError("expected a command line") }
            form = .shell(String(text))
        case "webhook", "slack", "teams":
            guard rest.count == 1 else {
                throw AlertRuleError("expected one address", hint: "https://…, file:PATH or env:NAME")
            }
            let place = try Self.place(rest[0])
            form = kind == "webhook" ? .webhook(place) : kind == "slack" ? .slack(place) : .teams(place)
        case "mail":
            guard !rest.isEmpty, rest.allSatisfy(Self.isMailAddress) else {
                throw AlertRuleError("expected mail addresses", hint: "way \(visible(name)) mail team@example.com")
            }
            form = .mail(rest)
        default:
            throw AlertRuleError(
                "unknown way '\(visible(kind))'",
                hint: nearestName(to: kind, among: Self.forms).map { "did you mean '\($0)'?" }
                    ?? "one of \(Self.forms.joined(separator: ", "))")
        }
        self.name = name
        var digest = Digest()
        digest.add(name)
        digest.add("\(form)")
        id = digest.digits(16)
    }

    private static func place(_ text: String) throws(AlertRuleError) -> Place {
        if text.hasPrefix("file:/") { return .file(String(text.dropFirst("file:".count))) }
        if text.hasPrefix("env:"), text.utf8.count > 4 { return .environment(String(text.dropFirst("env:".count))) }
        guard isWeb(text) else {
            throw AlertRuleError(
                "'\(visible(text))' is no address",
                hint: "https://…, file:PATH or env:NAME; http:// on this machine only")
        }
        return .address(text)
    }

    /// Whether messages may be sent to this address: https, or http on this machine.
    static func isWeb(_ text: String) -> Bool {
        if case .web? = try? FleetAddress(text) { return true }
        return false
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        let character = Character(Unicode.Scalar(byte))
        return byte < 0x80 && (character.isLetter || character.isNumber || character == "-" || character == "_")
    }

    private static func isMailAddress(_ text: String) -> Bool {
        let allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.!#$%&'*+/=?^_`{|}~-@".utf8
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return text.utf8.allSatisfy { allowed.contains($0) } && !text.hasPrefix("-") && parts.count <= 2
            && parts.allSatisfy { !$0.isEmpty } && text.utf8.count <= 254
    }
}
