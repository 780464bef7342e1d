// The appearance of text reports: folded stacks, colors, source excerpts.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
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

    // Terminals apply parameters in order, so that "2;0" would reset faint.
    @Test(arguments: [TextStyle.Role.mark, .kind, .sentence, .title, .function, .place, .faint, .pointer])
    func paintIsNotUndone(role: TextStyle.Role) {
        #expect(role.rawValue.split(separator: ";").last != "0")
    }

    @Test func runsOfRuntimeFramesAreFolded() {
        let (own, free, release, sort, start) = (Self.own, Self.free, Self.release, Self.sort, Self.start)
        #expect(folded([]) == [])
        #expect(folded([own]) == ["0 Cart.add(_:)"])
        // A folded run of library frames is named by its outermost frame if the program called that frame, else by its
        // innermost frame.
        #expect(
            folded([free, release, own, free, start]) == ["0-1 swift_release", "2 Cart.add(_:)", "3-4 libc.so.6"])
        #expect(folded([own, free, sort, own]) == ["0 Cart.add(_:)", "1-2 std::sort<…>(…)", "3 Cart.add(_:)"])
        #expect(folded([release, own, start]) == ["0-0 swift_release", "1 Cart.add(_:)", "2-2 _start"])
        #expect(folded([free, own, free, free], isFull: true).count == 4)
        // A stack without any frame of the program is shown in full.
        #expect(folded([free, release, sort, start]).count == 4)
    }

    @Test func thunksAreFolded() {
        let (own, release) = (Self.own, Self.release)
        let (partial, thunk) = (
            Finding.Frame.named("partial apply for closure #1 in f()"), Finding.Frame.named("reabstraction thunk")
        )
        let witness = Finding.Frame.named("protocol witness for P.f() in conformance Cart", "/src/cart.swift", 1)
        let helper = Finding.Frame.named("__swift_instantiateConcreteTypeFromMangledName")
        #expect(
            folded([release, own, thunk, own]) == [
                "0-0 swift_release", "1 Cart.add(_:)", "2-2 reabstraction thunk", "3 Cart.add(_:)",
            ])
        #expect(folded([own, partial, thunk, own]) == ["0 Cart.add(_:)", "1-2 reabstraction thunk", "3 Cart.add(_:)"])
        #expect(folded([own, witness]) == ["0 Cart.add(_:)", "1-1 protocol witness for P.f() in conformance Cart"])
        // A folded run is named by a frame that is not a thunk.
        #expect(
            folded([own, partial, release, thunk, own]) == ["0 Cart.add(_:)", "1-3 swift_release", "4 Cart.add(_:)"])
        // The closure, which was inlined into the thunk, calls the runtime.
        #expect(
            folded([release, partial, own]).dropFirst() == ["1 partial apply for closure #1 in f()", "2 Cart.add(_:)"])
        #expect(folded([helper, own]) == ["0-0 __swift_instantiateConcreteTypeFromMangledName", "1 Cart.add(_:)"])
        var finding = Finding.sample()
        finding.stacks.access = [release, own, partial, thunk, release, own, thunk, own]
        let text = TextRenderer().render(finding)
        #expect(text.contains("\n    #0 swift_release … (1 runtime frame)\n    #1 Cart.add(_:)  /src/cart.swift:3\n"))
        #expect(text.contains("\n    #2-#4 swift_release … (1 runtime frame and 2 thunks)\n"))
        #expect(text.contains("\n    #6 reabstraction thunk … (1 thunk)\n"))
        // The origin, whose source is shown and which the sentence names, is never a thunk if there is another frame.
        #expect([release, witness, own].origin == own)
        #expect([release, thunk, partial].origin == thunk)
    }

    @Test func namesThatNobodyCanTakeApartAreShortened() {
        let mangled = "$s4main" + String(repeating: "3Foo", count: 100) + "zzz"
        var finding = Finding.sample()
        finding.stacks.access = [
            .named(mangled, "/src/a.swift", 3), .named("a_long_name_that_a_person_has_given_to_a_function"),
        ]
        let text = TextRenderer().render(finding)
        #expect(text.contains("\n    #0 $s4main3Foo3Foo3Foo3Foo3Foo3Foo3Foo3Foo…  /src/a.swift:3\n"))
        #expect(text.contains("#1 a_long_name_that_a_person_has_given_to_a_function"))
        #expect(TextRenderer(style: TextStyle(isFull: true)).render(finding).contains(mangled))
        for name in ["_Z3fooi", "_ZN4main3Foo3addEi", "f()", "$s4main3FooC3addyyF"] {
            #expect(withoutMangledEnd(name) == name)
        }
        let short = withoutMangledEnd("_RNvCs" + String(repeating: "x", count: 90))
        #expect(short.count == 40 && short.hasSuffix("…"))
        // A macro-generated name, still mangled inside of a demangled name.
        #expect(
            withoutMangledEnd(
                "$s11MisuseTests05CrashB0V12readsNowhere4TestfMp_7__localfMu0_ #1 (Int) -> () in static A.$s3fooyyF()")
                == "$s11MisuseTests05Cr… #1 (Int) -> () in static A.$s3fooyyF()")
    }

    @Test func recursionsAreCounted() {
        let (own, release) = (Self.own, Self.release)
        let other = Finding.Frame.named("other", "/src/cart.swift", 9)
        let many = Array(repeating: own, count: 100)
        #expect(folded(many + [other]) == ["0 Cart.add(_:)", "1 1 x 99", "100 other"])
        #expect(folded(Array(repeating: own, count: 3)).count == 3)
        let pairs = (0..<20).flatMap { _ in [own, other] }
        #expect(folded(pairs + [release]) == ["0 Cart.add(_:)", "1 other", "2 2 x 19", "40-40 swift_release"])
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
        #expect(wants(["TERM": "xterm", "NO_COLOR": ""], on: other)) // empty means not set
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
    // Input: line, terminal column of the mark, and width. Expected: the shown text, and the mark's column in it.
    static let fitting: [(line: String, column: Int?, width: Int, shown: String, at: Int?)] = [
        ("0123456789", 10, 10, "0123456789", 10), ("0123456789", nil, 9, "01234567…", nil),
        ("0123456789", 7, 9, "01234567…", 7), ("0123456789", 8, 9, "…23456789", 7),
        ("0123456789", 9, 9, "…23456789", 8),
        ("0123456789", 10, 9, "…23456789", 9),
        ("0123456789", 11, 9, "…3456789", 9), ("0123456789abcdefghij", 10, 9, "…456789a…", 7),
        ("日本語日本語日本語", 3, 18, "日本語日本語日本語", 3), ("日本語日本語日本語", 3, 10, "日本語日…", 3),
        ("e\u{301}e\u{301}e\u{301}", 3, 3, "e\u{301}e\u{301}e\u{301}", 3),
        ("", nil, 5, "", nil), ("", 1, 5, "", 1), ("0123456789", 5, 0, "…45…", 2),
    ]

    @Test(arguments: fitting)
    func linesFit(row: (line: String, column: Int?, width: Int, shown: String, at: Int?)) {
        let fitting = FittingText(row.line, column: row.column, width: row.width)
        #expect(fitting.text == row.shown)
        #expect(fitting.column == row.at)
    }

    // For every line, width and column: the shown text fits, and the column marks the same character.
    @Test func everyColumnOfEveryLineFits() {
        for line in [
            "0123456789abcdefghijklmnopqrstuvwxyz", "日本語abc日本語def日本語ghi日本", "a\u{301}bc日d\u{301}efghij🙂klmnopqrst",
        ] {
            for width in 4...50 {
                var before = 0
                for character in line {
                    let fitting = FittingText(line, column: before + 1, width: width)
                    #expect(fitting.text.reduce(0) { $0 + $1.columns } <= width)
                    var at = 0
                    let there = fitting.text.first { other in
                        defer { at += other.columns }
                        return at + 1 == fitting.column
                    }
                    #expect(there == character, "'\(line)' \(before + 1) in \(width): \(fitting)")
                    before += character.columns
                }
            }
        }
    }

    @Test func sourceFitsTheTerminal() throws {
        let scratch = try Scratch()
        let code = "\tlet größe = \"日本語\"; " + String(repeating: "call(); ", count: 40) + "bug()"
        let file = try scratch.file(
            "a.swift", "first line, which is longer than the terminal is wide\n\(code)\nlast\n".utf8)
        var finding = Finding.sample()
        for (byte, word) in [
            ("\tlet ".utf8.count, "größe"), ("\tlet größe = \"日本".utf8.count, "語"), (code.utf8.count - 5, "bug()"),
        ] {
            finding.stacks = Finding.Stacks(access: [.named("f", file, 2, column: byte + 1)])
            for columns in [40, 41, 80, 120] {
                let text = TextRenderer(style: TextStyle(columns: columns), excerpts: SourceExcerpts()).render(finding)
                let lines = text.split(separator: "\n").map(String.init)
                let marked = try #require(lines.firstIndex { $0.contains("> 2 |") })
                for line in lines[(marked - 1)...(marked + 2)] {
                    #expect(line.reduce(0) { $0 + $1.columns } <= columns)
                }
                let caret = try #require(lines[marked + 1].firstIndex(of: "^"))
                let before = lines[marked + 1].distance(from: lines[marked + 1].startIndex, to: caret)
                var at = 0
                let rest = lines[marked].drop { character in
                    defer { at += character.columns }
                    return at < before
                }
                #expect(rest.hasPrefix(String(word.prefix(1))), "\(word) at \(columns): \(lines[marked]) \(before)")
            }
        }
    }

    @Test func statisticsFitTheScreen() {
        let text = "0123456789\nb\nc\nd\ne\n"
        func screen(_ columns: Int, _ rows: Int) -> String {
            StatsCommand.screen(text, on: TerminalSize(columns: columns, rows: rows))
                .replacing("\u{1b}[K", with: "").replacing("\u{1b}[H", with: "").replacing("\u{1b}[J", with: "")
        }
        #expect(screen(10, 6) == text)
        #expect(screen(80, 24) == text)
        #expect(screen(5, 4) == "0123…\nb\n… 3 …\n")
        #expect(screen(20, 1) == "… 5 more lines\n")
        #expect(StatsCommand.screen("a\n", on: nil) == "\u{1b}[H\u{1b}[Ka\n\u{1b}[J")
    }
}
