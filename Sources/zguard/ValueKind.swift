// Maps placeholders of the command table to the kinds of values that shell completion offers.

import ZombieGuard

/// The kind of a flag's value or an operand.
enum ValueKind: Hashable, Sendable {
    /// A value without completions, such as a number.
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
        "SIZE": .text, "PERCENT": .text, "TEXT": .text, "PLACE": .file, "STORE": .file, "FINDING": .file,
        "SIGNATURE": .text, "STATE": .text, "VERSION": .text, "TIME": .text, "NAME": .text,
        "ACTION": .choice(TriageCommand.actions),
        "ADDRESS": .text, "CERT,KEY": .file, "ROLE": .text,
        "OPTION": .choice(OptionTable.options.filter(\.isShown).map(\.name)),
    ]

    /// The kinds of a placeholder such as "PATH", "PID-or-CORE", or a choice of words "bash|zsh", each once; nil if
    /// unknown. Beside other kinds, `text` is left out: it adds no completions.
    static func kinds(of placeholder: String) -> [ValueKind]? {
        let parts = placeholder.replacing("-or-", with: "|").split(separator: "|").map(String.init)
        if !parts.isEmpty, parts.allSatisfy({ $0.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "-" } }) {
            return [.choice(parts)]
        }
        var kinds: [ValueKind] = []
        for part in parts {
            guard let kind = placeholders[part] else { return nil }
            if !kinds.contains(kind) { kinds.append(kind) }
        }
        if kinds.count > 1 { kinds.removeAll { $0 == .text } }
        return kinds.isEmpty ? nil : kinds
    }
}

/// An operand in the synopsis of a command.
struct Operand: Hashable, Sendable {
    var placeholder: String
    var isOptional: Bool
    var repeats: Bool

    var kinds: [ValueKind] { ValueKind.kinds(of: placeholder) ?? [.text] }
}

extension Command {
    /// The operands of the synopsis, such as "PID [ADDRESS…]".
    var operandList: [Operand] {
        operands.split(separator: " ").map { word in
            let name = word.filter { !"[]…".contains($0) }
            return Operand(
                placeholder: name, isOptional: word.hasPrefix("["), repeats: word.contains("…"))
        }
    }

    /// The command's flags and `--help`.
    var allFlags: [Flag] { flags + [Self.help] }
}

extension Flag {
    /// Kinds of the flag's value; nil if the flag takes no value.
    var valueKinds: [ValueKind]? {
        switch value {
        case .none: nil
        case .required(let placeholder), .optionalNumber(let placeholder): ValueKind.kinds(of: placeholder) ?? [.text]
        case .choice(let choices): [.choice(choices)]
        }
    }

    /// Placeholder of the value in the synopsis; nil if the flag takes no value.
    var placeholder: String? {
        switch value {
        case .none: nil
        case .required(let placeholder), .optionalNumber(let placeholder): placeholder
        case .choice(let choices): choices.joined(separator: "|")
        }
    }

    /// Whether the next word always is the flag's value. False for an optional number.
    var needsValue: Bool {
        switch value {
        case .none, .optionalNumber: false
        case .required, .choice: true
        }
    }

    var takesNumber: Bool { if case .optionalNumber = value { true } else { false } }
}
