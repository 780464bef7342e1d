// What the scripts for all shells share: the rows that the tables make, and quoting.

import ZombieGuard

enum CompletionText {
    /// A command's name and text, as all shells list them.
    static var commands: [(name: String, text: String)] { Command.all.map { ($0.name, $0.text) } }

    /// The runtime's options with the values that can be listed.
    static var settings: [(name: String, text: String, kind: ValueKind)] {
        OptionTable.options.map { option in
            switch option.kind {
            case .choice, .words: (option.name, option.text, .choice(option.choices))
            case .bool: (option.name, option.text, .choice(["0", "1"]))
            case .path: (option.name, option.text, .file)
            case .number, .bytes, .percent, .names: (option.name, option.text, .text)
            }
        }
    }

    /// The text as one word of bash, zsh or any other shell of that family.
    static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }

    /// The line that every script begins with, behind its marks.
    static func heading(_ shell: CompletionsCommand.Shell) -> String {
        "Completions of zguard \(zombieGuardVersion) for \(shell); made by 'zguard completions \(shell)'."
    }
}
