// zguard leaks: finds blocks that cannot be reached, and Swift objects that only keep each other alive.

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
        let search = try LeakSearch.of { try target.snapshot(.graph) }
        let snapshot = search.snapshot
        var intake = FindingIntake(options)
        for var finding in search.findings(time: Timestamp.now.description) {
            finding.author = target.author
            intake.add(finding)
        }
        for note in snapshot.notes + snapshot.source.notes + intake.notes { Output.warn(note) }
        let format = options.format ?? .text
        let document = intake.document(title: snapshot.source.statistics.program)
        options.write(document, in: format, for: STDOUT_FILENO) { text, _ in Output.out(text) }
        if format == .text { Output.out(TextRenderer.mark + "\(intake.groups.summary), \(text(snapshot, search))\n") }
        if format == .json { Output.out(json(snapshot, search)) }
        return intake.groups.findings.isEmpty ? ExitStatus.success : ExitStatus.findings
    }
}

extension LeaksCommand {
    private func text(_ snapshot: HeapSnapshot, _ search: LeakSearch) -> String {
        var text = "\(groupedText(UInt64(snapshot.blocks.count))) live blocks"
        if search.lostBlocks > 0 {
            text += ", \(groupedText(UInt64(search.lostBlocks))) lost (\(byteText(search.lostBytes)))"
        }
        let statistics = snapshot.source.statistics
        text += " in \(visible(statistics.program)) [\(statistics.processID)]"
        if snapshot.stoppedNanoseconds > 0 { text += "; stopped for \(snapshot.stoppedNanoseconds / 1_000_000) ms" }
        return text + (snapshot.whyNotCopied.map { " (not copied: \($0))" } ?? "")
    }

    // The line behind the findings.
    private func json(_ snapshot: HeapSnapshot, _ search: LeakSearch) -> String {
        let statistics = snapshot.source.statistics
        let wasStopped = snapshot.stoppedNanoseconds > 0
        return JSONText.object([
            ("schema", .string(Finding.Leak.sumSchema)), ("pid", .integer(Int64(statistics.processID))),
            ("program", .string(statistics.program)), ("blocks", .integer(Int64(snapshot.blocks.count))),
            ("lost_blocks", .integer(Int64(search.lostBlocks))), ("lost_bytes", .natural(search.lostBytes)),
            ("stopped_ms", wasStopped ? .natural(snapshot.stoppedNanoseconds / 1_000_000) : nil),
            ("copied", wasStopped ? .bool(snapshot.isCopied) : nil),
            ("not_copied", snapshot.whyNotCopied.map { .string($0) }),
        ]).line + "\n"
    }

    static let command = Command(
        name: "leaks", operands: "PID|CORE", operandCount: 1...1,
        text: "find blocks that nothing leads to, and retain cycles, in a process or core file",
        flags: [.format, .suppressions, .full, .symbols],
        run: { try LeaksCommand($0).run() })
}
