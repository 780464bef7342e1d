// Files that a killed zguard leaves beside its report: their names, locks, and the findings that the report lacks.

import CSystem
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct UnfinishedFindingsTests {
    private let scratch: Scratch
    private var report: String { scratch.path + "/report.jsonl" }

    init() throws { scratch = try Scratch() }

    private func finding(_ number: Int) -> Finding {
        var finding = Finding.sample()
        finding.processID = number
        return finding
    }

    /// Leaves a file of raw findings, as a killed zguard does.
    private func leave(_ findings: [Finding], hasBegun: Bool = true) throws {
        let kept = try RunFindings(beside: report, run: "/tmp/zguard.absent/secret")
        if hasBegun { kept.begin() }
        try kept.file.write(findings.map { $0.jsonLine + "\n" }.joined())
    }

    private func write(_ findings: [Finding], torn: String = "") throws {
        try (findings.map { $0.jsonLine + "\n" }.joined() + torn).write(
            toFile: report, atomically: true, encoding: .utf8)
    }

    private func missing() throws -> [Int?] {
        var missing: [Int?] = []
        for remains in UnfinishedFindings.beside(report) {
            let reader = (try? Descriptor(opening: report)).map { FindingReader(file: $0) }
            try remains.forEachFinding(missingIn: reader) { finding, _, _ in missing.append(finding.processID) }
        }
        return missing
    }

    @Test func nothingIsLeftWhileZguardLives() throws {
        let kept = try RunFindings(beside: report, run: "/tmp")
        #expect(UnfinishedFindings.beside(report).isEmpty)
        withExtendedLifetime(kept) {}
        kept.remove()
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).isEmpty)
    }

    @Test func reportLacksWhatItDoesNotHold() throws {
        try write([finding(1), finding(2)], torn: #"{"schema":"zguard.finding/1","kind":"do"#)
        try leave([finding(1), finding(2), finding(3), finding(3), finding(4)])
        #expect(try missing() == [3, 3, 4])
        #expect(UnfinishedFindings.beside(report).map(\.hasBegun) == [true])
    }

    @Test func anEarlierReportIsNotOfTheRun() throws {
        try write([finding(1)])
        try leave([], hasBegun: false)
        #expect(UnfinishedFindings.beside(report).map(\.hasBegun) == [false])
    }

    @Test func whoStillWritesIsSeen() throws {
        try leave([finding(1)])
        let path = try #require(UnfinishedFindings.beside(report).first?.path)
        let writer = try Descriptor(opening: path, flags: O_WRONLY | O_APPEND)
        // On a file system without leases, a file that was written a moment ago counts as still being written.
        #expect(UnfinishedFindings.beside(report).map(\.isGrowing) == [true])
        withExtendedLifetime(writer) {}
    }

    @Test func storeCompletesItsReports() throws {
        try write([finding(1)], torn: "{")
        try leave([finding(1), finding(2)])
        let store = ReportStore(directory: scratch.path)
        var warnings: [String] = []
        let reader = try Descriptor(opening: UnfinishedFindings.beside(report)[0].path)
        guard zg_system_has_writers(reader.number) >= 0 else { return }
        let completed = try store.completeReports { warnings.append($0) }
        #expect(completed == ReportStore.Completed(reports: 1, findings: 1) && warnings.isEmpty)
        var read = FindingReader(file: try Descriptor(opening: report))
        var processes: [Int?] = []
        while let entry = try read.next() {
            if case .finding(let finding, _) = entry { processes.append(finding.processID) } else { Issue.record() }
        }
        // The findings differ only in the process, so they form one group.
        #expect(processes.count == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path) == ["report.jsonl"])
        #expect(try store.completeReports { warnings.append($0) } == ReportStore.Completed())
    }

    @Test func whatIsNoRunsIsLeftAlone() throws {
        for name in ["report.jsonl.unfinished-", "report.jsonl.unfinished-0123456", "report.jsonl.unfinished-0123456g"]
        {
            _ = try scratch.file(name, "{}\n".utf8)
        }
        #expect(UnfinishedFindings.beside(report).isEmpty)
        symlink("/etc/passwd", report + ".unfinished-01234567")
        #expect(UnfinishedFindings.beside(report).isEmpty)
    }

    @Test func runLineIsReadBackAndKeepsItsLength() throws {
        let lines = [true, false].map {
            UnfinishedLine(hasBegun: $0, directory: "/tmp/zguard.abcdef/" + "s".padding(24))
        }
        #expect(lines[0].text.utf8.count == lines[1].text.utf8.count)
        for line in lines { #expect(UnfinishedLine(jsonLine: String(line.text.dropLast())) == line) }
        #expect(UnfinishedLine(jsonLine: Finding.sample().jsonLine) == nil)
    }

    @Test func rawAndFinishedAreOne() {
        var raw = Finding.sample()
        raw.stacks.free = [Finding.Frame(pc: Address(rawValue: 16)), Finding.Frame(pc: Address(rawValue: 32))]
        var finished = raw
        // Symbolication adds inlined functions as frames of the same address, and zguard may replace a crash's stack.
        // Neither changes the identity.
        finished.stacks.free.insert(Finding.Frame(pc: Address(rawValue: 16)), at: 0)
        finished.stacks.access = []
        finished.signature = "0123456789abcdef"
        #expect(FindingIdentity(raw) == FindingIdentity(finished))
        finished.stacks.free[2].pc = Address(rawValue: 33)
        #expect(FindingIdentity(raw) != FindingIdentity(finished))
    }
}

extension String {
    fileprivate func padding(_ count: Int) -> String { self + String(repeating: "x", count: count - self.count) }
}
