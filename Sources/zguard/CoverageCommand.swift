// zguard coverage: shows which pairs of allocation and free were watched over many runs.

import ZombieGuard

struct CoverageCommand {
    private let arguments: Arguments
    private let format: String

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        format = arguments.value("--format") ?? "text"
    }

    func run() throws -> Int32 {
        var all = PairCoverage()
        for path in arguments.operands { all.add(try read(path)) }
        let sources = SymbolSources(directories: arguments.values["--symbols"] ?? [])
        let report = CoverageReport(all, symbols: sources)
        Output.out(format == "json" ? report.json : format == "html" ? report.html : report.text)
        return ExitStatus.success
    }

    private func read(_ path: String) throws(Failure) -> PairCoverage {
        let coverage: PairCoverage
        do throws(SystemError) {
            coverage = try CoverageDirectory(path).read()
        } catch {
            throw Failure("cannot read '\(visible(path))/pairs': \(error)")
        }
        if !coverage.runs.isEmpty { return coverage }
        throw Failure(
            "'\(visible(path))' holds no run", hint: "'zguard run --coverage \(visible(path)) -- PROGRAM' adds one")
    }
}

extension CoverageCommand {
    static let command = Command(
        name: "coverage", operands: "DIR…", operandCount: 1...1000,
        text: "which allocation and free pairs the runs with 'zguard run --coverage' watched",
        flags: [
            Flag(
                name: "--format", value: .choice(["text", "json", "html"]),
                text: "output format: text (default), json, or html (a web page)"),
            .symbols,
        ], run: { try CoverageCommand($0).run() })
}
