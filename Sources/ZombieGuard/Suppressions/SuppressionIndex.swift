// Indexes suppression rules by one frame condition each, so that few rules are tried for each finding.

/// An index of rules. A rule is filed under one of its conditions, its anchor, which some frame must meet.
struct SuppressionIndex: Sendable {
    private struct Table: Sendable {
        var literals: [String: [Int]] = [:]
        var patterns: [(glob: Glob, rule: Int)] = []
        /// Cache of the rules for each text seen so far.
        var known: [String: [Int]] = [:]
    }

    private typealias Key = Suppressions.Rule.Condition.Key

    private var tables: [Key: Table] = [:]
    /// Rules without a frame condition.
    private var others: [Int] = []

    /// Capacity of a key's cache.
    private static let mostKnown = 20_000

    /// If this many rules share a literal as their anchor, a further rule uses another condition as its anchor.
    private static let mostSharing = 8

    mutating func add(_ rule: Suppressions.Rule, number: Int) {
        let conditions = Suppressions.Rule.Stack.allCases.flatMap { rule.stacks[$0] ?? [] }.flatMap { item in
            if case .frame(let conditions) = item { conditions } else { [Suppressions.Rule.Condition]() }
        }
        guard let anchor = anchor(of: conditions) else {
            others.append(number)
            return
        }
        if let literal = anchor.pattern.literal {
            tables[anchor.key, default: Table()].literals[literal, default: []].append(number)
        } else {
            tables[anchor.key, default: Table()].patterns.append((anchor.pattern, number))
        }
        tables[anchor.key]?.known = [:]
    }

    // Chooses the condition that the fewest findings are expected to meet: a literal that few rules use. If many rules
    // share the literal (such as `main`), chooses the longest pattern with wildcards.
    private func anchor(of conditions: [Suppressions.Rule.Condition]) -> Suppressions.Rule.Condition? {
        func sharing(_ condition: Suppressions.Rule.Condition) -> Int {
            condition.pattern.literal.map { tables[condition.key]?.literals[$0]?.count ?? 0 } ?? Int.max
        }
        if let rarest = conditions.min(by: { sharing($0) < sharing($1) }), sharing(rarest) < Self.mostSharing {
            return rarest
        }
        return conditions.filter { $0.pattern.literal == nil }.max { $0.pattern.weight < $1.pattern.weight }
            ?? conditions.first
    }

    /// Numbers of the rules that may match, in ascending order.
    mutating func candidates(_ finding: FindingNames) -> [Int] {
        var found = Set(others)
        for key in Array(tables.keys) {
            var seen: Set<String> = []
            for stack in Suppressions.Rule.Stack.allCases {
                for frame in finding.frames(of: stack) {
                    for text in frame.texts(key) where seen.insert(text).inserted { found.formUnion(rules(key, text)) }
                }
            }
        }
        return found.sorted()
    }

    // Accesses the table in place: a local copy would force copy-on-write.
    private mutating func rules(_ key: Key, _ text: String) -> [Int] {
        if let known = tables[key]?.known[text] { return known }
        var found = tables[key]?.literals[text] ?? []
        for (glob, rule) in tables[key]?.patterns ?? [] where glob.matches(text) { found.append(rule) }
        if tables[key].map({ $0.known.count >= Self.mostKnown }) == true { tables[key]?.known = [:] }
        tables[key]?.known[text] = found
        return found
    }
}
