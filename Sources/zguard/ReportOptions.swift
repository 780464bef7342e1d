// What the commands that print findings have in common: form, looks, what is left out, where symbols come from.

import Glibc
import ZombieGuard

struct ReportOptions {
    /// nil where none was asked for.
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

    /// Names every line that is wrong; a file is taken as a whole or not at all.
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

    /// Writes a whole report in one form, in pieces: a large one of lines is never in memory as text. `put` is given each piece with the
    /// number of findings that are complete with it.
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

    /// Renders text for a stream or a file: with colours on a terminal only and as wide as it is, with source paths from the
    /// working directory.
    func renderer(for descriptor: Int32) -> TextRenderer {
        let style = TextStyle(
            usesColor: Self.wantsColor(descriptor), isFull: isFull, directory: Preload.workingDirectory(),
            columns: TerminalSize(of: descriptor)?.columns ?? TerminalSize.askedColumns)
        return TextRenderer(style: style, excerpts: SourceExcerpts())
    }

    /// Annotations of files below what GitHub calls the workspace, or below the working directory.
    var annotations: GitHubAnnotations {
        GitHubAnnotations(workspace: Preload.environment("GITHUB_WORKSPACE") ?? Preload.workingDirectory())
    }

    /// Colours are for terminals that know them and people who want them: https://no-color.org, https://bixense.com/clicolors.
    static func wantsColor(
        _ descriptor: Int32, environment: (String) -> String? = { Preload.environment($0) }
    ) -> Bool {
        if environment("NO_COLOR") != nil { return false }
        if let force = environment("CLICOLOR_FORCE"), force != "0" { return true }
        return isatty(descriptor) == 1 && environment("TERM") != "dumb"
    }
}
