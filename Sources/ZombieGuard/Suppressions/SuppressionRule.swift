// One rule of a file of suppressions, and whether a finding is what it means.

extension Suppressions {
    /// A rule: a finding is suppressed where everything that the rule says holds.
    public struct Rule: Sendable {
        /// Where the rule stands.
        public let file: String
        /// Where the rule begins, from 1.
        public let line: Int
        /// What the file calls it.
        public internal(set) var name: String?
        /// The kinds that it is for, as the file says it.
        public let kind: String
        /// How many findings it has suppressed, counted as often as they were seen.
        public internal(set) var count = 0

        let kindPattern: Glob
        /// Class of the freed object.
        var object: Glob?
        var signature: Glob?
        var stacks: [Stack: [Item]] = [:]

        /// Which stack of a finding frames belong to.
        enum Stack: String, CaseIterable, Sendable { case access, free, alloc }

        /// What stands for frames.
        enum Item: Hashable, Sendable {
            /// One frame; empty conditions do not occur.
            case frame([Condition])
            /// `...`: any number of frames.
            case any
            /// `$`: no further frame.
            case end
        }

        /// What is asked of a frame.
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

        /// Whether it says nothing but the kind.
        var isBare: Bool {
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
        if let signature, !signature.matches(finding.signature) { return false }
        if let object, finding.object.map({ object.matches($0) }) != true { return false }
        return stacks.allSatisfy { stack, items in Self.match(items, finding.frames(of: stack)) }
    }

    /// Whether the items match the stack from its innermost frame on; frames that follow do not matter. One step for each
    /// pair of item and frame at most.
    private static func match(_ items: [Item], _ frames: [FindingNames.Frame]) -> Bool {
        // Items that may come next, in ascending order without repetition.
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
        // At the stack's end, `$` and `...` need nothing more.
        return states.contains { state in items[state...].allSatisfy { $0 == .any || $0 == .end } }
    }

    /// The states and what is reached from them without a frame.
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
