// zguard report: prints reports, raw or finished.

import ZombieGuard

struct ReportCommand {
    private let paths: [String]
    private let format: ReportFormat

    /// Skipped lines of one file that are named one by one.
    private static let namedLines = 5

    init(_ arguments: Arguments) throws(Failure) {
        paths = arguments.operands
        format = arguments.format ?? .text
    }

    func run() throws -> Int32 {
        var groups = FindingGroups()
        let symbolicator = Symbolicator()
        for path in paths { try read(path, symbolicator, into: &groups) }
        for note in symbolicator.notes { Output.warn(note) }
        let renderer = TextRenderer()
        for finding in groups.findings {
            Output.out(format == .text ? renderer.render(finding) : finding.jsonLine + "\n")
        }
        if format == .text { Output.out(TextRenderer.mark + groups.summary + "\n") }
        return ExitStatus.success
    }

    private func read(_ path: String, _ symbolicator: Symbolicator, into groups: inout FindingGroups) throws(Failure) {
        var found = 0
        var skipped = 0
        do throws(SystemError) {
            var reader = try FindingReader(opening: path)
            while let entry = try reader.next() ?? reader.finish() {
                switch entry {
                case .finding(let finding, _):
                    found += 1
                    groups.add(symbolicator.symbolicate(finding))
                case .timeline: break
                case .skipped(let line, let reason):
                    skipped += 1
                    if skipped <= Self.namedLines {
                        Output.warn("'\(visible(path))' line \(line) is skipped: \(reason)")
                    }
                }
            }
        } catch {
            throw Failure("cannot read report '\(visible(path))': \(error)")
        }
        if skipped > Self.namedLines {
            Output.warn("'\(visible(path))': \(skipped - Self.namedLines) more lines are skipped")
        }
        if found == 0, skipped > 0 { throw Failure("'\(visible(path))' holds no finding that this version can read") }
    }
}
