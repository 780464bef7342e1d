// Where the findings of a run go: standard error, or a report file.

import Glibc
import ZombieGuard

/// Names findings, groups equal ones, and writes each as it comes.
struct FindingSink {
    private(set) var groups = FindingGroups()
    private let format: ReportFormat
    private let file: Descriptor?
    private let symbolicator = Symbolicator()
    private let renderer = TextRenderer()
    private var notesPrinted = 0
    private var hasRepeats = false
    private(set) var failure: SystemError?

    /// `file` is a report opened for writing and empty; nil for standard error.
    init(format: ReportFormat, file: Descriptor?) {
        self.format = format
        self.file = file
    }

    mutating func add(_ finding: Finding) {
        let isNew = groups.add(symbolicator.symbolicate(finding))
        if isNew, let group = groups.findings.last { write(text(of: group)) }
        if !isNew { hasRepeats = true }
        for note in symbolicator.notes[notesPrinted...] { Output.warn(note) }
        notesPrinted = symbolicator.notes.count
    }

    /// Writes a report file again where findings came more than once, so that it holds how often.
    mutating func finish() {
        guard hasRepeats, let file, let status = file.status, status.st_mode & S_IFMT == S_IFREG, failure == nil,
            ftruncate(file.number, 0) == 0, lseek(file.number, 0, SEEK_SET) == 0
        else { return }
        write(groups.findings.map { text(of: $0) }.joined())
    }

    private func text(of finding: Finding) -> String {
        switch format {
        case .text: renderer.render(finding)
        case .json: finding.jsonLine + "\n"
        }
    }

    private mutating func write(_ text: String) {
        guard let file else { return Output.error(text) }
        if failure != nil { return }
        do throws(SystemError) { try file.write(text) } catch { failure = error }
    }
}
