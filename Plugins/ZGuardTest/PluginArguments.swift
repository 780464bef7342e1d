// Parses the arguments of a command plugin. One table defines both the parser and the help. Both plugins compile this
// file.

/// The parsed arguments of a plugin.
struct PluginArguments {
    /// An option of a plugin.
    struct Option {
        var name: String
        /// Placeholder of the value in the help text; nil if the option takes no value.
        var value: String?
        var text: String
        /// Whether the option is passed to `zguard run` unchanged.
        var isForwarded = false
    }

    /// Wrong usage. The message says what is expected.
    struct UsageError: Error { var message: String }

    /// A plugin's name, operands and options.
    struct Table {
        var verb: String
        var synopsis: String
        var summary: String
        var options: [Option]
        /// Whether the first operand names a program: all arguments after it belong to the program.
        var takesProgram = false

        var help: String {
            "\(summary)\n\nusage: swift package \(verb) \(synopsis)\n\noptions:\n\(list)"
        }

        /// Help text of the options, one line each.
        var list: String {
            let names = options.map { $0.name + ($0.value.map { " \($0)" } ?? "") }
            let width = names.map(\.count).max() ?? 0
            return zip(names, options).map { name, option in
                "  " + name + String(repeating: " ", count: width - name.count + 2) + option.text + "\n"
            }.joined()
        }
    }

    private(set) var operands: [String] = []
    /// Options for `zguard run`, in the order given.
    private(set) var forwarded: [String] = []
    private var values: [String: [String]] = [:]

    /// Parses "--name value" and "--name=value". After "--", all words are operands.
    init(_ words: [String], _ table: Table) throws(UsageError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                operands += rest
                return
            }
            guard word.hasPrefix("-"), word.count > 1 else {
                operands.append(word)
                if table.takesProgram {
                    operands += rest
                    return
                }
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard let option = table.options.first(where: { $0.name == parts[0] }) else {
                throw UsageError(message: "unknown option '\(parts[0])'; there are:\n\(table.list)")
            }
            var value = ""
            if option.value == nil {
                if parts.count > 1 { throw UsageError(message: "option '\(option.name)' takes no value") }
            } else if parts.count > 1 {
                value = parts[1]
            } else if let next = rest.popFirst() {
                value = next
            } else {
                throw UsageError(message: "option '\(option.name)' needs a value: \(option.name) \(option.value!)")
            }
            values[option.name, default: []].append(value)
            if option.isForwarded { forwarded += option.value == nil ? [option.name] : [option.name, value] }
        }
    }

    func has(_ name: String) -> Bool { values[name] != nil }

    /// All values of an option, in the order given.
    func all(_ name: String) -> [String] { values[name] ?? [] }

    // MARK: Options of both plugins

    /// Options that are passed to `zguard run`.
    static let forwarded = [
        Option(name: "--profile", value: "guard|fence|sample", text: "preset of runtime options", isForwarded: true),
        Option(name: "-o", value: "KEY=VALUE", text: "set a runtime option", isForwarded: true),
        Option(
            name: "--only", value: "PROGRAM|PATH", text: "guard only programs with this name or path",
            isForwarded: true),
        Option(
            name: "--report", value: "PATH",
            text: "write findings to a file, or to a directory that serves as report store",
            isForwarded: true),
        Option(
            name: "--format", value: "text|json|sarif|html|junit|github", text: "the form of the report",
            isForwarded: true),
        Option(
            name: "--suppressions", value: "FILE", text: "hide findings that the rules in this file match",
            isForwarded: true),
        Option(name: "--full", text: "show every frame, including those of the language runtimes", isForwarded: true),
        Option(name: "--symbols", value: "DIR", text: "also search this directory for debug files", isForwarded: true),
        Option(
            name: "--exit-code", value: "N",
            text: "exit status if there were findings and nothing else failed (default 99)",
            isForwarded: true),
        Option(
            name: "--require-coverage", value: "PERCENT",
            text: "fail if a smaller share of the allocation and free pairs was watched",
            isForwarded: true),
        Option(
            name: "--coverage", value: "DIR", text: "add the pairs of this run to a directory, for 'zguard coverage'",
            isForwarded: true),
        Option(
            name: "--leaks", text: "also report lost blocks, and retain cycles of Swift objects, when a process ends",
            isForwarded: true),
        Option(
            name: "--leaks", text: "also report lost blocks, and retain cycles of Swift objects, when a process ends",
            isForwarded: true),
        Option(
            name: "--collect", value: "crashes|stalls",
            text: "also report crashes, with the stacks of all threads, and stalls",
            isForwarded: true
        ),
        Option(name: "--keep-age", value: "AGE", text: "delete older reports in the directory", isForwarded: true),
        Option(name: "--keep-count", value: "N", text: "keep at most N reports", isForwarded: true),
        Option(name: "--keep-bytes", value: "SIZE", text: "keep at most SIZE of reports", isForwarded: true),
        Option(
            name: "--keep-share", value: "PERCENT", text: "keep the stacks of this percentage of equal findings",
            isForwarded: true),
        Option(name: "--compress", text: "compress the report in the directory", isForwarded: true),
        Option(
            name: "--pinpoint", text: "run again after findings without the instruction of the access",
            isForwarded: true),
        Option(name: "--runs", value: "N", text: "with --pinpoint: run at most N times (default 3)", isForwarded: true),
        Option(
            name: "--focus", value: "FINDING|SIGNATURE|STORE",
            text: "watch all blocks of the allocation stacks of these findings", isForwarded: true),
        Option(name: "--quiet", text: "do not print the closing line", isForwarded: true),
    ]

    static let common = [
        Option(name: "-c", value: "debug|release", text: "how to build (default: as swift package was told, or debug)"),
        Option(name: "--help", text: "show this help"),
    ]
}
