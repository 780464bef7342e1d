// What becomes of findings before they are shown: names, suppressions, groups.

import ZombieGuard

/// Takes raw or finished findings, one after the other.
struct FindingIntake {
    /// What is to be shown, and what is not.
    private(set) var groups: FindingGroups
    /// Lines of raw findings that were taken or skipped; counted by whoever reads them.
    var entries = 0
    private let symbolicator: Symbolicator
    private var notesGiven = 0

    init(_ options: ReportOptions) {
        groups = FindingGroups(suppressions: options.suppressions)
        symbolicator = Symbolicator(sources: options.symbols)
    }

    /// Names a finding and puts it into its group. Returns it where it is the first of a group that is to be shown.
    @discardableResult
    mutating func add(_ raw: Finding) -> Finding? {
        groups.add(raw) { symbolicator.symbolicate($0) } ? groups.findings.last : nil
    }

    /// Leaves out groups.
    mutating func keep(where isKept: (Finding) -> Bool) { groups.keep(where: isKept) }

    /// Why frames have no names, as far as that was not handed out before.
    mutating func newNotes() -> ArraySlice<String> {
        defer { notesGiven = symbolicator.notes.count }
        return symbolicator.notes[min(notesGiven, symbolicator.notes.count)...]
    }

    var notes: [String] { symbolicator.notes }

    /// Says which suppressions had nothing to suppress; nil where all had, or there are none.
    var unusedSuppressions: String? {
        let unused = groups.suppressions.unused
        if unused.isEmpty { return nil }
        let most = 10
        let named = unused.prefix(most).map { rule in
            "\(visible(rule.file)):\(rule.line)" + (rule.name.map { " (\(visible($0)))" } ?? "")
        }
        let more = unused.count > most ? " and \(unused.count - most) more" : ""
        return "suppressions that nothing needed: \(named.joined(separator: ", "))\(more)"
    }

    /// Everything as one document.
    func document(
        timeline: [TimelineSample] = [], title: String? = nil, isComplete: Bool = true, exitStatus: Int32? = nil,
        unwritten: Int = 0, coverage: Coverage? = nil, end: ProgramEnd? = nil, unknown: [String] = []
    ) -> ReportDocument {
        ReportDocument(
            findings: groups.findings, suppressedCount: groups.suppressions.occurrences, timeline: timeline,
            title: title, commandLine: OwnProgram.arguments,
            notes: notes + unknown
                + (unwritten == 0 ? [] : ["findings that could not be written: \(unwritten)"]),
            sourceRoot: Preload.workingDirectory(),
            isComplete: isComplete && unwritten == 0, exitStatus: exitStatus, coverage: coverage, end: end)
    }
}
