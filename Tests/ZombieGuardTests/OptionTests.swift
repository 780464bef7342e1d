// The runtime's options: their table, and the messages for bad values.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct OptionTests {
    @Test func tableIsWhole() {
        let options = OptionTable.options
        #expect(!options.isEmpty)
        #expect(Set(options.map(\.name)).count == options.count)
        for option in options {
            #expect(!option.text.isEmpty)
            #expect(option.kind == .path || option.kind == .names || !option.initialText.isEmpty, "\(option.name)")
            #expect(option.choices.isEmpty == (option.kind != .choice && option.kind != .words), "\(option.name)")
            if option.kind == .number || option.kind == .bytes {
                #expect((option.least...option.most).contains(option.initial), "\(option.name)")
            }
            // The parser accepts the default value as it is printed.
            if option.kind != .path, option.kind != .names {
                let parsed = OptionTable.parse("\(option.name)=\(option.initialText)")
                #expect(parsed.problems.isEmpty, "\(option.name)")
                #expect(parsed.settings[option.name] == option.initial, "\(option.name)")
            }
        }
    }

    @Test func valuesAreParsed() {
        let parsed = OptionTable.parse("quarantine_bytes=2m:fill_new=on::on_finding=continue:report_path=/tmp/x")
        #expect(parsed.problems.isEmpty)
        #expect(parsed.settings["quarantine_bytes"] == 2 << 20)
        #expect(parsed.settings["fill_new"] == 1)
        #expect(parsed.settings["on_finding"] == 1)
    }

    static let bad: [(text: String, message: String)] = [
        (
            "stack_depth=999", "option 'stack_depth' has the bad value '999': expected 0 to 128"
        ),
        ("stack_depth=-1", "option 'stack_depth' has the bad value '-1': expected 0 to 128"),
        ("stack_depth", "option 'stack_depth' has the bad value '': expected 0 to 128"),
        ("fill_new=maybe", "option 'fill_new' has the bad value 'maybe': expected 0 or 1"),
        ("on_finding=shrug", "option 'on_finding' has the bad value 'shrug': expected abort or continue"),
        (
            "quarantine_bytes=8q",
            "option 'quarantine_bytes' has the bad value '8q': expected 0 to 1099511627776 bytes, suffixes k, m, g, t"
        ),
        (
            "quarantine_bytes=99999999999999999999",
            "option 'quarantine_bytes' has the bad value '99999999999999999999': "
                + "expected 0 to 1099511627776 bytes, suffixes k, m, g, t"
        ),
        ("fill_new=\u{1b}[2J", "option 'fill_new' has the bad value '\\u{1b}[2J': expected 0 or 1"),
    ]

    @Test(arguments: bad) func badValueIsRefused(row: (text: String, message: String)) {
        for options in [(inherited: row.text, given: []), (inherited: nil, given: ["fill_new=1", row.text])] {
            #expect(throws: Failure.usage(row.message)) {
                try RuntimeOptions(inherited: options.inherited, profile: nil, given: options.given)
            }
        }
    }

    @Test func unknownNamesAreKnownByTheirNeighbours() {
        #expect(
            OptionTable.parse("quarantine_byte=1:zzz=2").problems == [
                .unknown(name: "quarantine_byte", nearest: "quarantine_bytes"), .unknown(name: "zzz", nearest: nil),
            ])
    }

    @Test func formerNamesGoOnWorking() throws {
        #expect(
            OptionTable.aliases == [
                "fence_per_context": "isolated_per_context", "fence_bytes": "isolated_bytes",
                "fence_overhead": "isolated_overhead", "fence_windows": "isolated_windows",
                "fence_align": "isolated_align",
            ])
        for (alias, name) in OptionTable.aliases {
            let option = try #require(OptionTable.option(alias))
            #expect(option.name == name && OptionTable.option(name) == option)
            let other = option.choices.last ?? "7"
            let parsed = OptionTable.parse("\(alias)=\(other)")
            #expect(parsed.problems.isEmpty && parsed.settings == OptionTable.parse("\(name)=\(other)").settings)
            #expect(parsed.settings[name] != option.initial && parsed.settings[alias] == nil, "\(alias)")
            #expect(OptionTable.withoutUnknown("zzz=1:\(alias)=\(other)") == "\(alias)=\(other)")
            let inherited = try RuntimeOptions(inherited: "\(alias)=\(other)", profile: nil, given: [])
            #expect(inherited.textWithoutReportPath == "\(alias)=\(other)")
            let given = try RuntimeOptions(inherited: nil, profile: nil, given: ["\(alias)=\(other)"])
            #expect(given.textWithoutReportPath == "\(alias)=\(other)")
        }
        // Lists contain only the new names.
        for option in OptionTable.options { #expect(!option.name.hasPrefix("fence")) }
        #expect(
            throws: Failure.usage(
                "option 'fence_bytes' has the bad value 'x': expected 0 to 1099511627776 bytes, suffixes k, m, g, t")
        ) { try RuntimeOptions(inherited: nil, profile: nil, given: ["fence_bytes=x"]) }
    }

    @Test func hiddenOptionsAreLeftOut() throws {
        let hidden = OptionTable.options.filter { !$0.isShown }.map(\.name)
        #expect(
            hidden == [
                "sample_seed", "fill_freed_bytes", "isolated_windows", "overread_ms", "protect", "watchpoints", "focus",
                "mappings", "stack_overhead", "find_object", "log_pairs", "pressure_thread", "pressure_thread_bytes",
            ])
        let shown = OptionTable.options.filter(\.isShown)
        let lists = [OptionsCommand.text(shown), OptionsCommand.markdown(shown)]
        let whole = [OptionsCommand.text(OptionTable.options), OptionsCommand.markdown(OptionTable.options)]
        for title in OptionTable.groups { for list in lists + whole { #expect(list.contains("\(title)\n")) } }
        for option in OptionTable.options {
            #expect(option.text.count <= 70 && !option.text.hasSuffix("."), "\(option.name)")
            #expect(option.details.isEmpty || option.details.hasSuffix("."), "\(option.name)")
            for text in [option.text, OptionsCommand.sentences(option)] {
                let isInTable = text == option.text
                #expect(lists[isInTable ? 0 : 1].contains(text) == option.isShown, "\(option.name)")
                #expect(whole[isInTable ? 0 : 1].contains(text), "\(option.name)")
            }
        }
        #expect(CompletionText.settings.map(\.name) == shown.map(\.name))
    }

    @Test func optionsAreDescribed() throws {
        let option = try #require(OptionTable.option("stall_ms"))
        #expect(
            OptionsCommand.description(option) == """
                stall_ms=10 to 3600000
                  Milliseconds that a thread may be busy between two waits for events. Applies with collect=stalls.
                  Default: 250. Group: Crashes and stalls.

                """)
        #expect(try OptionsCommand(Arguments(operands: ["stall_ms", "fence_bytes"])).run() == 0)
        #expect(throws: Failure.usage("unknown option 'stall_m'", hint: "'zguard options --all' lists them")) {
            try OptionsCommand(Arguments(operands: ["stall_m"]))
        }
        #expect(throws: Failure.usage("names of options exclude '--all', '--json' and '--markdown'")) {
            try OptionsCommand(Arguments(values: ["--json": [""]], operands: ["stall_ms"]))
        }
    }

    @Test func laterValuesOverride() throws {
        let options = try RuntimeOptions(
            inherited: "stack_depth=3:report_path=/tmp/theirs:zzz=1", profile: "guard", given: ["fill_new=1"])
        #expect(
            options.text(reportPath: "/tmp/ours")
                == "swift_backtrace=skip:stack_depth=3:report_path=/tmp/theirs:report_path=/tmp/ours:profile=guard:fill_new=1"
        )
        #expect(
            try RuntimeOptions(inherited: nil, profile: nil, given: []).text(reportPath: "/p")
                == "swift_backtrace=skip:report_path=/p")
        #expect(throws: Failure.self) { try RuntimeOptions(inherited: nil, profile: nil, given: ["zzz=2"]) }
    }

    @Test func rawFindingsCannotBeLedAway() {
        #expect(throws: Failure.self) {
            try RuntimeOptions(inherited: nil, profile: nil, given: ["fill_new=1:report_path=/tmp/x"])
        }
    }

    @Test func printedForms() throws {
        let option = try #require(OptionTable.options.first { $0.name == "on_finding" })
        #expect(
            OptionsCommand.json(option).line
                == #"{"name":"on_finding","kind":"choice","default":"abort","choices":["abort","continue"],"#
                + #""group":"Findings and reports","shown":true,"text":"\#(option.text)"}"#)
        let hidden = try #require(OptionTable.option("stack_overhead"))
        #expect(
            OptionsCommand.json(hidden).line.hasSuffix(
                #""group":"Stacks","shown":false,"text":"\#(hidden.text)","details":"\#(hidden.details)"}"#))
        #expect(
            OptionsCommand.markdown([option]) == """
                ## Findings and reports

                | option | default | range | what it does |
                |---|---|---|---|
                | `on_finding` | `abort` | `abort\\|continue` | What the program does after a finding: end or continue. |

                """)
    }
}
