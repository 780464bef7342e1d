// Defines a suppression rule, and matches findings against it.

extension Suppressions {
    /// A rule; a finding is suppressed if all parts of the rule match.
    public struct Rule: Sendable {
        /// File that contains the rule.
        public let file: String
        /// Line where the rule begins, from 1.
        public let line: Int
        /// Name of the rule in the file; nil if it has none.
        public internal(set) var name: String?
        /// Pattern of the kinds, as written in the file.
        public let kind: String
        /// Number of suppressed findings, including repeated occurrences.
        public internal(set) var count = 0

        let kindPattern: Glob
        /// Pattern of the freed object's class.
        var object: Glob?
        var signature: Glob?
        var stacks: [Stack: [Item]] = [:]

        /// The stack of a finding that frames are matched against.
        enum Stack: String, CaseIterable, Sendable { case access, free, alloc }

        /// An element of a stack pattern.
        enum Item: Hashable, Sendable {
            /// One frame that meets all conditions; there is at least one.
            case frame([Condition])
            /// `...`: any number of frames.
            case any
            /// `$`: no further frame.
            case end
        }

        /// A condition on a frame.
        struct Condition: Hashable, Sendable {
            enum Key: String, CaseIterable, Sendable {
                case function
                case type = "class"
                case module, file
            }
            var key: Key
            var pattern: Glob
        }

        init(file: String, line: Int, kind: String, pattern: Glob) {
            self.file = file
            self.line = line
            self.kind = kind
            kindPattern = pattern
        }

        /// Whether the rule restricts nothing but the kind.
        var matchesAnyStack: Bool {
            object == nil && signature == nil && stacks.values.allSatisfy { $0.allSatisfy { $0 == .any } }
        }
    }
}

extension Suppressions.Rule: CustomStringConvertible {
    /// "zguard.supp:12: 'old cache' (use-after-free)", "zguard.supp:12: use-after-free". Safe to print.
    public var description: String {
        let place = "\(visible(file)):\(line): "
        return place + (name.map { "'\(visible($0))' (\(visible(kind)))" } ?? visible(kind))
    }
}

extension Suppressions.Rule {
    func matches(_ finding: FindingNames) -> Bool {
        guard kindPattern.matches(finding.kind) else { return false }
        if let signature, !finding.signatures.contains(where: signature.matches) { return false }
        if let object, finding.object.map({ object.matches($0) }) != true { return false }
        return stacks.allSatisfy { stack, items in Self.match(items, finding.frames(of: stack)) }
    }

    /// Whether the items match a prefix of the stack, starting at the innermost frame. Takes at most one step for each
    /// pair of item and frame.
    private static func match(_ items: [Item], _ frames: [FindingNames.Frame]) -> Bool {
        // Indices of the items that may match next, ascending and unique (the states of an NFA).
        var states = follow([0], items)
        if states.last == items.count { return true }
        for frame in frames {
            var next: [Int] = []
            for state in states {
                switch items[state] {
                case .any: next.append(state)
                case .end: if !frame.isSignificant { next.append(state) }
                case .frame(let conditions):
                    if !frame.isSignificant { next.append(state) }
                    if conditions.allSatisfy({ frame.meets($0) }) { next.append(state + 1) }
                }
            }
            if next.isEmpty { return false }
            states = follow(next, items)
            if states.last == items.count { return true }
        }
        // At the end of the stack, remaining `$` and `...` match without a frame.
        return states.contains { state in items[state...].allSatisfy { $0 == .any || $0 == .end } }
    }

    /// The states, and all states reachable from them without consuming a frame (epsilon closure).
    private static func follow(_ states: [Int], _ items: [Item]) -> [Int] {
        var result: [Int] = []
        for state in states {
            var state = state
            while result.last.map({ $0 < state }) ?? true {
                result.append(state)
                guard state < items.count, items[state] == .any else { break }
                state += 1
            }
        }
        return result
    }
}
