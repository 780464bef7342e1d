// Shell completions and the manual page are generated from the tables and contain every entry.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct CompletionTests {
    @Test func everyPlaceholderIsKnown() {
        for command in Command.all {
            for operand in command.operandList {
                #expect(ValueKind.kinds(of: operand.placeholder) != nil, "\(command.name) \(operand.placeholder)")
            }
            for flag in command.allFlags {
                guard let placeholder = flag.placeholder else { continue }
                #expect(ValueKind.kinds(of: placeholder) != nil, "\(command.name) \(flag.synopsis)")
            }
        }
    }

    static let placeholders: [(text: String, kinds: [ValueKind]?)] = [
        ("PATH", [.file]), ("PID", [.process]), ("PID-or-CORE", [.process, .file]), ("PID|CORE", [.process, .file]),
        ("bash|zsh", [.choice(["bash", "zsh"])]), ("KEY=VALUE", [.setting]), ("N", [.text]), ("", nil), ("NOBODY", nil),
        ("PID|nobody", nil), ("FINDING|SIGNATURE|STORE", [.file]), ("N|TEXT", [.text]),
    ]

    @Test(arguments: placeholders) func placeholder(row: (text: String, kinds: [ValueKind]?)) {
        #expect(ValueKind.kinds(of: row.text) == row.kinds)
    }

    @Test func operandsAreTakenApart() {
        let command = Command(name: "x", operands: "PID-or-CORE [ADDRESS…]", text: "") { _ in 0 }
        #expect(
            command.operandList == [
                Operand(placeholder: "PID-or-CORE", isOptional: false, repeats: false),
                Operand(placeholder: "ADDRESS", isOptional: true, repeats: true),
            ])
    }

    static let scripts = [BashCompletion().text, ZshCompletion().text, FishCompletion().text]

    @Test(arguments: scripts) func scriptHoldsEverything(script: String) {
        for command in Command.all {
            #expect(script.contains(command.name))
            for flag in command.flags {
                #expect(script.contains(flag.name) || script.contains("-l \(flag.name.dropFirst(2)) "), "\(flag.name)")
                if case .choice(let choices) = flag.value { #expect(script.contains(choices.joined(separator: " "))) }
            }
        }
        for option in OptionTable.options where option.isShown { #expect(script.contains(option.name)) }
        #expect(script.hasSuffix("\n") && !script.contains("\t"))
    }

    @Test func shellsAreNamed() {
        #expect(CompletionsCommand.Shell.operands == "bash|zsh|fish")
        #expect(throws: Failure.usage("there is no script for 'tc\\u{1b}h': expected bash, zsh or fish")) {
            try CompletionsCommand(Arguments(operands: ["tc\u{1b}h"])).run()
        }
        #expect(CompletionText.quoted("it's $HOME `x`") == #"'it'\''s $HOME `x`'"#)
    }

    static let escapes: [(text: String, roff: String)] = [
        ("plain text", "plain text"), (".TH", "\\&.TH"), ("'tis", "\\(aqtis"), ("--flag", "\\-\\-flag"),
        ("a\\b", "a\\eb"),
        ("x…", "x..."), ("é", "\\[u00E9]"), ("𝄞", "\\[u1D11E]"), ("a\nb", "a b"), ("^~`", "\\(ha\\(ti\\(ga"), ("", ""),
    ]

    @Test(arguments: escapes) func roffStandsForItself(row: (text: String, roff: String)) {
        #expect(Roff.escaped(row.text) == row.roff)
    }

    @Test func requestsCannotBeMadeByText() {
        var page = Roff()
        page.item(Roff.bold("x"), String(repeating: "word ", count: 15) + ".so /etc/passwd " + "'y")
        page.paragraph(".TH evil")
        let lines = page.result.split(separator: "\n")
        #expect(lines.filter { $0.hasPrefix(".") || $0.hasPrefix("'") } == [".TP", ".PP"])
        #expect(lines.allSatisfy { $0.count < 80 })
        #expect(Roff.quoted("say \"x\"") == "\"say \\(dqx\\(dq\"")
    }

    @Test func manualPageHoldsEverything() {
        let page = ManPage(date: "2026-11-21").text
        #expect(page.hasPrefix(".TH ZGUARD 1 \"2026-11-21\" \"zguard \(Roff.escaped(zombieGuardVersion))\""))
        for command in Command.all {
            let name = Roff.escaped(command.name)
            #expect(page.contains("\n.SS \"\(name)\"\n\\fBzguard \(name)\\fR\n"))
            for flag in command.flags { #expect(page.contains("\n.TP\n\\fB\(Roff.escaped(flag.name))\\fR")) }
        }
        for option in OptionTable.options { #expect(page.contains("\n.TP\n\\fB\(option.name)\\fR=")) }
    }
}
