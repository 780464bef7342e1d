// zguard completions: prints the completion script for a shell.

import ZombieGuard

struct CompletionsCommand {
    /// A supported shell.
    enum Shell: String, CaseIterable {
        case bash, zsh, fish

        static let operands = allCases.map(\.rawValue).joined(separator: "|")
    }

    /// Operand with which the scripts themselves ask for the ids of guarded processes.
    static let processes = "processes"

    private let word: String

    init(_ arguments: Arguments) { word = arguments.operands[0] }

    func run() throws -> Int32 {
        if word == Self.processes {
            Output.out(Self.processList)
            return ExitStatus.success
        }
        guard let shell = Shell(rawValue: word) else {
            let shells = Shell.allCases.map(\.rawValue)
            throw Failure.usage(
                "there is no script for '\(visible(word))': expected \(alternatives(shells))",
                hint: nearestName(to: word, among: shells).map { "did you mean '\($0)'?" })
        }
        switch shell {
        case .bash: Output.out(BashCompletion().text)
        case .zsh: Output.out(ZshCompletion().text)
        case .fish: Output.out(FishCompletion().text)
        }
        return ExitStatus.success
    }

    /// Lines "PID<tab>name". In a name, all characters except letters, digits and some signs are replaced, so that a
    /// shell cannot interpret them.
    private static var processList: String {
        GuardedProcess.all().map { process in
            let file = try? Descriptor(opening: "/proc/\(process.processID)/comm")
            let bytes = (try? file?.read(upTo: 64))?.prefix { $0 != UInt8(ascii: "\n") } ?? []
            let name = bytes.map { isPlain($0) ? Character(Unicode.Scalar($0)) : "_" }
            return "\(process.processID)\t\(String(name))\n"
        }.joined()
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch Unicode.Scalar(byte) {
        case "a"..."z", "A"..."Z", "0"..."9", ".", "_", "+", "-": true
        default: false
        }
    }
}

extension CompletionsCommand {
    static let command = Command(
        name: "completions", operands: CompletionsCommand.Shell.operands, operandCount: 1...1,
        text: "print the completion script for a shell", run: { try CompletionsCommand($0).run() })
}
