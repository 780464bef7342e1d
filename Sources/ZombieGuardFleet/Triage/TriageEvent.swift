// What people decide about groups of findings: events that are only ever appended.

import ZombieGuard

/// A decision or comment about a group of equal findings. The events of a group, in the order of their times, give its
/// state (``Triage``). An event is stored once, however often it is written.
public struct TriageEvent: Hashable, Sendable {
    /// What an event says.
    public enum Action: Hashable, Sendable {
        /// The bug is repaired, in this version of the program; nil: as of now.
        case resolve(version: String?)
        /// The bug is known, and not listed among open bugs until the limit; nil: until somebody reopens it.
        case mute(until: Limit?)
        /// The bug is open again.
        case reopen
        /// Somebody looks after the bug; nil: nobody.
        case assign(to: String?)
        case comment
    }

    /// Until when a group is muted.
    public enum Limit: Hashable, Sendable {
        case time(Timestamp)
        /// This number of occurrences after the decision. `before`: occurrences on the day of the decision, but before
        /// the decision, for earlier versions of zguard, which count whole days.
        case occurrences(Int64, before: Int64)
        /// The first occurrence in this version of the program or a later one.
        case version(String)
    }

    /// 32 random hexadecimal digits.
    public var id: String
    public var time: Timestamp
    public var tenant: String
    /// Signature of the group, 16 hexadecimal digits.
    public var signature: String
    public var author: String
    public var action: Action
    /// A remark; "" if there is none. It may contain any characters, as author and action may.
    public var comment: String

    /// Makes an event of this moment, with an id of its own.
    ///
    /// - Parameters:
    ///   - action: what is decided.
    ///   - signature: signature of the group.
    ///   - author: who decides, at most 250 characters.
    ///   - comment: a remark, at most 4,000 characters.
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - time: time of the event.
    public init(
        _ action: Action, of signature: String, by author: String, comment: String = "", tenant: String? = nil,
        time: Timestamp = .now
    ) {
        id = (0..<2).map { _ in Self.digits(UInt64.random(in: .min ... .max)) }.joined()
        self.time = Timestamp(milliseconds: time.milliseconds)
        self.tenant = ShippedFinding.short(tenant ?? ShippedFinding.Sender.standardTenant)
        self.signature = signature
        self.author = String(author.prefix(Self.longestName))
        self.action = action
        self.comment = String(comment.prefix(Self.longestComment))
    }

    /// The time for a new event, so that it follows the group's last event even if the clocks of machines differ.
    ///
    /// - Parameters:
    ///   - last: time of the group's last event; nil: it has none.
    ///   - now: the current time.
    /// - Returns: the later of the current time and the first millisecond after `last`.
    public static func time(after last: Timestamp?, now: Timestamp = .now) -> Timestamp {
        let last = last?.milliseconds ?? .min
        return Timestamp(milliseconds: max(now.milliseconds, last == .max ? .max : last + 1))
    }

    private static let longestComment = 4000, longestName = 250

    private static func digits(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }

    // MARK: Stored form

    /// The columns of a row of zguard_triage: tenant, signature, at, id, author, action, value, comment.
    var columns: [SQLValue] {
        let (name, value) = action.words
        return [.text(tenant), .text(signature), .integer(time.milliseconds)]
            + [id, author, name, value, comment].map { .text($0) }
    }

    /// Reads a row of zguard_triage; nil for an action of a later version.
    init?(columns: [SQLValue]) {
        guard columns.count == 8, let action = Action(columns[5].text ?? "", columns[6].text ?? "") else { return nil }
        tenant = columns[0].text ?? ""
        signature = columns[1].text ?? ""
        time = Timestamp(milliseconds: columns[2].integer)
        id = columns[3].text ?? ""
        author = columns[4].text ?? ""
        self.action = action
        comment = columns[7].text ?? ""
    }

    static let schema = "zguard.triage/1"

    /// The event as a line of JSON.
    var line: String { json.line }

    var json: JSONText {
        let (name, value) = action.words
        return .object([
            ("schema", .string(Self.schema)), ("id", .string(id)), ("time", .string(time.description)),
            ("tenant", .string(tenant)), ("signature", .string(signature)), ("author", .string(author)),
            ("action", .string(name)), ("value", value.isEmpty ? nil : .string(value)),
            ("comment", comment.isEmpty ? nil : .string(comment)),
        ])
    }

