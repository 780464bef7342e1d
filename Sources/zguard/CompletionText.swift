// Shared by the completion scripts of all shells: rows from the tables of commands and options, and quoting.

import ZombieGuard

enum CompletionText {
    /// Names and descriptions of the commands.
    static var commands: [(name: String, text: String)] { Command.all.map { ($0.name, $0.text) } }

    /// Names, descriptions and value kinds of the runtime options that completions offer.
    static var settings: [(name: String, text: String, kind: ValueKind)] {
        OptionTable.options.filter(\.isShown).map { option in
            switch option.kind {
            case .choice, .words: (option.name, option.text, .choice(option.choices))
            case .bool: (option.name, option.text, .choice(["0", "1"]))
            case .path: (option.name, option.text, .file)
            case .number, .bytes, .percent, .names: (option.name, option.text, .text)
            }
        }
    }

    /// Quotes a text as one word of bash, zsh or another POSIX-like shell.
    static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }

    /// The first line of every script, without the comment sign.
    static func heading(_ shell: CompletionsCommand.Shell) -> String {
        "Completions of zguard \(zombieGuardVersion) for \(shell); made by 'zguard completions \(shell)'."
    }
}
