// Fuzzes all output for a finding that the reader accepted: signature, text, suggestion, and conversion to JSON and
// back.

func fuzzRendering(_ bytes: [UInt8]) {
    for entry in readEntries(bytes) {
        guard case .finding(let finding, _) = entry else { continue }
        check(finding)
    }
}

private func check(_ raw: Finding) {
    // Reports do not contain the fields that only raw findings have.
    var finding = raw
    finding.block?.classSymbol = nil
    finding.block?.memberFrame = nil
    let line = raw.jsonLine
    precondition(!line.contains("\n"))
    checkBack(line, finding)

    finding.signature = finding.computeSignature()
    precondition(finding.signature?.utf8.count == 16)
    checkBack(finding.jsonLine, finding)
    checkVisible(TextRenderer().render(finding))
    checkVisible(finding.sentence)

    var merged = finding
    merged.merge(finding)
    precondition(merged.count >= finding.count && merged.computeSignature() == finding.signature)

    let suggestion = Suppressions.suggestion(for: finding)
    checkVisible(suggestion)
    guard var rules = try? Suppressions(parsing: suggestion, file: "suggestion"), rules.rules.count == 1 else {
        preconditionFailure("a suggestion is no rule: \(suggestion)")
    }
    precondition(rules.suppresses(finding), "a suggestion does not match its finding: \(suggestion)")
    var other = finding
    other.stacks.free.insert(Finding.Frame(pc: Address(7), module: "/opt/other", function: "another_function()"), at: 0)
    other.signature = nil
    precondition(rules.suppresses(other) == (other.computeSignature() == finding.signature))
}

private func checkBack(_ line: String, _ finding: Finding) {
    let read = readEntries(Array(line.utf8))
    precondition(read == [.finding(finding, line: 1)], "\(line)\nis read as\n\(read)")
}
