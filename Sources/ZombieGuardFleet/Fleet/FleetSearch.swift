// Parses the text of a search, such as "cart class:Cart host:web-7 since:7d", and looks for its words in a finding.

import ZombieGuard

/// The text of a search: words, and terms with a key such as `class:Cart`.
public enum FleetSearch {
    /// What a term asks for.
    public enum Key: String, CaseIterable, Sendable {
        case `class`, member, function, host, program, version, kind, since, until, new
    }

    private static let mostTerms = 20
    private static let mostBytes = 500

    /// Adds the conditions of a search to a filter.
    ///
    /// - Parameters:
    ///   - text: words and terms. Double quotes enclose a value with spaces. The name of a class, member or function
    ///     must match whole if quoted, and is a prefix otherwise. A term with an unknown key is a word.
    ///   - filter: the filter.
    ///   - now: the time from which ages count.
    /// - Throws: ``ValueError`` for an invalid time.
    public static func add(_ text: String, to filter: inout FleetFilter, now: Timestamp = .now) throws(ValueError) {
        for term in terms(of: text).prefix(mostTerms) {
            if term.value.isEmpty { continue }
            if let key = term.key {
                try add(key, term.value, isWhole: term.isQuoted, to: &filter, now: now)
            } else {
                filter.words.append(term.value)
            }
        }
    }

    /// Adds one condition to a filter.
    ///
    /// - Parameters:
    ///   - key: the key of the condition.
    ///   - value: its value.
    ///   - isWhole: whether a name must match whole.
    ///   - filter: the filter.
    ///   - now: the time from which ages count.
    /// - Throws: ``ValueError`` for an invalid time.
    public static func add(
        _ key: Key, _ value: String, isWhole: Bool = false, to filter: inout FleetFilter, now: Timestamp = .now
    ) throws(ValueError) {
        switch key {
        case .class: filter.names.append(FleetName(.class, value, isWhole: isWhole))
        case .member: filter.names.append(FleetName(.member, value, isWhole: isWhole))
        case .function: filter.names.append(FleetName(.function, value, isWhole: isWhole))
        case .host: filter.host = value
        case .program: filter.program = value
        case .version: filter.version = value
        case .kind: filter.kind = value
        case .since: filter.since = try Timestamp(since: value, now: now)
        case .until: filter.until = try end(value, now)
        case .new: filter.newSince = value
        }
    }

    // A date without a time of day means the end of that day.
    private static func end(_ text: String, _ now: Timestamp) throws(ValueError) -> Timestamp {
        let time = try Timestamp(since: text, now: now)
        let isDay = text.utf8.count == 10 && text == time.day
        return isDay ? Timestamp(milliseconds: time.milliseconds + 86_399_999) : time
    }

    /// A word, or a key and its value.
    struct Term: Equatable {
        var key: Key?
        var value: String
        var isQuoted = false
    }

    static func terms(of text: String) -> [Term] {
        var terms: [Term] = []
        var rest = Substring(text.prefix(mostBytes))
        while true {
            rest = rest.drop { $0.isWhitespace }
            if rest.isEmpty { return terms }
            var key: Key?
            if let colon = rest.firstIndex(where: { $0 == ":" || $0 == "\"" || $0.isWhitespace }), rest[colon] == ":",
                let known = Key(rawValue: rest[..<colon].lowercased())
            {
                key = known
                rest = rest[rest.index(after: colon)...]
            }
            if rest.first == "\"" {
                let value = rest.dropFirst().prefix { $0 != "\"" }
                terms.append(Term(key: key, value: String(value), isQuoted: true))
                rest = rest[value.endIndex...].dropFirst()
            } else {
                let value = rest.prefix { !$0.isWhitespace }
                terms.append(Term(key: key, value: String(value)))
                rest = rest[value.endIndex...]
            }
        }
    }

    /// The text of a search with one more condition.
    ///
    /// - Parameters:
    ///   - text: the text.
    ///   - key: what the condition asks for.
    ///   - value: its value.
    /// - Returns: the text with a term at its end.
    public static func text(_ text: String, _ key: Key, _ value: String) -> String {
        let isPlain = !value.isEmpty && !value.contains { $0.isWhitespace || $0 == "\"" }
        let term = "\(key.rawValue):" + (isPlain ? value : "\"\(value.filter { $0 != "\"" })\"")
        return text.isEmpty ? term : text + " " + term
    }
}

extension FleetFilter {
    /// Whether a finding contains the words and names.
    ///
    /// - Parameter finding: a symbolicated finding.
    /// - Returns: whether it is accepted.
    public func acceptsTexts(of finding: Finding) -> Bool {
        if words.isEmpty, names.isEmpty { return true }
        let first = [finding.sentence, finding.program ?? "", finding.signature ?? finding.computeSignature()]
        let text = ShippedFinding.words(of: finding, first).lowercased()
        if !words.allSatisfy({ text.contains($0.lowercased()) }) { return false }
        let keys = FleetNames.keys(of: finding)
        return names.allSatisfy { name in
            keys.contains { name.isWhole ? $0 == name.key : $0.utf8.starts(with: name.key.utf8) }
        }
    }
}
