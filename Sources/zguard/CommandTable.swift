// The one table of commands and flags. Parser and help come from it.

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
                Flag(name: "--report", value: .required("PATH"), text: "write findings to this file"),
                Flag(
                    name: "--format", value: .choice(ReportFormat.available),
                    text: "form of the findings: text, or json lines (default with --report)"),
                Flag(
                    name: "--exit-code", value: .required("N"),
                    text: "exit status where the program ended with 0 but there were findings (default 99)"),
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
            text: "print raw or finished reports, equal findings once",
            flags: [
                Flag(name: "--format", value: .choice(ReportFormat.available), text: "text (default) or json lines")
            ],
            run: { try ReportCommand($0).run() }),
        Command(
            name: "check", operands: "PID", operandCount: 1...1,
            text: "verify the freed blocks that a process holds, now",
            flags: [
                Flag(name: "--format", value: .choice(ReportFormat.available), text: "text (default) or json lines")
            ],
            run: { try CheckCommand($0).run() }),
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
        Command(name: "version", text: "print the version") { _ in
            Output.out("zguard \(zombieGuardVersion)\n")
            return ExitStatus.success
        },
        Command(
            name: "help", operands: "[COMMAND]", operandCount: 0...1, text: "show help",
            run: { try HelpText.run($0) }),
    ]

    private static let profiles = OptionTable.options.first { $0.name == "profile" }?.choices ?? []
}

/// The form in which findings are written.
enum ReportFormat: String, CaseIterable, Sendable {
    case text, json

    static let available = allCases.map(\.rawValue)
    /// Known forms that this version does not have.
    static let later = ["sarif", "html"]
}
