// zguard run --pinpoint: runs a program again until the instruction of a late finding is known.

import Glibc
import ZombieGuard

/// Runs a program several times. After a run with findings that lack the instruction of the access, the next run
/// watches every block of these findings' allocation stacks.
struct Pinpoint {
    private let arguments: Arguments
    private let most: Int
    private let given: Focus
    private let input = StandardInput()

    private static let usualRuns = 3, runsMost = 1000

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        most = try Self.runs(arguments.value("--runs"))
        given = try Focus(arguments)
    }

    static func runs(_ text: String?) throws(Failure) -> Int {
        guard let text else { return usualRuns }
        guard let runs = Int(digits: text), (1...runsMost).contains(runs) else {
            throw .usage("option '--runs' has the bad value '\(visible(text))': expected 1 to \(runsMost)")
        }
        return runs
    }

    func run() throws -> Int32 {
        let series = RunSeries()
        var search = Search(focus: given)
        while search.runs < most {
            let command = try RunCommand(arguments, focus: search.focus, in: series)
            series.outcome = nil
            do {
                _ = try command.run()
            } catch {
                // If a later run fails, report the findings of the earlier runs.
                guard search.runs > 0, let failure = error as? Failure else { throw error }
                Output.print(failure)
                break
            }
            guard let outcome = series.outcome else { break }
            search.add(outcome)
            if search.isDone || search.runs == most || outcome.result.end?.wasAskedToEnd ?? false { break }
            announce(search, &series.sink)
            input.rewind()
        }
        return try conclude(search, series)
    }

    // Announces the next run. After the first run, writes the findings to a report file: zguard might be killed later.
    private func announce(_ search: Search, _ sink: inout FindingSink?) {
        if search.runs == 1, sink?.isFile ?? false, let outcome = search.best {
            sink?.write(outcome.document(title: arguments.operands[0]), of: outcome.processID)
        }
        if arguments.has("--quiet") { return }
        let stacks = counted(search.focus.places.count, "allocation stack")
        Output.error(
            TextRenderer.mark
                + "run \(search.runs): \(search.lateText); running the program again, and watching all blocks "
                + "of \(stacks)\(input.isGone ? "; what it has read from standard input is gone" : "")\n")
    }

    private func conclude(_ search: Search, _ series: RunSeries) throws -> Int32 {
        guard let outcome = search.report, var sink = series.sink else { return ExitStatus.failure }
        var document = outcome.document(title: arguments.operands[0])
        if let result = search.resultText { document.notes.append(result) }
        sink.write(document, of: outcome.processID)
        if !arguments.has("--quiet"), let result = search.resultText { Output.error(TextRenderer.mark + result + "\n") }
        return try RunCommand(arguments, focus: search.reportedFocus, in: nil).conclude(outcome, sink)
    }
}

/// The findings of the runs so far, and the allocation stacks to watch in the next run.
private struct Search {
    private(set) var focus: Focus
    private(set) var runs = 0
    /// The run to report: the one with the instruction, or else the first one with late findings, or else the first
    /// run.
    private(set) var best: RunOutcome?
    /// Stacks that were focused in the best run.
    private(set) var reportedFocus: Focus
    /// Findings that lack the instruction of the access.
    private var late: [Finding] = []
    private var others: [Finding] = []
    private var pinpointed: (finding: Finding, run: Int)?
    /// Number of later runs with late findings. Their allocation stacks may differ: the write may hit another block
    /// that has reused the memory.
    private var lateAgain = 0

    init(focus: Focus) {
        self.focus = focus
        reportedFocus = focus
    }

    /// Whether no further run is needed: the instruction is known, or no run had a late finding.
    var isDone: Bool { pinpointed != nil || late.isEmpty }

