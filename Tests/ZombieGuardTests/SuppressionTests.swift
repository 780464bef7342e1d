// Suppression files: syntax, matching, and errors.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SuppressionTests {
    static func rules(_ text: String) throws -> Suppressions { try Suppressions(parsing: text, file: "zguard.supp") }

    private func matches(_ text: String, _ finding: Finding) throws -> Bool {
        var rules = try Self.rules(text)
        return rules.suppresses(finding)
    }

    /// The stack is close_twice ← main; freed in close_once, allocated in open_it.
    private let sample = Finding.sample()

    static let matching = [
        "double-free", "double-*", "*: close_twice", "double-free: close_twice\n    main",
        "double-free\n\tclose_*\n\tm?in",
        "double-free: ...\n    main", "double-free: ...", "double-free:\n    ...\n    main\n    $",
        "double-free\n    close_twice\n    main\n    ...\n    $",
        "double-free\n    free: close_once",
        "double-free\n    close_twice\n    free:\n        close_once\n        $\n    alloc: open_it",
        "double-free\n    alloc: ...\n        open_it", "double-free: module=app", "double-free: module=/opt/app",
        "double-free: module=*/app | file=app.c", "double-free: file=src/*.c", "double-free: close_twice | file=app.c",
        "double-free\n    signature=82d63efffd6c0317", "double-free\n    signature=82d6*",
        "  # a comment\n\n# another\ndouble-free\n    # inside\n    name=why not\n\n    close_twice\n",
        "\u{feff}double-free: close_twice\r\n    main\r\n", "double-free: function=close_twice",
        "write-after-free\ndouble-free: close_twice",
    ]

    @Test(arguments: matching) func ruleMatches(_ text: String) throws {
        #expect(try matches(text, sample))
    }

    static let others = [
        "", "# double-free", "use-after-free", "double-free: main", "double-free: close",
        "double-free: close_twice\n    other",
        "double-free\n    close_twice\n    $", "double-free\n    $", "double-free: close_twice\n    main\n    start",
        "double-free\n    free: close_twice", "double-free\n    alloc:\n        open_it\n        main",
        "double-free\n    free: $",
        "double-free: module=ap", "double-free: close_twice | module=libc.so.6", "double-free: file=main.c",
        "double-free\n    signature=82d6", "double-free\n    object=*", "double-free: class=*",
        "double-free: CLOSE_TWICE",
    ]

    @Test(arguments: others) func ruleDoesNotMatch(_ text: String) throws {
        #expect(try !matches(text, sample))
    }

    @Test func runtimeFramesNeedNotBeNamed() throws {
        var finding = sample
        finding.stacks.access.insert(.named("swift_release"), at: 0)
        finding.stacks.access.insert(.named("std::sort<int>(int)"), at: 2)
        finding.stacks.access.insert(.named("close_twice"), at: 1)
        #expect(
            finding.stacks.access.compactMap(\.function) == [
                "swift_release", "close_twice", "close_twice", "std::sort<int>(int)", "main",
            ])
        for text in [
            "double-free: close_twice\n    main\n    $", "double-free: swift_release\n    close_twice\n    main",
            "double-free: close_twice\n    std::sort*\n    main", "double-free: close_twice\n    close_twice\n    main",
            "double-free: swift_*\n    ...\n    std::*\n    main",
        ] { #expect(try matches(text, finding), "\(text)") }
        #expect(try !matches("double-free: close_twice\n    close_twice\n    close_twice", finding))
        // If a stack contains only frames of libraries, a rule has to name these frames.
        finding.stacks.access = [.named("swift_release"), .named("swift_retain")]
        #expect(try !matches("double-free: swift_retain", finding))
        #expect(try matches("double-free: swift_release", finding))
    }

    @Test func namesMatchAsShownAndAsSignaturesSeeThem() throws {
        var finding = sample
        finding.stacks.access = [.named("closure #2 in Pool<int>::get(int) [clone .cold]")]
        for name in [
            "closure #2 in Pool<int>::get(int) [clone .cold]", "closure # in Pool<>::get(int)", "closure #2 in *",
            "*::get(*) [clone*",
        ] { #expect(try matches("double-free: \(name)", finding), "\(name)") }
        #expect(try !matches("double-free: closure #1 in *", finding))
    }

    @Test func objectIsTheClassOfTheFreedObject() throws {
        var finding = Finding.sample(.useAfterFree)
        finding.block?.className = "Shop.Cart"
        #expect(try matches("use-after-free\n    object=Shop.*", finding))
        #expect(try matches("use-after-free\n    object=*.Cart\n    close_twice", finding))
        #expect(try !matches("use-after-free\n    object=Shop", finding))
    }

    static let owners: [(function: String, owner: String?)] = [
        ("Cart.add(_:)", "Cart"), ("static Outer.Cart.make()", "Outer.Cart"), ("closure #1 in Cart.add(_:)", "Cart"),
        ("geo::Circle::area(int) const", "geo::Circle"), ("A<B::C>::f(D::E)", "A<B::C>"), ("main", nil),
        ("f(A::B, C.D)", nil),
        ("A::operator()(B::C)", "A"), ("operator new(unsigned long)", nil),
        ("f()::{lambda()#1}::operator()() const", "f()::{lambda()#1}"),
        ("(anonymous namespace)::A::f()", "(anonymous namespace)::A"), ("", nil), (".", nil), ("::", nil),
        ("Cart.items.getter", "Cart.items"),
    ]

    @Test(arguments: owners) func ownerOfAFunction(row: (function: String, owner: String?)) {
        #expect(FindingNames.owner(of: row.function) == row.owner)
    }

    @Test func classIsWhatTheFunctionBelongsTo() throws {
        var finding = sample
        finding.stacks.access = [.named("Cart.add(_:)"), .named("geo::Circle::area(int) const")]
        #expect(try matches("double-free: class=Cart\n    class=geo::*", finding))
        #expect(try !matches("double-free: class=geo::Circle", finding))
    }

    static let wrong: [(text: String, line: Int, reason: String)] = [
        ("use-afterfree", 1, "unknown kind 'use-afterfree': did you mean 'use-after-free'?"),
        (
            "\nclose_twice main", 2,
            "unknown kind 'close_twice main': a rule begins with one of "
                + Finding.Kind.all.map(\.rawValue).joined(separator: ", ")
        ),
        ("  main", 1, "an indented line must follow the first line of a rule"),
        ("*", 1, "the rule suppresses every finding: name a kind, an object or a frame"),
        ("**: ...\n    name=x\n\n", 1, "the rule suppresses every finding: name a kind, an object or a frame"),
        (
            "double-free\n    fun=main", 2,
            "unknown key 'fun=': keys are name=, object=, signature=, function=, class=, module=, file="
        ),
        ("double-free\n    obj: main", 2, "unknown stack 'obj:': stacks are access:, free: and alloc:"),
        ("double-free\n    free: a\n    free: b", 3, "the free stack is given twice"),
        ("double-free: a\n    access: b", 2, "the access stack is given twice"),
        ("double-free\n    object=a\n    object=b", 3, "'object=' is given twice"),
        ("double-free\n    name=a\n    name=b", 3, "'name=' is given twice"),
        ("double-free\n    name=", 2, "'name=' needs a value"),
        ("double-free: $\n    main", 2, "no frame may follow '$', the end of the stack"),
        ("double-free: module=", 1, "a pattern is missing: '*' stands for any text"),
        ("double-free: a |  | b", 1, "a pattern is missing: '*' stands for any text"),
        ("double-free: a\\", 1, "a backslash at the end of a pattern escapes nothing"),
        ("double-free: \\u{zz}", 1, "'\\u' needs the number of a character, as in '\\u{1b}'"),
        ("double-free: \\u{d800}", 1, "'\\u' needs the number of a character, as in '\\u{1b}'"),
        (": main", 1, "a pattern is missing: '*' stands for any text"),
    ]

    @Test(arguments: wrong) func wrongLineIsNamed(row: (text: String, line: Int, reason: String)) {
        #expect(problems(row.text) == [.init(file: "zguard.supp", line: row.line, reason: row.reason)])
    }

    private func problems(_ text: String) -> [Suppressions.Problem] {
        do {
            _ = try Self.rules(text)
            return []
        } catch Suppressions.Failure.malformed(let problems) {
            return problems
        } catch {
            return []
        }
    }

    @Test func everyWrongLineIsNamedOnce() {
        let text = "bad\n    a\ndouble-free: \\\n    fun=a\n    b\nbad\u{1b}\n    c\n*\n"
        #expect(problems(text).map(\.line) == [1, 3, 4, 6, 8])
        #expect(problems(text)[3].description.contains(#"zguard.supp:6: unknown kind 'bad\u{1b}': "#))
    }

    @Test func firstMatchingRuleCounts() throws {
        var rules = try Self.rules("double-free: main\ndouble-free: close_twice\n    name=first\ndouble-free\n")
        rules.append(try Suppressions(parsing: "null-access\n", file: "other.supp"))
        var finding = sample
        finding.count = 5
        let both = [rules.suppresses(finding), rules.suppresses(sample), rules.suppresses(.sample(.invalidFree))]
        #expect(both == [true, true, false])
        #expect(rules.rules.map(\.count) == [0, 6, 0, 0])
        #expect(
            rules.unused.map(\.description) == [
                "zguard.supp:1: double-free", "zguard.supp:4: double-free", "other.supp:1: null-access",
            ])
        #expect(rules.rules[1].description == "zguard.supp:2: 'first' (double-free)")
        #expect(rules.occurrences == 6)
    }

    @Test func filesAreRead() throws {
        let scratch = try Scratch()
        let path = try scratch.file("s", "double-free: a\n".utf8)
        #expect(try Suppressions(opening: path).rules[0].file == path)
        for (path, number) in [(scratch.path, EISDIR), (scratch.path + "/none", ENOENT)] {
            do {
                _ = try Suppressions(opening: path)
                Issue.record("\(path) was read")
            } catch {
                guard case .unreadable(SystemError(number: number)) = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
        let huge = try scratch.file("huge", repeatElement(UInt8(ascii: "#"), count: Suppressions.largestFile + 1))
        #expect(throws: Suppressions.Failure.self) { try Suppressions(opening: huge) }
    }
}
