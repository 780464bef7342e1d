// How text reports look: folded stacks, colours, source excerpts.

import Foundation
import Testing

@testable import ZombieGuard
@testable import zguard

@Suite struct TextStyleTests {
    private static let free = Finding.Frame.unnamed("/lib/libc.so.6", 1)
    private static let release = Finding.Frame.named("swift_release")
    private static let sort = Finding.Frame.named("std::sort<int*>(int*, int*)", "/usr/include/c++/12/algo.h", 7)
    private static let own = Finding.Frame.named("Cart.add(_:)", "/src/cart.swift", 3)
    private static let start = Finding.Frame.named("_start")

    private func folded(_ stack: [Finding.Frame], isFull: Bool = false) -> [String] {
        FoldedStack.lines(of: stack, isFull: isFull).map { line in
            switch line {
            case .frame(let number): "\(number) \(stack[number].function ?? "?")"
            case .repeated(let first, let frames, let turns): "\(first) \(frames) x \(turns)"
            case .folded(let range, let name): "\(range.lowerBound)-\(range.upperBound) \(name)"
            }
        }
    }

    // A terminal obeys the parameters in their order: "2;0" would be faint no more.
    @Test(arguments: [TextStyle.Role.mark, .kind, .sentence, .title, .function, .place, .faint, .pointer])
    func paintIsNotUndone(role: TextStyle.Role) {
        #expect(role.rawValue.split(separator: ";").last != "0")
    }

    @Test func runsOfRuntimeFramesAreFolded() {
        let (own, free, release, sort, start) = (Self.own, Self.free, Self.release, Self.sort, Self.start)
        #expect(folded([]) == [])
        #expect(folded([own]) == ["0 Cart.add(_:)"])
        // What the program called is the outermost; what called the program the innermost.
        #expect(
            folded([free, release, own, free, start]) == ["0-1 swift_release", "2 Cart.add(_:)", "3-4 libc.so.6"])
        #expect(folded([own, free, sort, own]) == ["0 Cart.add(_:)", "1-2 std::sort<…>(…)", "3 Cart.add(_:)"])
        #expect(folded([release, own, start]) == ["0 swift_release", "1 Cart.add(_:)", "2 _start"])
        #expect(folded([free, own, free, free], isFull: true).count == 4)
        // Where nothing is the program's own, everything is shown.
        #expect(folded([free, release, sort, start]).count == 4)
    }

    @Test func recursionsAreCounted() {
        let (own, release) = (Self.own, Self.release)
        let other = Finding.Frame.named("other", "/src/cart.swift", 9)
        let many = Array(repeating: own, count: 100)
        #expect(folded(many + [other]) == ["0 Cart.add(_:)", "1 1 x 99", "100 other"])
        #expect(folded(Array(repeating: own, count: 3)).count == 3)
        let pairs = (0..<20).flatMap { _ in [own, other] }
        #expect(folded(pairs + [release]) == ["0 Cart.add(_:)", "1 other", "2 2 x 19", "40 swift_release"])
        #expect(folded(many, isFull: true).count == 100)
        var finding = Finding.sample()
        finding.stacks.access = many
        #expect(TextRenderer().render(finding).contains("\n    … this frame 99 times more\n"))
    }

    static let names: [(name: String, short: String)] = [
        ("main", "main"), ("f()", "f()"), ("f(int)", "f(…)"), ("a<b<c>, d>::e(f<g>) const", "a<…>::e(…) const"),
        ("std::operator<< <char>(int)", "std::operator<< <…>(…)"), ("x::operator()(int)", "x::operator()(…)"),
        ("x::operator->()", "x::operator->()"), ("a > b", "a > b"), ("(((", "(…"), ("", ""),
        ("(anonymous namespace)::f(int)", "(…)::f(…)"), ("closure #1 in f(_:)", "closure #1 in f(…)"),
    ]

    @Test(arguments: names) func longNamesAreShortened(row: (name: String, short: String)) {
        #expect(FoldedStack.shortName(row.name) == row.short)
    }

    @Test func colorsChangeNothingButTheLooks() throws {
        let colored = TextRenderer(style: TextStyle(usesColor: true)).render(.sample())
        #expect(colored.contains("\u{1b}[1;31mdouble-free\u{1b}[0m"))
        let plain = colored.replacing(try Regex("\u{1b}\\[[0-9;]*m"), with: "")
        #expect(plain == TextRenderer().render(.sample()))
    }

    @Test func colorsAreForTerminals() {
        func wants(_ variables: [String: String], on descriptor: Int32) -> Bool {
            ReportOptions.wantsColor(descriptor) { variables[$0].flatMap { $0.isEmpty ? nil : $0 } }
        }
        var terminal: Int32 = -1
        var other: Int32 = -1
        #expect(openpty(&terminal, &other, nil, nil, nil) == 0)
        defer { for descriptor in [terminal, other] { close(descriptor) } }
        let file = open("/dev/null", O_WRONLY)
        defer { close(file) }
        #expect(wants(["TERM": "xterm"], on: other))
        #expect(!wants(["TERM": "xterm"], on: file))
        #expect(!wants(["TERM": "dumb"], on: other))
        #expect(!wants(["TERM": "xterm", "NO_COLOR": "1"], on: other))
        #expect(wants(["TERM": "xterm", "NO_COLOR": ""], on: other)) // empty is as good as not set
        #expect(wants(["CLICOLOR_FORCE": "1"], on: file))
        #expect(!wants(["CLICOLOR_FORCE": "0"], on: file))
        #expect(!wants(["CLICOLOR_FORCE": "1", "NO_COLOR": "1"], on: file))
    }

    @Test func pathsAreShownFromTheDirectory() {
        let style = TextStyle(directory: "/home/me/shop")
        #expect(style.path("/home/me/shop/src/a.c") == "src/a.c")
        #expect(style.path("/home/me/shopping/a.c") == "/home/me/shopping/a.c")
        #expect(style.path("/\u{1b}[2J") == "/\\u{1b}[2J")
    }

    // MARK: Source

    private func report(on line: Int, column: Int?, source: String, name: String = "a.c") throws -> String {
        let scratch = try Scratch()
        let file = try scratch.file(name, source.utf8)
        var finding = Finding.sample()
        finding.stacks = Finding.Stacks(access: [.named("f", file, line, column: column)])
        return TextRenderer(excerpts: SourceExcerpts()).render(finding)
            .replacing(scratch.path + "/", with: "")
    }

    @Test func theLineOfTheAccessIsShownWithItsNeighbours() throws {
        let text = try report(on: 3, column: 5, source: "one\ntwo\n\tthree\n\nfive\nsix\n")
        #expect(
            text.contains(
                """
                    #0 f  a.c:3:5
                        1 | one
                        2 | two
                      > 3 |     three
                          |        ^
                        4 |
                        5 | five

                """))
    }

    static let elsewhere: [(line: Int, column: Int?, name: String, shown: Int)] = [
        (1, 1, "a.c", 4), (1, nil, "a.c", 3), (1, 99, "a.c", 3), (3, 2, "a.c", 4), (4, 1, "a.c", 0), (0, 1, "a.c", 0),
        (1, 1, "secrets.txt", 0),
    ]

    @Test(arguments: elsewhere)
    func whatIsNotThereIsNotShown(row: (line: Int, column: Int?, name: String, shown: Int)) throws {
        let text = try report(on: row.line, column: row.column, source: "one\ntwo\nthree", name: row.name)
        #expect(text.split(separator: "\n").filter { $0.contains(" |") }.count == row.shown)
    }
}
