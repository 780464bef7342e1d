// Parses the command line according to the table of commands.

import ZombieGuard

/// The parsed arguments of a command.
struct Arguments: Equatable {
    /// Values by flag name, in the order given; "" for a flag without a value.
    var values: [String: [String]] = [:]
    var operands: [String] = []
    /// Whether `--help` was given; the command does not run then.
    var wantsHelp = false

    func has(_ flag: String) -> Bool { values[flag] != nil }
    /// The last value of a flag.
    func value(_ flag: String) -> String? { values[flag]?.last }

    /// The value of `--format`; nil if not given.
    var format: ReportFormat? { value("--format").flatMap { ReportFormat(rawValue: $0) } }

    /// The value of --limit, 20 if not given.
    func limit() throws(Failure) -> Int {
        let text = value("--limit") ?? "20"
        guard let number = Int(digits: text), number > 0 else {
            throw .usage("option '--limit' has the bad value '\(visible(text))': expected a number from 1 on")
        }
        return number
    }

    /// Parses the first operand as a process id.
    func processID() throws(Failure) -> Int {
        guard let word = operands.first, let processID = Int(digits: word), processID > 0 else {
            throw .usage("'\(visible(operands.first ?? ""))' is not a process id")
        }
        return processID
    }
}

extension Command {
    /// Finds a command by its name.
    static func named(_ word: String) throws(Failure) -> Command {
        if let command = (all + internals).first(where: { $0.name == word }) { return command }
        let nearest = nearestName(to: word, among: all.map(\.name))
        if word.hasPrefix("-") {
            throw .usage("unknown option '\(visible(word))'", hint: "see 'zguard help'")
        }
        throw .usage(
            "unknown command '\(visible(word))'", hint: nearest.map { "did you mean '\($0)'?" } ?? "see 'zguard help'")
    }

    /// Parses the arguments after the command's name.
    func parse(_ words: [String]) throws(Failure) -> Arguments {
        var arguments = Arguments()
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                arguments.operands += rest
                break
            }
            guard word.hasPrefix("-"), word != "-" else {
                arguments.operands.append(word)
                if takesProgram {
                    arguments.operands += rest
                    break
                }
                continue
            }
            if word == Self.help.name || word == "-h" {
                arguments.wantsHelp = true
                return arguments
            }
            try parseFlag(word, &rest, &arguments)
        }
        try checkOperands(arguments)
        return arguments
    }

    private func parseFlag(_ word: String, _ rest: inout ArraySlice<String>, _ arguments: inout Arguments)
        throws(Failure)
    {
        var name = word
        var attached: String?
        if word.hasPrefix("--"), let equals = word.firstIndex(of: "=") {
            name = String(word[..<equals])
            attached = String(word[word.index(after: equals)...])
        } else if !word.hasPrefix("--"), word.count > 2 {
            name = String(word.prefix(2)) // "-okey=value"
            attached = String(word.dropFirst(2))
        }
        guard let flag = flags.first(where: { $0.name == name }) else {
            let nearest = nearestName(to: name, among: (flags + [Self.help]).map(\.name))
            throw .usage(
                "unknown option '\(visible(word.hasPrefix("--") ? name : word))'",
                hint: nearest.map { "did you mean '\($0)'?" } ?? "see 'zguard \(self.name) --help'")
        }
        let value = try value(of: flag, attached: attached, &rest)
        if flag.repeats {
            arguments.values[flag.name, default: []].append(value)
        } else if arguments.values.updateValue([value], forKey: flag.name) != nil {
            throw .usage("option '\(flag.name)' is given twice")
        }
    }

    private func value(of flag: Flag, attached: String?, _ rest: inout ArraySlice<String>) throws(Failure) -> String {
        switch flag.value {
        case .none:
            if attached != nil { throw .usage("option '\(flag.name)' takes no value") }
            return ""
        case .optionalNumber:
            if let attached { return attached }
            // Also accepts a number with a sign, which is then rejected as a bad value instead of being parsed as a
            // flag or operand.
            guard let next = rest.first, next.utf8.contains(where: { (0x30...0x39).contains($0) }),
                next.utf8.allSatisfy({ "+-.0123456789".utf8.contains($0) })
            else { return "" }
            rest.removeFirst()
            return next
        case .required, .choice:
            // A next word that begins with a dash is not taken as the value, unless it is a lone dash. A value that
            // begins with a dash can be given as --flag=-value.
            let next = attached ?? rest.first.flatMap { $0.hasPrefix("-") && $0 != "-" ? nil : $0 }
            guard let value = next, !value.isEmpty else {
                throw .usage("option '\(flag.name)' needs a value", hint: flag.synopsis)
            }
            if attached == nil { rest.removeFirst() }
            if case .choice(let choices) = flag.value { try check(value, of: flag, among: choices) }
            return value
        }
    }

    private func check(_ value: String, of flag: Flag, among choices: [String]) throws(Failure) {
        if choices.contains(value) { return }
        let nearest = nearestName(to: value, among: choices)
        throw .usage(
            "option '\(flag.name)' has the bad value '\(visible(value))': expected \(alternatives(choices))",
            hint: nearest.map { "did you mean '\($0)'?" })
    }

    private func checkOperands(_ arguments: Arguments) throws(Failure) {
        let count = arguments.operands.count
        if count < operandCount.lowerBound {
            throw .usage("'zguard \(name)' needs \(operands)", hint: HelpText.synopsis(of: self))
        }
        if count > operandCount.upperBound {
            let surplus = visible(arguments.operands[operandCount.upperBound])
            throw .usage("'zguard \(name)' does not take '\(surplus)'", hint: HelpText.synopsis(of: self))
        }
    }
}

/// Joins words as in "a, b or c".
func alternatives(_ words: [String]) -> String {
    words.count < 2 ? words.joined() : words.dropLast().joined(separator: ", ") + " or " + words.last!
}
