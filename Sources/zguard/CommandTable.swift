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

// Flags of several commands.
extension Flag {
    static let format = Flag(
        name: "--format", value: .choice(ReportFormat.available),
        text: "output format: text (default), json (JSON lines), sarif, html, junit (XML) or github (annotations)")
    static let objectFormat = Flag(
        name: "--format", value: .choice(["text", "json"]), text: "output format: text (default) or json (one object)")
    static let suppressions = Flag(
        name: "--suppressions", value: .required("FILE"), repeats: true,
        text: "hide findings that the rules in this file match")
    static let keepShare = Flag(
        name: "--keep-share", value: .required("PERCENT"),
        text: "of equal findings, after the first 100, keep the stacks of this share, such as 10%; count all")
    static let full = Flag(name: "--full", text: "show every frame, including those of the language runtimes")
    static let symbols = Flag(
        name: "--symbols", value: .required("DIR"), repeats: true,
        text: "also search this directory for programs, libraries and debug files")
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

    /// Every command, in the order of the help text. Each is defined in its own file.
    static let all: [Command] = [
        RunCommand.command, StatsCommand.command, ReportCommand.command, CoverageCommand.command,
        CollectCommand.command, ServeCommand.command, TokenCommand.command, TriageCommand.command,
        AlertsCommand.command, SymbolsCommand.command,
        CheckCommand.command, HistoryCommand.command, HeapCommand.command, LeaksCommand.command,
        DanglingCommand.command, TrimCommand.command, OptionsCommand.command,
        DoctorCommand.command, CompletionsCommand.command, version, HelpText.command,
    ]

    /// Commands that other parts of ZombieGuard start. Help, manual and completions leave them out.
    static let internals: [Command] = [TestHeapCommand.command]

    private static let version = Command(
        name: "version", text: "print the version, the architecture and the Swift version of the build"
    ) { _ in
        Output.out(
            "zguard \(zombieGuardVersion) (\(zombieGuardArchitecture), Swift \(zombieGuardSwiftVersion))\n")
        return ExitStatus.success
    }
}

/// Output format of findings.
enum ReportFormat: String, CaseIterable, Sendable {
    case text, json, sarif, html, junit, github

    static let available = allCases.map(\.rawValue)
    /// Whether findings are written one by one as they arrive. Other formats are written at the end.
    var isStreamed: Bool { self == .text || self == .json || self == .github }
}
