// Recovers findings of earlier runs with the same report path whose zguard was killed before it completed the report.

import Glibc
import ZombieGuard

/// Findings from raw files left beside a report, and from the incomplete report itself. They are added to the next
/// report.
struct RecoveredFindings {
    private var intake: FindingIntake
    private var remains: [UnfinishedFindings] = []

    /// Reads the raw files left beside the report and prints how many findings were recovered. Call before the report
    /// is overwritten.
    init(beside sink: FindingSink, _ options: ReportOptions) {
        intake = FindingIntake(options)
        guard let path = sink.recoverablePath else { return }
        for remains in UnfinishedFindings.beside(path) where remains.owner == geteuid() {
            let name = visible(remains.path)
            if remains.isGrowing {
                Output.warn(
                    "zguard was killed, but its program still runs and writes its findings to '\(name)'",
                    hint: "zguard report '\(name)'")
            } else {
                read(remains, path)
            }
        }
        let count = intake.groups.occurrences
        if count > 0 {
            let findings = "\(counted(count, "finding")) of a run whose zguard was killed"
            Output.warn("\(findings) \(count == 1 ? "is" : "are") added to '\(visible(path))'")
        }
    }

    private mutating func read(_ remains: UnfinishedFindings, _ path: String) {
        do {
            let isOfRun = remains.hasBegun
            if isOfRun, self.remains.isEmpty, var report = Self.reader(of: path) {
                while let entry = try report.next() ?? report.finish() {
                    if case .finding(let finding, _) = entry { intake.add(finding) }
                }
            }
            try remains.forEachFinding(missingIn: isOfRun ? Self.reader(of: path) : nil) { finding, _, _ in
                intake.add(finding)
            }
            self.remains.append(remains)
        } catch {
            Output.warn(
                "cannot read '\(visible(remains.path))', which a run whose zguard was killed has left: \(error)")
        }
    }

    private static func reader(of path: String) -> FindingReader? {
        (try? Descriptor(opening: path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)).map { FindingReader(file: $0) }
    }

    /// One finding per group.
    var findings: [Finding] { intake.groups.findings }

    /// Removes the files once the new report contains their findings.
    func remove() { for one in remains { one.remove() } }
}
