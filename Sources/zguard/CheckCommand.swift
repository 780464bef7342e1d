// zguard check: verifies the fill of a process's quarantined blocks and of the red zones around live blocks.

import Glibc
import ZombieGuard

struct CheckCommand {
    private let processID: Int
    private let options: ReportOptions

    init(_ arguments: Arguments) throws(Failure) {
        processID = try arguments.processID()
        options = try ReportOptions(arguments)
    }

    func run() throws -> Int32 {
        let process = try GuardedProcess(processID: processID)
        let statistics = try process.statistics()
        var check = try HeapCheck(process: process)
        var intake = FindingIntake(options)
        check.run { intake.add($0) }
        for note in check.notes + intake.notes { Output.warn(note) }
        let format = options.format ?? .text
        let document = intake.document(
            title: statistics.program, timeline: [TimelineSample(statistics)],
            run: .init(coverage: statistics.coverage))
        options.write(document, in: format, for: STDOUT_FILENO) { text, _ in Output.out(text) }
        if format == .text {
            let blocks = "\(check.verifiedBlocks) freed block\(check.verifiedBlocks == 1 ? "" : "s")"
            let gaps = check.verifiedLiveBlocks
            let around = gaps == 0 ? "" : " and the red zones around \(gaps) live block\(gaps == 1 ? "" : "s")"
            let verified = "\(blocks)\(around) (\(byteText(check.verifiedBytes))) verified"
            let program = visible(statistics.program)
            let said = "\(intake.groups.summary), \(verified) in \(program) [\(processID)]"
            Output.out(TextRenderer.mark + "\(said); \(statistics.coverage.text)\n")
        }
        return intake.groups.findings.isEmpty ? ExitStatus.success : ExitStatus.findings
    }
}

extension CheckCommand {
    static let command = Command(
        name: "check", operands: "PID", operandCount: 1...1,
        text: "verify the freed blocks, and the red zones around live ones, of a running process now",
        flags: [.format, .suppressions, .full, .symbols],
        run: { try CheckCommand($0).run() })
}