    mutating func add(_ outcome: RunOutcome) {
        runs += 1
        let found = late.isEmpty ? nil : outcome.findings.first { one in late.contains { one.isAccess(of: $0) } }
        let isFirst = best == nil
        if let found { pinpointed = (found, runs) }
        let new = outcome.findings.filter { $0.lacksInstruction && !$0.stacks.alloc.isEmpty }
        if !isFirst, !late.isEmpty, !new.isEmpty { lateAgain += 1 }
        if found != nil || isFirst || (late.isEmpty && !new.isEmpty) {
            others += best?.findings ?? []
            best = outcome
            reportedFocus = focus
        } else {
            others += outcome.findings
        }
        for finding in new {
            late.append(finding)
            focus.add(finding)
        }
    }

    /// The best run, with the findings that only other runs have. Leaves out late findings that were pinpointed.
    var report: RunOutcome? {
        guard var report = best else { return nil }
        for finding in others {
            let isPinpointed =
                pinpointed.map { finding.lacksInstruction && $0.finding.isOfSameStack(as: finding) } ?? false
            let isKnown = report.findings.contains { $0.signature == finding.signature }
            if !isPinpointed, !isKnown { report.intake.add(finding) }
        }
        return report
    }

    var lateText: String {
        let kinds = Set(late.map(\.kind.rawValue)).sorted().joined(separator: ", ")
        return "instruction or block of \(counted(late.count, "finding")) (\(kinds)) is not known for certain"
    }

    /// The result in one line, with the number of runs; nil if there was nothing to pinpoint.
    var resultText: String? {
        if let pinpointed {
            return "pinpointed in run \(pinpointed.run): \(pinpointed.finding.sentence)"
        }
        if late.isEmpty { return nil }
        if runs == 1 { return "not pinpointed: the program was run only once" }
        let runs = counted(runs, "run")
        if lateAgain == 0 { return "not reproduced in \(runs)" }
        return "not pinpointed in \(runs): found late again in \(lateAgain) of them; more runs may help (--runs)"
    }
}

extension Finding {
    /// Whether the access stack is not that of the access, or the block is not known for certain.
    fileprivate var lacksInstruction: Bool {
        isFoundLate || confidence == .inferred && block != nil && crash == nil && stall == nil
    }

    // A heap overflow that is found when the block is freed has the stack of the free as its access stack.
    private var isFoundLate: Bool {
        kind == .writeAfterFree || kind == .heapOverflow && detail["found_by"] != nil
    }

    /// Whether this finding has the instruction of the access that the other finding detected late.
    fileprivate func isAccess(of late: Finding) -> Bool {
        [.useAfterFree, .heapOverflow].contains(kind) && !lacksInstruction && !stacks.access.isEmpty
            && isOfSameStack(as: late)
    }

    /// Whether the blocks were allocated by the same stack. Either stack may have been shortened.
    fileprivate func isOfSameStack(as other: Finding) -> Bool {
        let places = [self, other].map { finding in
            finding.stacks.alloc.lazy.filter { !$0.inlined }.prefix(Finding.Stacks.framesInIdentity).map {
                [$0.moduleName ?? "", $0.moduleName == nil ? "" : $0.offset?.description ?? ""]
            }
        }
        let common = zip(places[0], places[1])
        return common.allSatisfy { $0 == $1 } && !places[0].isEmpty && !places[1].isEmpty
    }
}

/// The program's standard input, which every run reads from the same place if it is a regular file.
private struct StandardInput {
    private let position = lseek(STDIN_FILENO, 0, SEEK_CUR)
    private let type: mode_t? = {
        var status = stat()
        return fstat(STDIN_FILENO, &status) == 0 ? status.st_mode & S_IFMT : nil
    }()

    /// Whether the next run cannot read the same input again: it comes from a pipe, a socket or a terminal.
    var isGone: Bool { type == S_IFIFO || type == S_IFSOCK || isatty(STDIN_FILENO) == 1 }

    func rewind() {
        if type == S_IFREG, position >= 0 { lseek(STDIN_FILENO, position, SEEK_SET) }
    }
}
