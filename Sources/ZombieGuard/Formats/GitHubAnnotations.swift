// Writes findings as GitHub workflow commands, which GitHub shows as annotations of source lines.

/// Writes findings as GitHub workflow commands, one line each, such as `::error
/// file=Sources/Cart.swift,line=14,col=9,title=use-after-free (ZombieGuard)::message`. The command is the level of the
/// finding's kind: `error`, `warning`, or `notice` for a note. An `inferred` finding is always a `warning`. Syntax and
/// escapes: <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.
public struct GitHubAnnotations: Sendable {
    private let files: FileURI

    /// Creates a writer of annotations.
    ///
    /// - Parameter workspace: absolute path of the directory that GitHub's file names are relative to
    ///   (`GITHUB_WORKSPACE`). Files outside it keep their absolute paths. Nil if there is no workspace.
    public init(workspace: String?) { files = FileURI(root: workspace) }

    /// Returns the command for one finding.
    ///
    /// - Parameter finding: a symbolicated finding; its text is untrusted.
    /// - Returns: one line, including its line feed.
    public func line(for finding: Finding) -> String {
        let kind = FindingKind.of(finding.kind)
        let level = finding.confidence == .exact ? kind.level : .warning
        let command = level == .note ? "notice" : level.rawValue
        let properties = place(of: finding) + ["title=" + Self.property("\(finding.kind.rawValue) (ZombieGuard)")]
        return "::\(command) \(properties.joined(separator: ","))::\(Self.data(message(of: finding)))\n"
    }

    // MARK: Message

    private func message(of finding: Finding) -> String {
        let past = finding.events.filter { $0.role != .access }.map { event in
            event.title + (event.frames.origin.map { ": " + describe($0) } ?? "")
        }
        var lines = [finding.sentence] + (finding.evidence.map { [$0] } ?? []) + past
        if finding.count > 1 { lines.append("seen \(finding.count) times") }
        lines.append("signature \(visible(finding.signature ?? finding.computeSignature()))")
        return lines.joined(separator: "\n")
    }

    private func describe(_ frame: Finding.Frame) -> String {
        let name = frame.function.map { visible($0) } ?? frame.moduleAndOffset
        guard let file = frame.file.flatMap({ files.path(to: $0)?.path }) else { return name }
        return "\(name) (\(visible(file))\(frame.line.map { ":\($0)" } ?? ""))"
    }

    // Properties that locate `primaryFrame`. If its file is outside of the workspace, they locate instead the innermost
    // frame of the same stack whose file is in the workspace, if there is one.
    private func place(of finding: Finding) -> [String] {
        guard let primary = finding.primaryFrame else { return [] }
        let isOwn = { (frame: Finding.Frame) in
            !frame.isLibraryCode && frame.file.flatMap { files.path(to: $0) }?.isBelowRoot ?? false
        }
        let stack = finding.events.first { $0.frames.contains(primary) }?.frames ?? []
        let frame = isOwn(primary) ? primary : stack.first(where: isOwn) ?? primary
        guard let file = frame.file.flatMap({ files.path(to: $0)?.path }) else { return [] }
        var place = ["file=" + Self.property(file)]
        guard let line = frame.line, line > 0 else { return place }
        place.append("line=\(line)")
        if let column = frame.column, column > 0 { place.append("col=\(column)") }
        return place
    }

    // MARK: Escapes

    /// Escapes a message. Its line feeds become "%0A", because a line feed ends the command.
    private static func data(_ text: String) -> String {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { escaped(visible(String($0)), "%\r\n") }
            .joined(separator: "%0A")
    }

    /// Escapes the value of a property, including the comma and colon that would end it.
    private static func property(_ text: String) -> String { escaped(visible(text), "%\r\n:,") }

    private static func escaped(_ text: String, _ reserved: String) -> String {
        var escaped = ""
        for character in text.unicodeScalars {
            if reserved.unicodeScalars.contains(character) {
                let digits = String(character.value, radix: 16, uppercase: true)
                escaped += "%" + (digits.count == 1 ? "0" : "") + digits
            } else {
                escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}
