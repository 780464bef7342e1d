// The result of a run, before the report is written.

import Glibc
import ZombieGuard

/// The result of one run.
struct RunOutcome {
    let processID: pid_t
    let result: FindingIntake.RunResult
    var intake: FindingIntake
    let timeline: [TimelineSample]
    let filters: SystemCallFilters?

    var findings: [Finding] { intake.groups.findings }

    func document(title: String) -> ReportDocument {
        intake.document(title: title, timeline: timeline, run: result)
    }
}

/// Several runs with the same arguments that write one report.
final class RunSeries {
    /// The report's sink, which the first run opens.
    var sink: FindingSink?
    /// The outcome of the last run; nil if the program could not be started.
    var outcome: RunOutcome?

    /// Opens the report before the first run, as a single run does. Returns the sink of one run, which writes nothing.
    func sink(_ arguments: Arguments, _ options: ReportOptions) throws(Failure) -> FindingSink {
        if sink == nil { sink = try FindingSink(arguments, options) }
        return FindingSink(withoutDestinationFor: options)
    }
}
