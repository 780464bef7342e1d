// zguard check: verifies what a process holds in quarantine.

import ZombieGuard

struct CheckCommand {
    private let processID: Int
    private let format: ReportFormat

    init(_ arguments: Arguments) throws(Failure) {
        processID = try arguments.processID()
        format = arguments.format ?? .text
    }

    func run() throws -> Int32 {
        let process = try GuardedProcess(processID: processID)
        let program = try process.statistics().program
        var check = try HeapCheck(process: process)
        var groups = FindingGroups()
        let symbolicator = Symbolicator()
        check.run { groups.add(symbolicator.symbolicate($0)) }
        for note in symbolicator.notes { Output.warn(note) }
        let renderer = TextRenderer()
        for finding in groups.findings {
            Output.out(format == .text ? renderer.render(finding) : finding.jsonLine + "\n")
        }
        if format == .text {
            let blocks = "\(check.verifiedBlocks) freed block\(check.verifiedBlocks == 1 ? "" : "s")"
            let bytes = byteText(check.verifiedBytes)
            Output.out(
                TextRenderer.mark
                    + "\(groups.summary), \(blocks) (\(bytes)) verified in \(visible(program)) [\(processID)]\n")
        }
        return groups.findings.isEmpty ? ExitStatus.success : ExitStatus.findings
    }
}
