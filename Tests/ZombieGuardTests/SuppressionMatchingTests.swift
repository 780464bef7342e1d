// Suppression patterns and rules with hostile names and large numbers; suggested rules for random findings.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SuppressionMatchingTests {
    static let globs: [(pattern: String, text: String, matches: Bool)] = [
        ("", "", true), ("", "a", false), ("*", "", true), ("*", "a\nb", true), ("a*", "a", true), ("*a", "ba", true),
        ("a*b*c", "a1b2c", true), ("a*b*c", "a1c2b", false), ("?", "é", true), ("?", "🧟", true), ("??", "é", false),
        ("?", "", false),
        ("a**b", "ab", true), ("*?*", "", false), ("*?*", "x", true), ("\\*", "*", true), ("\\*", "a", false),
        ("\\?", "?", true),
        ("\\\\", "\\", true), ("\\a", "a", true), ("[a]", "[a]", true), ("operator[]", "operator[]", true),
        ("int*", "int*", true),
        ("\\u{1b}[", "\u{1b}[", true), ("\\n\\t", "\n\t", true), ("é*", "é", true), ("*\u{301}", "e\u{301}", true),
        ("*aab", "aaab", true),
    ]

    @Test(arguments: globs) func glob(row: (pattern: String, text: String, matches: Bool)) throws {
        #expect(try Glob(row.pattern[...]).matches(row.text) == row.matches)
    }

    @Test func globAgreesWithAPlainDefinition() throws {
        func matches(_ pattern: Substring, _ text: Substring) -> Bool {
            guard let first = pattern.first else { return text.isEmpty }
            if first == "*" {
                return matches(pattern.dropFirst(), text) || !text.isEmpty && matches(pattern, text.dropFirst())
            }
            return !text.isEmpty && (first == "?" || first == text.first)
                && matches(pattern.dropFirst(), text.dropFirst())
        }
        var random = SeededGenerator(seed: 7)
        for _ in 0..<3_000 {
            let pattern = String(
                (0..<Int.random(in: 0...7, using: &random)).map { _ in "ab*?".randomElement(using: &random)! })
            let text = String(
                (0..<Int.random(in: 0...8, using: &random)).map { _ in "ab".randomElement(using: &random)! })
            #expect(try Glob(pattern[...]).matches(text) == matches(pattern[...], text[...]), "\(pattern) \(text)")
        }
    }

    @Test(arguments: ["*a*a*a*a*b", "*a?a*a?a*a?a*b", "*aaaaaaaaaaaaaaaaaaaaab"]) func hostilePatternsTakeLittleTime(
        _ pattern: String
    ) throws {
        let glob = try Glob(pattern[...])
        let name = String(repeating: "a", count: 20_000)
        #expect(!glob.matches(name)) // without exponential backtracking
    }

    @Test func manyWildcardsForFramesTakeLittleTime() throws {
        var finding = Finding.sample()
        finding.stacks.access = (0..<500).map { .named($0 % 2 == 0 ? "a" : "b") }
        let lines = String(repeating: "    ...\n    a\n", count: 100) + "    ...\n    c\n"
        var rules = try SuppressionTests.rules("double-free\n" + lines + "double-free\n    ...\n    b\n    a\n")
        let isSuppressed = rules.suppresses(finding)
        #expect(isSuppressed)
        #expect(rules.rules.map(\.count) == [0, 1])
    }

    @Test(arguments: ["function_%", "function_%*", "*_%"]) func tenThousandRulesAndFindings(_ pattern: String) throws {
        let text = (0..<10_000).map { number in
            "use-after-free\n    \(pattern.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "\(number)"))x\n    main\n"
        }.joined()
        var rules = try SuppressionTests.rules(text + "use-after-free: function_77\n")
        var finding = Finding.sample(.useAfterFree)
        var suppressed = 0
        for number in 0..<10_000 {
            finding.stacks.access = [.named("function_\(number % 100)"), .named("main")]
            if rules.suppresses(finding) { suppressed += 1 }
        }
        #expect(suppressed == 100)
    }

    @Test(.timeLimit(.minutes(1))) func longRuleIsReadInProportionToItsLength() throws {
        let lines = String(repeating: "        ...\n        *a*b\n", count: 100_000)
        let rules = try SuppressionTests.rules("double-free\n    access:\n" + lines)
        #expect(rules.rules[0].stacks[.access]?.count == 200_000)
    }

    // MARK: Suggestions

    static let functions: [String?] = [
        "main", "Cart.add(_:)", "A::operator*(A const&)", "A::operator[](int)", "f(char const*, ...)",
        "closure #1 in f()", "closure #2 in f()",
        "Pool<int>::get()", "Pool<char>::get()", "...", "$", "# not a comment", "name=x", "free: x", "function=y",
        "operator=", "operator=x",
        "a | b", "a\\b", "?", "*", " x ", "\u{1b}[2J", "line\nfeed", "tab\there", "é", "x::y", "access:", "double-free",
        "swift_release",
        "outlined copy of X", "f.cold", "f", "\u{2028}", "\u{301}x", "=\u{301}", "\u{d4e}=", "\u{d4e} ", "name=\u{301}",
        "a |\u{301} b", "\u{a0}x", "\u{feff}", "\u{85}", "\r", "", "merged f", nil,
    ]

    static func randomFinding(_ random: inout SeededGenerator) -> Finding {
        func stack() -> [Finding.Frame] {
            (0..<Int.random(in: 0...5, using: &random)).map { _ in
                var frame = Finding.Frame.unnamed(
                    Bool.random(using: &random) ? "/opt/app" : nil, UInt64.random(in: 0...3, using: &random))
                frame.function = functions.randomElement(using: &random)!
                if Int.random(in: 0...5, using: &random) == 0 { frame.module = "/usr/lib/libc.so.6" }
                return frame
            }
        }
        let kinds = Finding.Kind.all + [Finding.Kind(rawValue: "later\nkind"), Finding.Kind(rawValue: "*")]
        var finding = Finding.sample(kinds.randomElement(using: &random)!)
        finding.stacks = Finding.Stacks(access: stack(), free: stack(), alloc: stack())
        return finding
    }

    @Test func suggestionSuppressesItsFindingAndNoOther() throws {
        var random = SeededGenerator(seed: 1)
        var findings = (0..<60).map { _ in Self.randomFinding(&random) }
        // Findings similar to the suppressed one: with one frame more, one frame less, or another kind.
        for finding in findings.prefix(20) {
            var other = finding
            other.stacks.access.append(.named("more()"))
            findings.append(other)
            other = finding
            _ = other.stacks.free.popLast()
            findings.append(other)
        }
        // Kind and frames identify a finding; for a crash, the other parts of its signature do, too.
        let signatures = findings.map { finding in
            finding.computeFormerSignature() + (finding.kind == .crash ? finding.computeSignature() : "")
        }
        #expect(Set(signatures).count > 70)
        for (finding, signature) in zip(findings, signatures) {
            let text = Suppressions.suggestion(for: finding)
            var rules = try SuppressionTests.rules(text)
            #expect(rules.rules.count == 1)
            for (other, otherSignature) in zip(findings, signatures) {
                let isSuppressed = rules.suppresses(other)
                if isSuppressed != (signature == otherSignature) {
                    Issue.record("\(text)\n\(other.stacks)")
                    return
                }
            }
            let lines = text.unicodeScalars.filter { $0 != "\n" }
            #expect(visible(String(String.UnicodeScalarView(lines))) == String(String.UnicodeScalarView(lines)))
        }
    }

    @Test func suggestionForAKindOfALaterVersionTakesTheSignatureAsItIs() throws {
        var finding = Finding.sample(Finding.Kind(rawValue: "new-kind"))
        finding.signature = "0123456789abcdef"
        var rules = try SuppressionTests.rules(Suppressions.suggestion(for: finding))
        let isSuppressed = rules.suppresses(finding)
        #expect(isSuppressed)
    }

    @Test func suggestionIsReadable() {
        var finding = Finding.sample(.useAfterFree)
        finding.stacks.access.insert(.named("swift_release"), at: 0)
        finding.stacks.free = ["A::operator*(A const&)", "b", "c", "d"].map { .named($0) }
        finding.stacks.alloc = []
        #expect(
            Suppressions.suggestion(for: finding) == """
                # \(finding.sentence)
                use-after-free
                    access:
                        close_twice
                        main
                        $
                    free:
                        A::operator\\*(A const&)
                        b
                        c
                    alloc: $

                """)
    }
}

/// A random number generator with a seed.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 { // SplitMix64
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
