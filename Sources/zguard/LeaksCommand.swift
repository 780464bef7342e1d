// zguard leaks: blocks that nothing leads to, and Swift objects that only keep each other alive.

import Glibc
import ZombieGuard
import ZombieGuardGraph

struct LeaksCommand {
    private let arguments: Arguments
    private let options: ReportOptions

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        options = try ReportOptions(arguments)
    }

    func run() throws -> Int32 {
        let target = try GraphTarget(arguments)
        let snapshot = try target.snapshot(.graph)
        let search = LeakSearch(snapshot, ClassTable(snapshot))
        var intake = FindingIntake(options)
        for var finding in search.findings(time: Timestamp.now.description) {
            finding.author = target.author
            intake.add(finding)
        }
        for note in snapshot.notes + snapshot.source.notes + intake.notes { Output.warn(note) }
        let format = options.format ?? .text
        let document = intake.document(title: snapshot.source.statistics.program)
        options.write(document, in: format, for: STDOUT_FILENO) { text, _ in Output.out(text) }
        if format == .text {
            let looked = "\(groupedText(UInt64(snapshot.blocks.count))) live blocks"
            let lost =
                search.lostBlocks == 0
                ? "" : ", \(groupedText(UInt64(search.lostBlocks))) lost (\(byteText(search.lostBytes)))"
            let statistics = snapshot.source.statistics
            let stop = snapshot.stoppedNanoseconds
            let stopped = stop == 0 ? "" : "; stopped for \(stop / 1_000_000) ms"
            Output.out(
                TextRenderer.mark
                    + "\(intake.groups.summary), \(looked)\(lost) in \(visible(statistics.program)) [\(statistics.processID)]\(stopped)\n"
            )
        }
        return intake.groups.findings.isEmpty ? ExitStatus.success : ExitStatus.findings
    }
}

extension LeaksCommand {
    static let command = Command(
        name: "leaks", operands: "PID|CORE", operandCount: 1...1,
        text: "find blocks that nothing leads to, and retain cycles, in a process or core file",
        flags: [.format, .suppressions, .full, .symbols],
        run: { try LeaksCommand($0).run() })
}
