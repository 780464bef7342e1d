// Fuzzes the parser of suppressions, and matches the parsed rules against names from the same text.

func fuzzSuppressions(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    let suppressions: Suppressions
    do throws(Suppressions.Failure) {
        suppressions = try Suppressions(parsing: text, file: "a\u{1b}b")
    } catch {
        check(error, lines: text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).count)
        return
    }
    for finding in findings(from: text) {
        var indexed = suppressions
        let isSuppressed = indexed.suppresses(finding)
        // The index must not miss a matching rule.
        let names = FindingNames(finding)
        let first = suppressions.rules.first { $0.matches(names) }
        precondition(isSuppressed == (first != nil))
        precondition(indexed.rules.first { $0.count > 0 }?.line == first?.line)
        precondition(indexed.unused.count == indexed.rules.count - (isSuppressed ? 1 : 0))
    }
    for rule in suppressions.rules { checkVisible(rule.description) }
}

private func check(_ failure: Suppressions.Failure, lines: Int) {
    guard case .malformed(let problems) = failure else { preconditionFailure("a text was not read") }
    precondition(!problems.isEmpty && problems.count <= lines)
    var last = 0
    for problem in problems {
        precondition(problem.line > last && problem.line <= lines)
        last = problem.line
        precondition(!problem.description.contains("\n"))
        checkVisible(problem.description)
    }
}

// Makes findings with names from the text, without the text's pattern characters: rules from the same text are likely
// to match them.
private func findings(from text: String) -> [Finding] {
    let words = text.split(whereSeparator: \.isNewline).prefix(8).map { line in
        String(line.drop { $0 == " " || $0 == "\t" }.filter { $0 != "*" && $0 != "\\" })
    }
    let frames = words.map { word in
        Finding.Frame(
            pc: Address(1), module: "/opt/\(word)", offset: Address(1), function: word, file: "src/\(word)", line: 1)
    }
    return Finding.Kind.all.prefix(3).map { kind in
        Finding(
            kind: kind, block: Finding.Block(start: Address(1), size: 8, className: words.first),
            stacks: Finding.Stacks(access: frames, free: frames.reversed(), alloc: Array(frames.dropFirst())))
    }
}
