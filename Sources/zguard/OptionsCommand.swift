// zguard options: prints the table of runtime options.

import ZombieGuard

struct OptionsCommand {
    private let asJSON: Bool
    private let asMarkdown: Bool

    init(_ arguments: Arguments) throws(Failure) {
        asJSON = arguments.has("--json")
        asMarkdown = arguments.has("--markdown")
        if asJSON, asMarkdown { throw .usage("options '--json' and '--markdown' exclude each other") }
    }

    func run() -> Int32 {
        let options = OptionTable.options
        if asJSON {
            Output.out(JSONText.array(options.map(Self.json)).line + "\n")
        } else if asMarkdown {
            Output.out(Self.markdown(options))
        } else {
            let head = ["OPTION", "DEFAULT", "RANGE", "WHAT IT DOES"]
            Output.out(table([head] + options.map { [$0.name, $0.initialText, $0.rangeText, $0.text] }))
        }
        return ExitStatus.success
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
            ("text", .string(option.text)),
        ])
    }

    static func markdown(_ options: [OptionTable.Option]) -> String {
        func cell(_ text: String) -> String { text.replacing("|", with: "\\|") }
        func code(_ text: String) -> String { text.isEmpty ? "" : "`\(cell(text))`" }
        var text = "| option | default | range | what it does |\n|---|---|---|---|\n"
        for option in options {
            text +=
                "| `\(option.name)` | \(code(option.initialText)) | \(code(option.rangeText)) | \(cell(option.text)) |\n"
        }
        return text
    }
}

extension OptionsCommand {
    static let command = Command(
        name: "options", text: "list the runtime options",
        flags: [
            Flag(name: "--json", text: "print as JSON"),
            Flag(name: "--markdown", text: "print as a Markdown table"),
        ],
        run: { try OptionsCommand($0).run() })
}
