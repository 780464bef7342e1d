// Parses suppression files. docs/SUPPRESSIONS.md has the grammar.

extension Suppressions {
    /// An error in a suppression file.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// Name of the file as given by the user.
        public var file: String
        /// Line number, from 1.
        public var line: Int
        /// Description of the error and how to fix it. Safe to print.
        public var reason: String

        /// "zguard.supp:12: unknown kind 'use-after-fre': did you mean 'use-after-free'?". Safe to print.
        public var description: String { "\(visible(file)):\(line): \(reason)" }
    }
}

/// Parses one file line by line; it records errors and continues.
struct SuppressionParser {
    typealias Rule = Suppressions.Rule

    private(set) var rules: [Rule] = []
    private(set) var problems: [Suppressions.Problem] = []

    private let file: String
    private var line = 0
    /// The stack to which frames are added.
    private var stack = Rule.Stack.access
    /// The first line of the current rule is wrong: skip its other lines.
    private var isSkipping = false
    /// A line of the current rule is wrong, so it is unknown what the rule would suppress.
    private var isWrong = false

    private struct SyntaxError: Error { var reason: String }

    init(_ text: String, file: String) {
        self.file = file
        var text = text[...]
        if text.hasPrefix("\u{feff}") { text = text.dropFirst() }
        for part in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            line += 1
            do throws(SyntaxError) { try read(part) } catch {
                isWrong = true
                problems.append(.init(file: file, line: line, reason: error.reason))
            }
        }
        close()
    }

    private mutating func read(_ line: Substring) throws(SyntaxError) {
        let text = Self.trimmed(line)
        if text.isEmpty || text.hasPrefix("#") { return }
        if line.unicodeScalars.first == " " || line.unicodeScalars.first == "\t" {
            if isSkipping { return }
            if rules.isEmpty { throw SyntaxError(reason: "an indented line must follow the first line of a rule") }
            try readPart(text)
        } else {
            close()
            isSkipping = true // until the line is parsed
            isWrong = false
            try begin(text)
        }
    }

    /// Ends the current rule, and rejects a rule that suppresses every finding.
    private mutating func close() {
        guard !isSkipping, !isWrong, let rule = rules.last, rule.matchesAnyStack, rule.kind.allSatisfy({ $0 == "*" })
        else {
            return
        }
        let reason = "the rule suppresses every finding: name a kind, an object or a frame"
        problems.append(.init(file: file, line: rule.line, reason: reason))
    }

    // MARK: Lines

    private mutating func begin(_ text: Substring) throws(SyntaxError) {
        let kind = text.prefix { $0 != ":" }
        let pattern = try Self.glob(Self.trimmed(kind))
        let known = Finding.Kind.all.map(\.rawValue)
        guard known.contains(where: { pattern.matches($0) }) else {
            let nearest = nearestName(to: String(kind), among: known)
            let way =
                nearest.map { "did you mean '\($0)'?" } ?? "a rule begins with one of \(known.joined(separator: ", "))"
            throw SyntaxError(reason: "unknown kind '\(visible(String(kind)))': \(way)")
        }
        rules.append(Rule(file: file, line: line, kind: String(Self.trimmed(kind)), pattern: pattern))
        stack = .access
        isSkipping = false
        let rest = Self.trimmed(text[kind.endIndex...].dropFirst())
        if !rest.isEmpty { try addFrame(rest) }
    }

    private mutating func readPart(_ text: Substring) throws(SyntaxError) {
        let word = text.prefix { $0.isLetter || $0 == "_" }
        let mark = text[word.endIndex...].first
        let rest = Self.trimmed(text[word.endIndex...].dropFirst())
        let isScope = text[word.endIndex...].hasPrefix("::")
        if mark == "=", word != "operator", Rule.Condition.Key(rawValue: String(word)) == nil {
            try setField(word, rest)
        } else if mark == ":", !isScope {
            try beginStack(word, rest)
        } else {
            try addFrame(text)
        }
    }

    private mutating func setField(_ key: Substring, _ value: Substring) throws(SyntaxError) {
        let index = rules.count - 1
        func once(_ isSet: Bool) throws(SyntaxError) {
            if isSet { throw SyntaxError(reason: "'\(key)=' is given twice") }
        }
        switch key {
        case "name":
            try once(rules[index].name != nil)
            if value.isEmpty { throw SyntaxError(reason: "'name=' needs a value") }
            rules[index].name = String(value)
        case "object":
            try once(rules[index].object != nil)
            rules[index].object = try Self.glob(value)
        case "signature":
            try once(rules[index].signature != nil)
            rules[index].signature = try Self.glob(value)
        default:
            let keys = ["name", "object", "signature"] + Rule.Condition.Key.allCases.map(\.rawValue)
            let list = keys.map { $0 + "=" }.joined(separator: ", ")
            throw SyntaxError(reason: "unknown key '\(visible(String(key)))=': keys are \(list)")
        }
    }

    private mutating func beginStack(_ word: Substring, _ rest: Substring) throws(SyntaxError) {
        guard let next = Rule.Stack(rawValue: String(word)) else {
            throw SyntaxError(reason: "unknown stack '\(visible(String(word))):': stacks are access:, free: and alloc:")
        }
        if rules[rules.count - 1].stacks[next] != nil {
            throw SyntaxError(reason: "the \(next.rawValue) stack is given twice")
        }
        stack = next
        rules[rules.count - 1].stacks[next] = []
        if !rest.isEmpty { try addFrame(rest) }
    }

    private mutating func addFrame(_ text: Substring) throws(SyntaxError) {
        let item: Rule.Item =
            switch text {
            case "...": .any
            case "$": .end
            default: .frame(try Self.conditions(text))
            }
        let last = rules[rules.count - 1].stacks[stack]?.last
        if last == .end { throw SyntaxError(reason: "no frame may follow '$', the end of the stack") }
        // Consecutive `...` are merged. Appended in place: a local copy of the stack would make long stacks quadratic.
        if item != .any || last != .any { rules[rules.count - 1].stacks[stack, default: []].append(item) }
    }

    // MARK: Parts of lines

    /// Parses the conditions on a frame, such as `Cart.add(_:) | module=libshop.so`.
    private static func conditions(_ text: Substring) throws(SyntaxError) -> [Rule.Condition] {
        var conditions: [Rule.Condition] = []
        var rest = text
        while true {
            let bar = rest.range(of: " | ")
            conditions.append(try condition(trimmed(rest[..<(bar?.lowerBound ?? rest.endIndex)])))
            guard let bar else { return conditions }
            rest = rest[bar.upperBound...]
        }
    }

    private static func condition(_ text: Substring) throws(SyntaxError) -> Rule.Condition {
        let word = text.prefix { $0 != "=" }
        if word.endIndex < text.endIndex, let key = Rule.Condition.Key(rawValue: String(word)) {
            return Rule.Condition(key: key, pattern: try glob(trimmed(text[word.endIndex...].dropFirst())))
        }
        return Rule.Condition(key: .function, pattern: try glob(text))
    }

    private static func glob(_ text: Substring) throws(SyntaxError) -> Glob {
        if text.isEmpty { throw SyntaxError(reason: "a pattern is missing: '*' stands for any text") }
        do throws(Glob.Malformed) { return try Glob(text) } catch { throw SyntaxError(reason: error.reason) }
    }

    // Trim by Unicode scalars: a space followed by a combining mark is one `Character` that is not blank.
    private static func trimmed(_ text: Substring) -> Substring {
        func isBlank(_ scalar: Unicode.Scalar) -> Bool { scalar == " " || scalar == "\t" }
        var scalars = text.unicodeScalars.drop(while: isBlank)
        while scalars.last.map(isBlank) == true { scalars.removeLast() }
        return Substring(scalars)
    }
}
