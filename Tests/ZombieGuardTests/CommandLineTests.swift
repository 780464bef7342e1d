// The command line: accepted arguments, and the messages for all others.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct CommandLineTests {
    private func parse(_ words: [String]) throws -> Arguments {
        try Command.named(words[0]).parse(Array(words.dropFirst()))
    }

    static let good: [(words: [String], arguments: Arguments)] = [
        (["run", "ls"], Arguments(operands: ["ls"])),
        (["run", "ls", "--quiet", "-o", "x"], Arguments(operands: ["ls", "--quiet", "-o", "x"])),
        (
            ["run", "--quiet", "--", "ls", "--", "-l"],
            Arguments(values: ["--quiet": [""]], operands: ["ls", "--", "-l"])
        ),
        (["run", "--", "--odd-name"], Arguments(operands: ["--odd-name"])),
        (
            ["run", "-o", "a=1", "-ob=2", "--format=json", "--report", "x", "p"],
            Arguments(values: ["-o": ["a=1", "b=2"], "--format": ["json"], "--report": ["x"]], operands: ["p"])
        ),
        (["run", "--report=-odd", "p"], Arguments(values: ["--report": ["-odd"]], operands: ["p"])),
        (["run", "--exit-code", "7", "p"], Arguments(values: ["--exit-code": ["7"]], operands: ["p"])),
        (["run", "--help", "--nonsense"], Arguments(wantsHelp: true)),
        (["stats"], Arguments()),
        (["stats", "12", "--watch"], Arguments(values: ["--watch": [""]], operands: ["12"])),
        (["stats", "--watch", "0.5", "12"], Arguments(values: ["--watch": ["0.5"]], operands: ["12"])),
        (["stats", "--watch", "--json"], Arguments(values: ["--watch": [""], "--json": [""]])),
        (
            ["report", "a", "--format", "text", "b", "-"],
            Arguments(values: ["--format": ["text"]], operands: ["a", "b", "-"])
        ),
    ]

    @Test(arguments: good) func understood(row: (words: [String], arguments: Arguments)) throws {
        #expect(try parse(row.words) == row.arguments)
    }

    static let bad: [(words: [String], message: String, hint: String?)] = [
        (["rnu"], "unknown command 'rnu'", "did you mean 'run'?"),
        (["completely-different"], "unknown command 'completely-different'", "see 'zguard help'"),
        (["--foo"], "unknown option '--foo'", "see 'zguard help'"),
        (["run", "--formt", "json", "p"], "unknown option '--formt'", "did you mean '--format'?"),
        (["run", "--zzzzzz=1", "p"], "unknown option '--zzzzzz'", "see 'zguard run --help'"),
        (["run", "-x", "p"], "unknown option '-x'", "did you mean '-o'?"),
        (["run"], "'zguard run' needs PROGRAM [ARG…]", nil),
        (["run", "--quiet=1", "p"], "option '--quiet' takes no value", nil),
        (["run", "--report"], "option '--report' needs a value", "--report PATH"),
        (["run", "--report", "--quiet", "p"], "option '--report' needs a value", "--report PATH"),
        (["run", "--report=", "p"], "option '--report' needs a value", "--report PATH"),
        (["run", "--quiet", "--quiet", "p"], "option '--quiet' is given twice", nil),
        (
            ["run", "--format", "jsn", "p"],
            "option '--format' has the bad value 'jsn': expected text, json, sarif, html, junit or github",
            "did you mean 'json'?"
        ),
        (["trim", "1", "2"], "'zguard trim' does not take '2'", "zguard trim PID"),
        (["doctor", "x"], "'zguard doctor' does not take 'x'", "zguard doctor"),
        (["version", "\u{1b}[m"], "'zguard version' does not take '\\u{1b}[m'", "zguard version"),
    ]

    @Test(arguments: bad) func refused(row: (words: [String], message: String, hint: String?)) throws {
        // #expect(throws:) and #require(throws:) return the error only since Swift 6.1.
        var refusal: Failure?
        do { _ = try parse(row.words) } catch { refusal = error as? Failure }
        let failure = try #require(refusal)
        #expect(failure.message == row.message)
        if let hint = row.hint { #expect(failure.hint == hint) }
        #expect(failure.status == 64)
    }

    @Test(arguments: ["0", "-3", "x", "+5", "1.5", "99999999999999999999"]) func badProcessID(word: String) {
        #expect(throws: Failure.usage("'\(word)' is not a process id")) {
            try Arguments(operands: [word]).processID()
        }
    }

    @Test func numbersOfFlags() throws {
        #expect(try RunCommand.exitStatus(nil) == 99)
        #expect(try RunCommand.exitStatus("0") == 0)
        #expect(throws: Failure.self) { try RunCommand.exitStatus("256") }
        #expect(throws: Failure.self) { try RunCommand.exitStatus("x") }
        #expect(try StatsCommand.interval("") == 2)
        #expect(try StatsCommand.interval("0.25") == 0.25)
        for bad in ["0", "nan", "inf", "-1", "1e9", "+5", "-0", "0x5", "5."] {
            #expect(throws: Failure.self) { try StatsCommand.interval(bad) }
        }
        for bad in ["+5", "-0", "0x5"] { #expect(throws: Failure.self) { try RunCommand.exitStatus(bad) } }
        for bad in ["+5", "+5%", "-0%", "5e0", "5.%", "5.25"] {
            #expect(throws: Failure.self) { try RunCommand.percentage(bad) }
        }
        // A sign belongs to the number, which is then rejected; the word does not start another argument.
        for bad in ["+5", "-0"] {
            #expect(try parse(["stats", "--watch", bad, "12"]).values == ["--watch": [bad]])
        }
        #expect(throws: Failure.self) { try StatsCommand(Arguments(values: ["--json": [""], "--prometheus": [""]])) }
    }

    @Test func helpNamesEverythingInTheTable() {
        for command in Command.all {
            #expect(HelpText.overview.contains("  \(command.name)"))
            let text = HelpText.text(of: command)
            for flag in command.flags { #expect(text.contains("  \(flag.synopsis)"), "\(command.name) \(flag.name)") }
        }
        #expect(Set(Command.all.map(\.name)).count == Command.all.count)
    }

    @Test func synopsis() throws {
        #expect(HelpText.synopsis(of: try Command.named("trim")) == "zguard trim PID")
        #expect(
            HelpText.synopsis(of: try Command.named("stats"))
                == "zguard stats [--watch [SECONDS]] [--json] [--prometheus] [PID]")
    }

    static let near: [(name: String, nearest: String?)] = [
        ("stat", "stats"), ("chekc", "check"), ("STATS", nil), ("", nil), ("x", nil), ("reprot", "report"),
        ("opt", nil),
        ("optoin", "options"),
    ]

    @Test(arguments: near) func nearest(row: (name: String, nearest: String?)) {
        let names = ["run", "stats", "report", "check", "trim", "options"]
        #expect(nearestName(to: row.name, among: names) == row.nearest)
    }

    @Test func distances() {
        #expect(editDistance("", "abc") == 3)
        #expect(editDistance("kitten", "sitting") == 3)
        #expect(editDistance("ab", "ba") == 1)
        #expect(editDistance("same", "same") == 0)
    }

    @Test func tablesAndSizes() {
        #expect(table([["A", "BB"], ["10", "x"]], rightAligned: [0]) == " A  BB\n10  x\n")
        #expect(byteText(1023) == "1023 B")
        #expect(byteText(1536) == "1.5 KiB")
        #expect(byteText(8 << 20) == "8.0 MiB")
    }
}
