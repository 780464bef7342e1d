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
                + #""text":"\#(option.text)"}"#)
        #expect(
            OptionsCommand.markdown([option]).hasSuffix(
                "| `on_finding` | `abort` | `abort\\|continue` | \(option.text) |\n"))
    }
}
