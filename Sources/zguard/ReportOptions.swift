// Options of all commands that print findings: format, style, suppressions and symbol sources.

import Glibc
import ZombieGuard

struct ReportOptions {
    /// The value of `--format`; nil if not given.
    var format: ReportFormat?
    var suppressions = Suppressions()
    var symbols: SymbolSources
    private let isFull: Bool

    init(_ arguments: Arguments) throws(Failure) {
        format = arguments.format
        isFull = arguments.has("--full")
        for directory in arguments.values["--symbols"] ?? [] {
            do throws(SystemError) {
                guard try Descriptor(opening: directory, flags: O_RDONLY | O_NONBLOCK).isDirectory else {
                    throw SystemError(number: ENOTDIR)
                }
            } catch {
                throw .usage("cannot look for symbols in '\(visible(directory))': \(error)")
            }
        }
        symbols = SymbolSources(directories: arguments.values["--symbols"] ?? [])
        for path in arguments.values["--suppressions"] ?? [] {
            suppressions.append(try Self.suppressions(path))
        }
    }

    /// Reads a file of suppressions. Prints every malformed line, and accepts the file only if there is none.
    private static func suppressions(_ path: String) throws(Failure) -> Suppressions {
        do throws(Suppressions.Failure) {
            return try Suppressions(opening: path)
        } catch {
            switch error {
            case .unreadable(let error): throw .usage("cannot read suppressions '\(visible(path))': \(error)")
            case .malformed(let problems):
                for problem in problems.dropLast() { Output.print(Failure("\(problem)")) }
                throw .usage("\(problems[problems.count - 1])")
            }
        }
    }

    /// Writes a complete report in pieces, so that the text of a large line-based report is never in memory as a whole.
    /// `put` gets each piece and the number of findings that end in it.
    func write<Problem: Error>(
        _ document: ReportDocument, in format: ReportFormat, for descriptor: Int32,
        to put: (String, Int) throws(Problem) -> Void
    ) throws(Problem) {
        let all = document.findings.count
        switch format {
        case .text:
            let renderer = renderer(for: descriptor)
            for finding in document.findings { try put(renderer.render(finding), 1) }
        case .json: for finding in document.findings { try put(finding.jsonLine + "\n", 1) }
        case .sarif: try put(SARIFReport(document).text, all)
        case .html: try put(HTMLReport(document).text, all)
        case .junit: try put(JUnitReport(document).text, all)
        case .github:
            let annotations = self.annotations
            for finding in document.findings { try put(annotations.line(for: finding), 1) }
        }
    }

    /// A text renderer for a stream or file. Colors are used only on a terminal, lines fit its width, and source paths
    /// are relative to the working directory.
    func renderer(for descriptor: Int32) -> TextRenderer {
        let style = TextStyle(
            usesColor: Self.wantsColor(descriptor), isFull: isFull, directory: Preload.workingDirectory(),
            columns: TerminalSize(of: descriptor)?.columns ?? TerminalSize.askedColumns)
        return TextRenderer(style: style, excerpts: SourceExcerpts())
    }

    /// Annotations for files in GITHUB_WORKSPACE, or else in the working directory.
    var annotations: GitHubAnnotations {
        GitHubAnnotations(workspace: Preload.environment("GITHUB_WORKSPACE") ?? Preload.workingDirectory())
    }

    /// Whether to use colors, by the conventions of https://no-color.org and https://bixense.com/clicolors.
    static func wantsColor(
        _ descriptor: Int32, environment: (String) -> String? = { Preload.environment($0) }
    ) -> Bool {
        if environment("NO_COLOR") != nil { return false }
        if let force = environment("CLICOLOR_FORCE"), force != "0" { return true }
        return isatty(descriptor) == 1 && environment("TERM") != "dumb"
    }
}
