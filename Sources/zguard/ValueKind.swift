// What stands behind the placeholders of the table of commands: what shells offer there.

import ZombieGuard

/// What a value or an operand is.
enum ValueKind: Hashable, Sendable {
    /// Nothing that could be listed, such as a number.
    case text
    case file, directory
    /// A program, found by name or by path.
    case program
    /// The id of a guarded process.
    case process
    /// The name of a command.
    case command
    /// KEY=VALUE of the runtime's options.
    case setting
    case choice([String])

    private static let placeholders: [String: ValueKind] = [
        "PATH": .file, "FILE": .file, "CORE": .file, "DIR": .directory, "PROGRAM": .program, "PID": .process,
        "COMMAND": .command, "KEY=VALUE": .setting, "ARG": .file, "N": .text, "SECONDS": .text, "AGE": .text,
        "SIZE": .text, "PERCENT": .text, "TEXT": .text, "PLACE": .file, "STORE": .file,
        "ADDRESS": .text,
    ]

    /// What a placeholder stands for: "PATH", "PID-or-CORE", or words to choose from, "bash|zsh". nil for one that is not known.
    static func kinds(of placeholder: String) -> [ValueKind]? {
        let parts = placeholder.replacing("-or-", with: "|").split(separator: "|").map(String.init)
        if !parts.isEmpty, parts.allSatisfy({ $0.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" } }) {
            return [.choice(parts)]
        }
        let kinds = parts.compactMap { placeholders[$0] }
        return kinds.count == parts.count && !kinds.isEmpty ? kinds : nil
    }
}

/// An operand of a command, as its synopsis names it.
struct Operand: Hashable, Sendable {
    var placeholder: String
    var isOptional: Bool
    var repeats: Bool

    var kinds: [ValueKind] { ValueKind.kinds(of: placeholder) ?? [.text] }
}

extension Command {
    /// "PID [ADDRESS…]" taken apart.
    var operandList: [Operand] {
        operands.split(separator: " ").map { word in
            let name = word.filter { !"[]…".contains($0) }
            return Operand(
                placeholder: name, isOptional: word.hasPrefix("["), repeats: word.contains("…"))
        }
    }

    /// Its own flags, and the one that every command has.
    var allFlags: [Flag] { flags + [Self.help] }
}

extension Flag {
    /// What its value is; nil where it takes none.
    var valueKinds: [ValueKind]? {
        switch value {
        case .none: nil
        case .required(let placeholder), .optionalNumber(let placeholder): ValueKind.kinds(of: placeholder) ?? [.text]
        case .choice(let choices): [.choice(choices)]
        }
    }

    /// The word that stands for its value in the synopsis; nil where it takes none.
    var placeholder: String? {
        switch value {
        case .none: nil
        case .required(let placeholder), .optionalNumber(let placeholder): placeholder
        case .choice(let choices): choices.joined(separator: "|")
        }
    }

    /// The next word belongs to it; of an optional number only where it is one.
    var needsValue: Bool {
        switch value {
        case .none, .optionalNumber: false
        case .required, .choice: true
        }
    }

    var takesNumber: Bool { if case .optionalNumber = value { true } else { false } }
}
