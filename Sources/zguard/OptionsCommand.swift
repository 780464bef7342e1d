// zguard options: prints the table of runtime options, or describes single ones.

import ZombieGuard

struct OptionsCommand {
    private let asJSON: Bool
    private let asMarkdown: Bool
    private let all: Bool
    private let names: [String]

    init(_ arguments: Arguments) throws(Failure) {
        asJSON = arguments.has("--json")
        asMarkdown = arguments.has("--markdown")
        all = arguments.has("--all")
        names = arguments.operands
        if asJSON, asMarkdown { throw .usage("options '--json' and '--markdown' exclude each other") }
        if !names.isEmpty, asJSON || asMarkdown || all {
            throw .usage("names of options exclude '--all', '--json' and '--markdown'")
        }
        for name in names where OptionTable.option(name) == nil {
            throw .usage("unknown option '\(visible(name))'", hint: "'zguard options --all' lists them")
        }
    }

    func run() -> Int32 {
        let options = OptionTable.options
        let listed = options.filter { all || $0.isShown }
        if asJSON {
            Output.out(JSONText.array(options.map(Self.json)).line + "\n")
        } else if asMarkdown {
            Output.out(Self.markdown(listed))
        } else if names.isEmpty {
            Output.out(Self.text(listed))
        } else {
            Output.out(names.compactMap(OptionTable.option).map(Self.description).joined(separator: "\n"))
        }
        return ExitStatus.success
    }

    /// The options by group, in the order of the table. Groups without options are left out.
    static func grouped(_ options: [OptionTable.Option]) -> [(title: String, options: [OptionTable.Option])] {
        OptionTable.groups.map { title in (title, options.filter { $0.group == title }) }.filter { !$0.1.isEmpty }
    }

    /// One table for each group, with the same column widths.
    static func text(_ options: [OptionTable.Option]) -> String {
        let head = ["OPTION", "DEFAULT", "RANGE", "WHAT IT DOES"]
        let groups = grouped(options)
        let rows = groups.flatMap { $0.options.map { [$0.name, $0.initialText, $0.rangeText, $0.text] } }
        var lines = table([head] + rows).split(separator: "\n")[...]
        var text = "\(lines.removeFirst())\n"
        for (title, options) in groups {
            text += "\n\(title)\n" + lines.prefix(options.count).map { "\($0)\n" }.joined()
            lines = lines.dropFirst(options.count)
        }
        return text
    }

    /// Everything about one option.
    static func description(_ option: OptionTable.Option) -> String {
        """
        \(option.name)=\(option.rangeText)
          \(sentences(option))
          Default: \(option.initialText.isEmpty ? "none" : option.initialText). Group: \(option.group).

        """
    }

    /// The text and the details as sentences.
    static func sentences(_ option: OptionTable.Option) -> String {
        option.text.capitalizedFirst + "." + (option.details.isEmpty ? "" : " " + option.details)
    }

    static func json(_ option: OptionTable.Option) -> JSONText {
        let isNumeric = option.kind == .number || option.kind == .bytes || option.kind == .bool
        return .object([
            ("name", .string(option.name)), ("kind", .string(option.kind.rawValue)),
            ("default", isNumeric ? .integer(option.initial) : .string(option.initialText)),
            ("least", isNumeric ? .integer(option.least) : nil), ("most", isNumeric ? .integer(option.most) : nil),
            (
                "choices",
                option.kind == .choice || option.kind == .words ? .array(option.choices.map { .string($0) }) : nil
            ),
            ("group", .string(option.group)), ("shown", .bool(option.isShown)), ("text", .string(option.text)),
            ("details", option.details.isEmpty ? nil : .string(option.details)),
        ])
    }

    /// A section with a table for each group. The table shows the details as well.
    static func markdown(_ options: [OptionTable.Option]) -> String {
        func cell(_ text: String) -> String { text.replacing("|", with: "\\|") }
        func code(_ text: String) -> String { text.isEmpty ? "" : "`\(cell(text))`" }
        return grouped(options).map { title, options in
            var text = "## \(title)\n\n| option | default | range | what it does |\n|---|---|---|---|\n"
            for option in options {
                text += "| `\(option.name)` | \(code(option.initialText)) | \(code(option.rangeText)) "
                text += "| \(cell(sentences(option))) |\n"
            }
            return text
        }.joined(separator: "\n")
    }
}

extension OptionsCommand {
    static let command = Command(
        name: "options", operands: "[OPTION…]", operandCount: 0...Int.max,
        text: "list the runtime options, or describe some of them",
        flags: [
            Flag(name: "--all", text: "also list the options for tests and special machines"),
            Flag(name: "--json", text: "print all options as JSON"),
            Flag(name: "--markdown", text: "print as Markdown tables"),
        ],
        run: { try OptionsCommand($0).run() })
}
