// The one table of commands and flags. Parser, help, manual page and completions come from it.

import ZombieGuard

/// A flag of a command.
struct Flag: Sendable {
    enum Value: Sendable {
        case none
        case required(String)
        /// May follow as the next word where that is a number, or after an equals sign.
        case optionalNumber(String)
        case choice([String])
    }

    var name: String
    var value: Value = .none
    var repeats = false
    var text: String

    /// As in "--report PATH".
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
    /// As the synopsis shows them, such as "PATH…".
    var operands = ""
    var operandCount: ClosedRange<Int> = 0...0
    /// The first operand is a program: what follows it belongs to it.
    var takesProgram = false
    var text: String
    var flags: [Flag] = []
    var run: @Sendable (Arguments) throws -> Int32

    static let help = Flag(name: "--help", text: "show this help")

    static let all: [Command] = [
        Command(
            name: "run", operands: "PROGRAM [ARG…]", operandCount: 1...Int.max, takesProgram: true,
            text: "run a program guarded and print what is found",
            flags: [
                Flag(name: "--profile", value: .choice(profiles), text: "named set of option values"),
                Flag(
                    name: "-o", value: .required("KEY=VALUE"), repeats: true,
                    text: "an option of the runtime, see 'zguard options'"),
                Flag(
                    name: "--report", value: .required("PATH"),
                    text: "write findings to this file, or into this directory, the report store"),
                Flag(
                    name: "--format", value: .choice(ReportFormat.available),
                    text: "form of the findings: text (default), json lines (default with --report), sarif, html"),
                suppressions, full, symbols,
                Flag(
                    name: "--exit-code", value: .required("N"),
                    text: "exit status where the program ended with 0 but there were findings (default 99)"),
                Flag(
                    name: "--keep-age", value: .required("AGE"),
                    text: "remove older reports of the directory, such as 12h, or none (default 7d)"),
                Flag(name: "--keep-count", value: .required("N"), text: "keep so many reports, or none (default 1000)"),
                Flag(
                    name: "--keep-bytes", value: .required("SIZE"),
                    text: "keep so much of them, such as 1g, or none (default 256m)"),
                Flag(name: "--compress", text: "compress the report in the directory when the program ends"),
                Flag(name: "--quiet", text: "no closing line"),
            ], run: { try RunCommand($0).run() }),
        Command(
            name: "stats", operands: "[PID]", operandCount: 0...1,
            text: "show statistics of all guarded processes, or of one",
            flags: [
                Flag(name: "--watch", value: .optionalNumber("SECONDS"), text: "repeat (every 2 seconds)"),
                Flag(name: "--json", text: "as JSON, one line"),
                Flag(name: "--prometheus", text: "in the Prometheus text format"),
            ], run: { try StatsCommand($0).run() }),
        Command(
            name: "report", operands: "PATH…", operandCount: 1...Int.max,
            text: "print raw or finished reports, and directories of them, equal findings once",
            flags: [
                format, suppressions,
                Flag(name: "--suggest", text: "print a suppression for each finding instead of the finding"),
                Flag(
                    name: "--since", value: .required("AGE"),
                    text: "only what was found since then: 2d, 12h, 2026-11-20, 2026-11-20T10:00Z"),
                full, symbols,
            ],
            run: { try ReportCommand($0).run() }),
        Command(
            name: "check", operands: "PID", operandCount: 1...1,
            text: "verify the freed blocks that a process holds, now",
            flags: [format, suppressions, full, symbols],
            run: { try CheckCommand($0).run() }),
        Command(
            name: "history", operands: "PID|CORE ADDRESS", operandCount: 2...2,
            text: "say what is, or was, at an address of a process or core file",
            flags: [
                Flag(name: "--format", value: .choice(["text", "json"]), text: "text (default) or one JSON object"),
                full, symbols,
            ],
            run: { try HistoryCommand($0).run() }),
        Command(
            name: "trim", operands: "PID", operandCount: 1...1, text: "make a process give memory back, now",
            run: { try TrimCommand($0).run() }),
        Command(
            name: "options", text: "list the options of the runtime",
            flags: [Flag(name: "--json", text: "as JSON"), Flag(name: "--markdown", text: "as a Markdown table")],
            run: { try OptionsCommand($0).run() }),
        Command(
            name: "doctor", text: "say what this machine offers, and whether guarding works",
            run: { _ in DoctorCommand().run() }),
        Command(
            name: "completions", operands: CompletionsCommand.Shell.operands, operandCount: 1...1,
            text: "print the completions of zguard for a shell", run: { try CompletionsCommand($0).run() }),
        Command(name: "version", text: "print the version") { _ in
            Output.out("zguard \(zombieGuardVersion)\n")
            return ExitStatus.success
        },
        Command(
            name: "help", operands: "[COMMAND]", operandCount: 0...1, text: "show help",
            flags: [Flag(name: "--man", text: "print the manual page, as man takes it")],
            run: { try HelpText.run($0) }),
    ]

    // Flags that several commands have.
    private static let format = Flag(
        name: "--format", value: .choice(ReportFormat.available), text: "text (default), json lines, sarif or html")
    private static let suppressions = Flag(
        name: "--suppressions", value: .required("FILE"), repeats: true,
        text: "leave out what the rules in this file describe")
    private static let full = Flag(name: "--full", text: "show every frame, those of the runtime too")
    private static let symbols = Flag(
        name: "--symbols", value: .required("DIR"), repeats: true,
        text: "look for programs, libraries and debug files here as well")

    private static let profiles = OptionTable.options.first { $0.name == "profile" }?.choices ?? []
}

/// The form in which findings are written.
enum ReportFormat: String, CaseIterable, Sendable {
    case text, json, sarif, html

    static let available = allCases.map(\.rawValue)
    /// Whether each finding can be written when it is there; otherwise all are written at the end.
    var isStreamed: Bool { self == .text || self == .json }
}
