// Fuzzes the reader of reports, and the groups that collect its findings.

func fuzzReader(_ bytes: [UInt8]) {
    let entries = readEntries(bytes)
    var limits = FindingGroups.Limits()
    limits.groups = 2
    var groups = FindingGroups(limits: limits)
    var last = 0
    var skipped = 0
    var total = 0
    for entry in entries {
        switch entry {
        case .finding(let finding, let line):
            // A complete finding may follow a truncated one in the same line.
            precondition((line > last || line == skipped) && finding.count >= 1)
            last = line
            skipped = 0
            total = total.addingSaturated(finding.count)
            groups.add(finding)
            groups.add(finding) { _ in preconditionFailure("an equal finding is named again") }
            total = total.addingSaturated(finding.count)
        case .timeline(let sample, let line):
            precondition(line > last && TimelineSample(jsonLine: sample.jsonLine) == sample)
            last = line
        case .run(let run, let line):
            precondition(line > last && RunLine(jsonLine: run.jsonLine)?.program == run.program)
            last = line
        case .skipped(let line, let reason):
            precondition(line > last)
            last = line
            skipped = line
            checkVisible(reason)
            precondition(!reason.contains("\n"))
        }
    }
    let lines = bytes.count { $0 == 0x0a } + 1
    precondition(last <= lines && entries.count <= 2 * lines)
    precondition(groups.findings.count <= 2 && groups.occurrences == total)
    checkVisible(groups.summary)
    // A truncated end does not change the entries before it.
    guard let end = bytes.lastIndex(of: 0x0a) else { return }
    let whole = readEntries(Array(bytes[...end]))
    precondition(Array(entries.prefix(whole.count)) == whole && entries.count <= whole.count + 2)
}
