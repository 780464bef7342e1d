// The table of commands and flags, from which parser, help, manual page and completions are generated.

import ZombieGuard

/// A flag of a command.
struct Flag: Sendable {
    enum Value: Sendable {
        case none
        case required(String)
        /// An optional value: the next word if it is a number, or the text after an equals sign.
        case optionalNumber(String)
        case choice([String])
    }

    var name: String
    var value: Value = .none
    var repeats = false
    var text: String

    /// The flag with its placeholder, such as "--report PATH".
    var synopsis: String {
        switch value {
        case .none: name
        case .required(let placeholder): "\(name) \(placeholder)"
        case .optionalNumber(let placeholder): "\(name) [\(placeholder)]"
        case .choice(let choices): "\(name) \(choices.joined(separator: "|"))"
        }
    }
}

/// A command.
struct Command: Sendable {
    var name: String
    /// Operands in the synopsis, such as "PATH…".
    var operands = ""
    var operandCount: ClosedRange<Int> = 0...0
    /// Whether the first operand is a program, which gets all words after it.
    var takesProgram = false
    var text: String
    var flags: [Flag] = []
    var run: @Sendable (Arguments) throws -> Int32

    static let help = Flag(name: "--help", text: "show this help")

    static let all: [Command] = [
        Command(
            name: "run", operands: "PROGRAM [ARG…]", operandCount: 1...Int.max, takesProgram: true,
            text: "run a program with guarding on, and print the findings",
            flags: [
                Flag(name: "--profile", value: .choice(profiles), text: "preset of runtime options"),
                Flag(
                    name: "-o", value: .required("KEY=VALUE"), repeats: true,
                    text: "set a runtime option; 'zguard options' lists them"),
                Flag(
                    name: "--collect", value: .required("crashes|stalls"),
                    text:
                        "also report, separated by commas: crashes (signals that end the program, with all its threads), stalls (threads that should wait for events and do not)"
                ),
                Flag(
                    name: "--report", value: .required("PATH"),
                    text: "write findings to a file, or to a directory that serves as report store"),
                Flag(
                    name: "--format", value: .choice(ReportFormat.available),
                    text:
                        "output format: text (default), json (JSON lines, default with --report), sarif, html, junit (XML) or github (annotations)"
                ),
                suppressions, full, symbols,
                Flag(
                    name: "--exit-code", value: .required("N"),
                    text: "exit status if there were findings and the program itself exited with 0 (default 99)"),
                Flag(
                    name: "--require-coverage", value: .required("PERCENT"),
                    text:
                        "exit with 98 if less of the allocation stacks was watched, such as 90%, and nothing else went wrong"
                ),
                Flag(
                    name: "--keep-age", value: .required("AGE"),
                    text: "delete older reports in the directory, such as 12h; none: keep all (default 7d)"),
                Flag(
                    name: "--keep-count", value: .required("N"),
                    text: "keep at most N reports; none: no limit (default 1000)"),
                Flag(
                    name: "--keep-bytes", value: .required("SIZE"),
                    text: "keep at most SIZE of reports, such as 1g; none: no limit (default 256m)"),
                keepShare,
                Flag(name: "--compress", text: "compress the report in the directory when the program exits"),
                Flag(name: "--quiet", text: "do not print the closing line"),
            ], run: { try RunCommand($0).run() }),
        Command(
            name: "stats", operands: "[PID]", operandCount: 0...1,
            text: "show statistics of all guarded processes, or of one",
            flags: [
                Flag(
                    name: "--watch", value: .optionalNumber("SECONDS"),
                    text: "refresh every SECONDS seconds (default 2)"),
                Flag(name: "--json", text: "print one line of JSON"),
                Flag(name: "--prometheus", text: "print in the Prometheus text format"),
            ], run: { try StatsCommand($0).run() }),
        Command(
            name: "report", operands: "PATH…", operandCount: 1...Int.max,
            text:
                "merge and print reports, raw or finished, directories of reports, databases (sqlite:FILE, postgresql://…), and what core files say of a crash (coredump:PID and coredump:PROGRAM are those that systemd has kept)",
            flags: [
                format, suppressions,
                Flag(name: "--suggest", text: "print suppression rules for the findings instead of the findings"),
                Flag(
                    name: "--since", value: .required("AGE"),
                    text: "only findings since then: 2d, 12h, 2026-11-20, 2026-11-20T10:00Z"),
                Flag(
                    name: "--kind", value: .required("TEXT"), text: "only findings of this kind, such as use-after-free"
                ),
                Flag(
                    name: "--program", value: .required("PATH"),
                    text: "only findings of this program: its path or its name; of a core file, where its executable is"
                ),
                Flag(name: "--host", value: .required("TEXT"), text: "only findings of this machine"),
                Flag(name: "--signature", value: .required("TEXT"), text: "only the findings with this signature"),
                Flag(
                    name: "--new-since", value: .required("TEXT"),
                    text: "only bugs that no version of the program before this one had"),
                Flag(
                    name: "--tenant", value: .required("TEXT"), text: "whose findings in a database (default: default)"),
                full, symbols,
            ],
            run: { try ReportCommand($0).run() }),
        Command(
            name: "collect",
            text: "ship the findings of complete reports to another directory, a database or a server, each once",
            flags: [
                Flag(name: "--from", value: .required("DIR"), repeats: true, text: "directory of reports"),
                Flag(
                    name: "--to", value: .required("PLACE"), repeats: true,
                    text: "directory, sqlite:FILE, postgresql://…, https://… (JSON lines) or otlp+https://…"),
                Flag(
                    name: "--watch", value: .optionalNumber("SECONDS"),
                    text: "look again every SECONDS seconds (default 10), for ever"),
                Flag(name: "--tenant", value: .required("TEXT"), text: "whose findings these are (default: default)"),
                Flag(name: "--host", value: .required("TEXT"), text: "name of this machine (default: its own)"),
                Flag(name: "--program-version", value: .required("TEXT"), text: "version of the programs"),
                Flag(name: "--redact", value: .required("FILE"), text: "cut what the rules in this file name"),
                keepShare,
                Flag(
                    name: "--keep-age", value: .required("AGE"),
                    text: "delete what is older at the destination, such as 30d (default: keep all)"),
                Flag(
                    name: "--keep-count", value: .required("N"),
                    text: "keep at most N reports in a destination that is a directory"),
                Flag(
                    name: "--keep-bytes", value: .required("SIZE"),
                    text: "keep at most SIZE of reports in a destination that is a directory"),
                Flag(name: "--quiet", text: "do not say what was sent"),
            ], run: { try CollectCommand($0).run() }),
        Command(
            name: "serve", operands: "STORE", operandCount: 1...1,
            text: "show a directory of reports, or a database, as web pages on this machine",
            flags: [
                Flag(
                    name: "--port", value: .required("N"), text: "port on 127.0.0.1 (default 7070); 0: one that is free"
                ),
                symbols,
            ], run: { try ServeCommand($0).run() }),
        Command(
            name: "check", operands: "PID", operandCount: 1...1,
            text: "verify the freed blocks, and the gaps around live ones, of a running process now",
            flags: [format, suppressions, full, symbols],
            run: { try CheckCommand($0).run() }),
        Command(
            name: "history", operands: "PID|CORE ADDRESS", operandCount: 2...2,
            text: "show what is, or was, at an address in a process or core file",
            flags: [
                Flag(
                    name: "--format", value: .choice(["text", "json"]),
                    text: "output format: text (default) or json (one object)"),
                full, symbols,
            ],
            run: { try HistoryCommand($0).run() }),
        Command(
            name: "trim", operands: "PID", operandCount: 1...1, text: "make a process return memory to the kernel now",
            run: { try TrimCommand($0).run() }),
        Command(
            name: "options", text: "list the runtime options",
            flags: [
                Flag(name: "--json", text: "print as JSON"),
                Flag(name: "--markdown", text: "print as a Markdown table"),
            ],
            run: { try OptionsCommand($0).run() }),
        Command(
            name: "doctor", text: "check what this machine supports and whether guarding works",
            run: { _ in DoctorCommand().run() }),
        Command(
            name: "completions", operands: CompletionsCommand.Shell.operands, operandCount: 1...1,
            text: "print the completion script for a shell", run: { try CompletionsCommand($0).run() }),
        Command(name: "version", text: "print the version, the processor and the Swift that it was built for") { _ in
            Output.out(
                "zguard \(zombieGuardVersion) (\(zombieGuardArchitecture), Swift \(zombieGuardSwiftVersion))\n")
            return ExitStatus.success
        },
        Command(
            name: "help", operands: "[COMMAND]", operandCount: 0...1, text: "show help for zguard, or for one command",
            flags: [Flag(name: "--man", text: "print the man page (roff)")],
            run: { try HelpText.run($0) }),
    ]

    // Flags shared by several commands.
    private static let format = Flag(
        name: "--format", value: .choice(ReportFormat.available),
        text: "output format: text (default), json (JSON lines), sarif, html, junit (XML) or github (annotations)")
    private static let suppressions = Flag(
        name: "--suppressions", value: .required("FILE"), repeats: true,
        text: "hide findings that the rules in this file match")
    private static let keepShare = Flag(
        name: "--keep-share", value: .required("PERCENT"),
        text: "of equal findings, after the first 100, keep the stacks of this share, such as 10%; count all")
    private static let full = Flag(name: "--full", text: "show every frame, including those of the language runtimes")
    private static let symbols = Flag(
        name: "--symbols", value: .required("DIR"), repeats: true,
        text: "also look here for programs, libraries and debug files")

    private static let profiles = OptionTable.options.first { $0.name == "profile" }?.choices ?? []
}

/// Output format of findings.
enum ReportFormat: String, CaseIterable, Sendable {
    case text, json, sarif, html, junit, github

    static let available = allCases.map(\.rawValue)
    /// Whether findings are written one by one as they arrive. Other formats are written at the end.
    var isStreamed: Bool { self == .text || self == .json || self == .github }
}