    /// Reads a line of JSON; nil if it is cut off or has an action or limit that this version does not know.
    init?(line: Substring) {
        var text = String(line)
        let read = try? JSONScanner.read(&text) { (scanner) throws(JSONScanner.Problem) in
            try scanner.dictionary { (scanner) throws(JSONScanner.Problem) in try scanner.anyText() }
        }
        guard let keys = read, keys["schema"] == Self.schema, let time = keys["time"].flatMap({ Timestamp($0) }) else {
            return nil
        }
        func column(_ key: String) -> SQLValue { .text(keys[key] ?? "") }
        self.init(
            columns: [column("tenant"), column("signature"), .integer(time.milliseconds)]
                + ["id", "author", "action", "value", "comment"].map { column($0) })
    }
}

extension TriageEvent.Action {
    /// The name of the action, and its value; "" if it has none.
    fileprivate var words: (name: String, value: String) {
        switch self {
        case .resolve(let version): ("resolve", version ?? "")
        case .mute(let limit): ("mute", limit?.word ?? "")
        case .reopen: ("reopen", "")
        case .assign(let name): ("assign", name ?? "")
        case .comment: ("comment", "")
        }
    }

    fileprivate init?(_ name: String, _ value: String) {
        let text = value.isEmpty ? nil : value
        switch name {
        case "resolve": self = .resolve(version: text)
        case "mute":
            let limit = text.flatMap { TriageEvent.Limit(word: $0) }
            // Reject an unknown limit: without a limit, the group would be muted forever.
            if text != nil, limit == nil { return nil }
            self = .mute(until: limit)
        case "reopen": self = .reopen
        case "assign": self = .assign(to: text)
        case "comment": self = .comment
        default: return nil
        }
    }
}

extension TriageEvent.Action {
    /// Whether the action changes the state of the group.
    var isDecision: Bool {
        switch self {
        case .resolve, .mute, .reopen: true
        case .assign, .comment: false
        }
    }
}

extension TriageEvent.Action: CustomStringConvertible {
    /// What the author has done, such as "resolved it in 1.11".
    public var description: String {
        switch self {
        case .resolve(let version): "resolved it\(version.map { " in \($0)" } ?? "")"
        case .mute(let limit): "muted it\(limit.map { " until \($0)" } ?? "")"
        case .reopen: "opened it"
        case .assign(let name): name.map { "assigned it to \($0)" } ?? "assigned it to nobody"
        case .comment: "wrote"
        }
    }
}

extension TriageEvent.Limit {
    /// Reads the end of a mute: a span such as "7d" from now on, or a date that is to come.
    ///
    /// - Parameters:
    ///   - text: a span or a date.
    ///   - now: the current time.
    /// - Returns: the limit.
    /// - Throws: ``ValueError`` for any other text.
    public static func until(_ text: String, now: Timestamp = .now) throws(ValueError) -> TriageEvent.Limit {
        if let seconds = Retention.parseAge(text), seconds > 0 { return .time(now.earlier(bySeconds: -seconds)) }
        guard let time = Timestamp(text), time > now else {
            throw ValueError(expected: "a span such as 7d, or a date that is to come")
        }
        return .time(time)
    }

    fileprivate var word: String {
        switch self {
        case .time(let time): "time \(time)"
        case .occurrences(let count, let before): "count \(count) after \(before)"
        case .version(let version): "version \(version)"
        }
    }

    fileprivate init?(word: String) {
        guard let blank = word.firstIndex(of: " ") else { return nil }
        let value = String(word[word.index(after: blank)...])
        switch word[..<blank] {
        case "time":
            guard let time = Timestamp(value) else { return nil }
            self = .time(time)
        case "count":
            let numbers = value.split(separator: " after ").map { Int64(signedDigits: String($0)) }
            guard numbers.count == 2, let count = numbers[0], let before = numbers[1] else { return nil }
            self = .occurrences(count, before: before)
        case "version": self = .version(value)
        default: return nil
        }
    }
}
