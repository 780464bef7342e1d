// The manual page, generated from the tables of commands and options.

import Glibc
import ZombieGuard

struct ManPage {
    /// As in "2026-11-21".
    let date: String

    /// The date of the page: SOURCE_DATE_EPOCH where that is set, for builds that are to be repeated, else today.
    static func date() throws(Failure) -> String {
        let name = "SOURCE_DATE_EPOCH"
        guard let text = Preload.environment(name) else { return String(Timestamp.now.description.prefix(10)) }
        guard let seconds = Int64(text), (0...7_000_000_000).contains(seconds) else {
            throw Failure("\(name) has the bad value '\(visible(text))': expected seconds since 1970")
        }
        return String(Timestamp(rawValue: seconds * 1_000_000_000).description.prefix(10))
    }

    var text: String {
        var page = Roff()
        page.line(".TH ZGUARD 1 \"\(date)\" \(Roff.quoted("zguard \(zombieGuardVersion)")) \"User Commands\"")
        page.section("NAME")
        page.paragraph("zguard - find use of freed memory in programs, without recompiling them")
        page.section("SYNOPSIS")
        page.line("\(Roff.bold("zguard")) \(Roff.italic("COMMAND")) [\(Roff.italic("OPTION"))]...")
        page.section("DESCRIPTION")
        page.text(Self.description)
        page.section("COMMANDS")
        for command in Command.all { add(command, to: &page) }
        page.section("OPTIONS OF THE RUNTIME")
        page.paragraph(
            "Given with -o KEY=VALUE, or in ZGUARD_OPTIONS as KEY=VALUE:KEY=VALUE. A profile sets several of them.")
        for option in OptionTable.options {
            let initial = option.initialText.isEmpty ? "" : " The default is \(option.initialText)."
            page.item(
                "\(Roff.bold(option.name))=\(Roff.italic(option.rangeText))",
                option.text.capitalizedFirst + "." + initial)
        }
        page.section("ENVIRONMENT")
        for (name, text) in Self.environment { page.item(Roff.bold(name), text) }
        page.section("FILES")
        for (name, text) in Self.files { page.item(Roff.italic(name), text) }
        page.section("EXIT STATUS")
        page.paragraph("Of zguard run:")
        for (status, text) in Self.statuses { page.item(Roff.bold(status), text) }
        page.paragraph("Other commands end with 0, with 1 where something failed, and with 64 for a wrong call.")
        page.section("EXAMPLES")
        for (call, text) in Self.examples { page.item(Roff.bold(call), text) }
        page.section("SEE ALSO")
        page.line(".BR gdb (1),\n.BR valgrind (1),\n.BR ld.so (8)")
        return page.result
    }

    private func add(_ command: Command, to page: inout Roff) {
        page.line(".SS \(Roff.quoted(command.name))")
        let words = HelpText.words(of: command)
        page.line(([Roff.bold(words[0])] + words.dropFirst().map(Roff.escaped)).joined(separator: "\n"))
        page.paragraph(command.text.capitalizedFirst + ".")
        for flag in command.flags {
            var tag = Roff.bold(flag.name)
            switch flag.value {
            case .none: break
            case .required(let placeholder): tag += " " + Roff.italic(placeholder)
            case .optionalNumber(let placeholder): tag += " [\(Roff.italic(placeholder))]"
            case .choice(let choices): tag += " " + choices.map(Roff.italic).joined(separator: "|")
            }
            page.item(tag, flag.text.capitalizedFirst + "." + (flag.repeats ? " May be given several times." : ""))
        }
    }

    private static let description = [
        """
        zguard starts a program with a library preloaded that keeps freed memory from being used again for a while and \
        notices who touches it, frees it twice, or frees what was never allocated. Each bug becomes a finding: one sentence \
        that says what was done to what, and the stacks of the access, the free and the allocation. Of objects of Swift and \
        C++ classes, the class and the member are named.
        """,
        """
        The program need not be recompiled; it has to be linked dynamically, and must not be setuid. Findings are printed \
        to standard error, or written to a report. Every command takes --help.
        """,
    ]

    private static let environment = [
        ("ZGUARD_OPTIONS", "Options of the runtime, KEY=VALUE:KEY=VALUE. Those given with -o override them."),
        ("ZGUARD_LIBRARY", "Path of libzguard.so, where it does not lie where zguard was installed."),
        ("TMPDIR", "Directory for temporary files."),
    ]

    private static let files = [
        (
            "DIR/TIME-PROGRAM-PID-SUFFIX.jsonl",
            """
            The report of one run, where --report names a directory: findings as JSON lines. TIME is when the run began, in \
            UTC, and PID the process id of zguard. Compressed reports end in .jsonl.gz. Runs without findings leave no file. \
            Old reports are removed, see --keep-age; other files in the directory never are.
            """
        )
    ]

    private static let statuses = [
        ("0", "The program ended with 0 and nothing was found."),
        (
            String(ExitStatus.findings),
            "The program ended with 0, but there were findings; --exit-code sets another status."
        ),
        (String(ExitStatus.usage), "Wrong call, or the report cannot be written."),
        (String(ExitStatus.cannotGuard), "The program cannot be guarded."),
        (String(ExitStatus.cannotRun), "The program cannot be run."),
        (String(ExitStatus.notFound), "The program is not found."),
        ("other", "The program's own status; 128 and the number of the signal where a signal ended it."),
    ]

    private static let examples = [
        ("zguard run -- ./server --port 8080", "Guard a program, and print what is found."),
        (
            "zguard run --profile fence --report reports/ --compress -- make test",
            "Guard a test run and all that it starts, and keep the reports of the last week in a directory."
        ), ("zguard report --since 2d reports/", "Print the findings of the last two days, equal ones once."),
        ("zguard stats --watch", "Show all guarded processes, every two seconds."),
    ]
}

extension String {
    /// With its first letter in upper case.
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
