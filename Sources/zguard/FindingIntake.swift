// Prepares findings for output: adds symbol names, applies suppressions, and groups equal findings.

import ZombieGuard
import ZombieGuardFleet

/// Collects findings, with or without symbol names.
struct FindingIntake {
    /// Groups of equal findings, and the suppressed findings.
    private(set) var groups: FindingGroups
    /// Number of raw findings read, including skipped lines; incremented by the reader.
    var entries = 0
    private let symbolicator: Symbolicator
    private var notesGiven = 0

    init(_ options: ReportOptions) {
        groups = FindingGroups(suppressions: options.suppressions)
        symbolicator = Symbolicator(sources: options.symbols)
    }

    /// Uses the symbols that were uploaded to a store.
    func use(_ store: SymbolStore) {
        do throws(FleetError) {
            if let provider = try store.provider() { symbolicator.add(provider) }
        } catch {
            Output.warn("the symbols in the store cannot be read: \(error)", hint: error.hint)
        }
    }

    /// Symbolicates a finding and adds it to its group. Returns the finding if it is the first of a group that is not
    /// suppressed.
    @discardableResult
    mutating func add(_ raw: Finding) -> Finding? {
        groups.add(raw) { symbolicator.symbolicate($0) } ? groups.findings.last : nil
    }

    /// Removes the groups whose finding does not satisfy a condition.
    mutating func keep(where isKept: (Finding) -> Bool) { groups.keep(where: isKept) }

    /// Notes that were added since the last call. A note says why frames have no names.
    mutating func newNotes() -> ArraySlice<String> {
        defer { notesGiven = symbolicator.notes.count }
        return symbolicator.notes[min(notesGiven, symbolicator.notes.count)...]
    }

    var notes: [String] { symbolicator.notes }

    /// A message that lists suppressions that matched no finding; nil if all matched.
    var unusedSuppressions: String? {
        let unused = groups.suppressions.unused
        if unused.isEmpty { return nil }
        let most = 10
        let named = unused.prefix(most).map { rule in
            "\(visible(rule.file)):\(rule.line)" + (rule.name.map { " (\(visible($0)))" } ?? "")
        }
        let more = unused.count > most ? " and \(unused.count - most) more" : ""
        return "suppressions that matched no finding: \(named.joined(separator: ", "))\(more)"
    }

    /// The result of a run, except for its findings.
    struct RunResult {
        var end: ProgramEnd?
        /// Exit status of the program; nil if it is not part of the document.
        var exitStatus: Int32?
        /// Number of findings that could not be written.
        var unwritten = 0
        var coverage: Coverage?
        /// Notes on the parts of the result that are unknown.
        var unknown: [String] = []
    }

    /// All findings as one document.
    func document(
        title: String? = nil, isComplete: Bool = true, timeline: [TimelineSample] = [], run: RunResult = RunResult()
    ) -> ReportDocument {
        ReportDocument(
            findings: groups.findings, suppressedCount: groups.suppressions.occurrences, timeline: timeline,
            title: title, commandLine: OwnProgram.arguments,
            notes: notes + run.unknown
                + (run.unwritten == 0 ? [] : ["findings that could not be written: \(run.unwritten)"]),
            sourceRoot: Preload.workingDirectory(),
            isComplete: isComplete && run.unwritten == 0, exitStatus: run.exitStatus, coverage: run.coverage,
            end: run.end)
    }
}
