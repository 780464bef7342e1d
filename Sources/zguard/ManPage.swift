// Generates the manual page from the tables of commands and options.

import Glibc
import ZombieGuard

struct ManPage {
    /// Date of the page, such as "2026-11-21".
    let date: String

    /// The date of SOURCE_DATE_EPOCH if set, for reproducible builds, else today.
    static func date() throws(Failure) -> String {
        let name = "SOURCE_DATE_EPOCH"
        guard let text = Preload.environment(name) else { return String(Timestamp.now.description.prefix(10)) }
        guard let seconds = Int64(digits: text), (0...7_000_000_000).contains(seconds) else {
            throw Failure("\(name) has the bad value '\(visible(text))': expected seconds since 1970")
        }
        return String(Timestamp(rawValue: seconds * 1_000_000_000).description.prefix(10))
    }

    var text: String {
        var page = Roff()
        page.line(".TH ZGUARD 1 \"\(date)\" \(Roff.quoted("zguard \(zombieGuardVersion)")) \"User Commands\"")
        page.section("NAME")
        page.paragraph("zguard - find use-after-free, double-free and invalid-free in unmodified programs")
        page.section("SYNOPSIS")
        page.line("\(Roff.bold("zguard")) \(Roff.italic("COMMAND")) [\(Roff.italic("OPTION"))]...")
        page.section("DESCRIPTION")
        page.text(Self.description)
        page.section("COMMANDS")
        for command in Command.all { add(command, to: &page) }
        page.section("RUNTIME OPTIONS")
        page.paragraph(
            "Set these with -o KEY=VALUE, or in ZGUARD_OPTIONS as KEY=VALUE:KEY=VALUE. A profile sets several of them.")
        for (title, options) in OptionsCommand.grouped(OptionTable.options.filter(\.isShown)) {
            page.line(".SS \(Roff.quoted(title))")
            for option in options { add(option, to: &page) }
        }
        page.line(".SS \(Roff.quoted("Options for tests and special machines"))")
        for option in OptionTable.options where !option.isShown { add(option, to: &page) }
        page.section("ENVIRONMENT")
        for (name, text) in Self.environment { page.item(Roff.bold(name), text) }
        page.section("FILES")
        for (name, text) in Self.files { page.item(Roff.italic(name), text) }
        page.section("EXIT STATUS")
        page.paragraph("Exit status of zguard run:")
        for (status, text) in Self.statuses { page.item(Roff.bold(status), text) }
        page.paragraph("The other commands exit with 0, with 1 if something failed, and with 64 for wrong usage.")
        page.section("EXAMPLES")
        for (call, text) in Self.examples { page.item(Roff.bold(call), text) }
        page.section("SEE ALSO")
        page.line(".BR gdb (1),\n.BR valgrind (1),\n.BR ld.so (8)")
        return page.result
    }

    private func add(_ option: OptionTable.Option, to page: inout Roff) {
        let initial = option.initialText.isEmpty ? "" : " The default is \(option.initialText)."
        page.item(
            "\(Roff.bold(option.name))=\(Roff.italic(option.rangeText))",
            OptionsCommand.sentences(option) + initial)
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
        zguard runs a program with a preloaded library that replaces malloc and free. The library keeps freed memory \
        in quarantine and detects accesses to it, double frees, and frees of memory that was never allocated. Each bug \
        becomes a finding: one sentence that says what happened, followed by the stacks of the access, the free and the \
        allocation. For Swift and C++ objects, findings name the class and the member.
        """,
        """
        The program does not have to be recompiled. It must be dynamically linked and must not be setuid. Findings are \
        printed to standard error or written to a report. Every command accepts --help.
        """,
    ]

    private static let environment = [
        ("ZGUARD_OPTIONS", "Runtime options, as KEY=VALUE:KEY=VALUE. Options given with -o override them."),
        ("ZGUARD_LIBRARY", "Path of libzguard.so, if it is not where zguard was installed."),
        ("TMPDIR", "Directory for temporary files."),
    ]

    private static let files = [
        (
            "DIR/TIME-PROGRAM-PID-SUFFIX.jsonl",
            """
            The report of one run, as JSON lines, if --report names a directory. TIME is the start of the run in UTC, \
            PID the process id of zguard. Compressed reports end in .jsonl.gz. Runs without findings leave no file. Old \
            reports are deleted (see --keep-age); other files in the directory never are.
            """
        )
    ]

    private static let statuses = [
        ("0", "The program exited with 0 and nothing was found."),
        (
            String(ExitStatus.findings),
            "The program exited with 0, but there were findings; --exit-code sets another status."
        ),
        (String(ExitStatus.usage), "Wrong usage, or the report cannot be written."),
        (String(ExitStatus.cannotGuard), "The program cannot be guarded."),
        (String(ExitStatus.cannotRun), "The program cannot be run."),
        (String(ExitStatus.notFound), "The program was not found."),
        ("other", "The program's own status, or 128 plus the signal number if a signal ended it."),
    ]

    private static let examples = [
        ("zguard run -- ./server --port 8080", "Guard a program and print the findings."),
        (
            "zguard run --profile fence --report reports/ --compress -- make test",
            "Guard a test run and everything it starts, and keep a week of reports in a directory."
        ), ("zguard report --since 2d reports/", "Print the findings of the last two days, merging equal ones."),
        ("zguard stats --watch", "Show all guarded processes, refreshed every two seconds."),
    ]
}

extension String {
    /// The string with its first letter in upper case.
    var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
