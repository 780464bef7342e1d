// Generates the help texts from the table of commands.

import ZombieGuard

enum HelpText {
    /// The synopsis, such as "zguard run [--quiet] … PROGRAM [ARG…]".
    static func synopsis(of command: Command) -> String { words(of: command).joined(separator: " ") }

    /// The parts of the synopsis that must not be split over lines, such as "zguard run" and "[--report PATH]".
    static func words(of command: Command) -> [String] {
        var words = ["zguard \(command.name)"]
        words += command.flags.map { "[\($0.synopsis)]" + ($0.repeats ? "…" : "") }
        if command.takesProgram { words.append("--") }
        if !command.operands.isEmpty { words.append(command.operands) }
        return words
    }

    static var overview: String {
        var text =
            "zguard \(zombieGuardVersion): finds use-after-free, double-free and invalid-free in unmodified Linux programs\n\n"
        text += "usage: zguard COMMAND [OPTION…]\n\n"
        text += table(Command.all.map { ["  " + $0.name + ($0.operands.isEmpty ? "" : " \($0.operands)"), $0.text] })
        text += "\nRun 'zguard COMMAND --help' for the options of a command.\n"
        return text
    }

    static func text(of command: Command) -> String {
        var text = "usage: \(synopsis(of: command))\n\n\(command.text)\n\n"
        text += table((command.flags + [Command.help]).map { ["  " + $0.synopsis, $0.text] })
        return text
    }

    static func run(_ arguments: Arguments) throws -> Int32 {
        if arguments.has("--man") {
            guard arguments.operands.isEmpty else {
                throw Failure.usage("option '--man' takes no command: there is one page")
            }
            Output.out(ManPage(date: try ManPage.date()).text)
            return ExitStatus.success
        }
        Output.out(try arguments.operands.first.map { text(of: try Command.named($0)) } ?? overview)
        return ExitStatus.success
    }
}

extension HelpText {
    static let command = Command(
        name: "help", operands: "[COMMAND]", operandCount: 0...1, text: "show help for zguard, or for one command",
        flags: [Flag(name: "--man", text: "print the man page (roff)")],
        run: { try HelpText.run($0) })
}
