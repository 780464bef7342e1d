// zguard run: starts a program with the runtime preloaded, and prints what it finds.

import Glibc
import ZombieGuard

struct RunCommand {
    private let arguments: Arguments
    private let exitStatus: Int32

    private static let pollMilliseconds: Int32 = 200

    init(_ arguments: Arguments) throws(Failure) {
        self.arguments = arguments
        exitStatus = try Self.exitStatus(arguments.value("--exit-code"))
    }

    static func exitStatus(_ text: String?) throws(Failure) -> Int32 {
        guard let text else { return ExitStatus.findings }
        guard let status = Int32(text), (0...255).contains(status) else {
            throw .usage("option '--exit-code' has the bad value '\(visible(text))': expected 0 to 255")
        }
        return status
    }

    func run() throws -> Int32 {
        // Everything that can be refused is refused before anything exists or runs.
        let options = try RuntimeOptions(
            inherited: Preload.environment(RuntimeOptions.variable), profile: arguments.value("--profile"),
            given: arguments.values["-o"] ?? [])
        let library = try Preload.library()
        let name = arguments.operands[0]
        let check = ProgramCheck(searchPath: Preload.environment("PATH"))
        let path = try check.resolve(name)
        try check.check(path, name: name)
        let report = try openReport()

        let temporary = try TemporaryDirectory()
        defer { temporary.remove() }
        let raw = "\(temporary.path)/findings"
        let environment = ChildEnvironment.guarding(library: library, options: options.text(reportPath: raw))
        let file = try open(raw)
        var reader = FindingReader(file: file)
        var sink = FindingSink(format: arguments.format ?? (report == nil ? .text : .json), file: report)

        let child = try start(path, environment)
        let end = child.wait(every: Self.pollMilliseconds) { read(&reader, into: &sink) }
        read(&reader, into: &sink)
        if let rest = reader.finish() { handle(rest, &sink) }
        sink.finish()
        return conclude(child, end, sink)
    }

    private func conclude(_ child: ChildProcess, _ end: ChildProcess.End, _ sink: FindingSink) -> Int32 {
        if let failure = sink.failure {
            Output.warn("cannot write report '\(visible(arguments.value("--report") ?? ""))': \(failure)")
        }
        if !arguments.has("--quiet") { Output.error(closingLine(child, sink.groups)) }
        return end.status == 0 && !sink.groups.findings.isEmpty ? exitStatus : end.status
    }

    private func closingLine(_ child: ChildProcess, _ groups: FindingGroups) -> String {
        if groups.findings.isEmpty { return TextRenderer.mark + "no findings\n" }
        let report = arguments.value("--report").map { ", written to '\(visible($0))'" } ?? ""
        let program = visible(arguments.operands[0])
        return TextRenderer.mark + "\(groups.summary) in \(program) [\(child.processID)]\(report)\n"
    }

    private func openReport() throws(Failure) -> Descriptor? {
        guard let path = arguments.value("--report") else { return nil }
        do throws(SystemError) {
            return try Descriptor(opening: path, flags: O_WRONLY | O_CREAT | O_TRUNC, mode: 0o666)
        } catch {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        }
    }

    // The file exists before the program starts; every guarded process appends to it.
    private func open(_ raw: String) throws(Failure) -> Descriptor {
        do throws(SystemError) {
            return try Descriptor(opening: raw, flags: O_RDONLY | O_CREAT | O_EXCL, mode: 0o600)
        } catch {
            throw Failure("cannot create '\(visible(raw))': \(error)", status: ExitStatus.cannotGuard)
        }
    }

    private func start(_ path: String, _ environment: ChildEnvironment) throws(Failure) -> ChildProcess {
        // The program's words are passed on byte for byte: Swift's own copies of them are repaired to UTF-8.
        let count = Int(CommandLine.argc) - arguments.operands.count
        let words = (count..<Int(CommandLine.argc)).map { CommandLine.unsafeArgv[$0] }
        do throws(SystemError) {
            guard path == arguments.operands[0], let word = words[0] else {
                return try ChildProcess(path: path, arguments: words, environment: environment)
            }
            return try ChildProcess(path: word, arguments: words, environment: environment)
        } catch {
            let status = error.number == ENOENT ? ExitStatus.notFound : ExitStatus.cannotRun
            throw Failure("cannot run '\(visible(arguments.operands[0]))': \(error)", status: status)
        }
    }

    private func read(_ reader: inout FindingReader, into sink: inout FindingSink) {
        while let entry = try? reader.next() { handle(entry, &sink) }
    }

    private func handle(_ entry: FindingReader.Entry, _ sink: inout FindingSink) {
        switch entry {
        case .finding(let finding, _): sink.add(finding)
        case .timeline: break
        case .skipped(let line, let reason): Output.warn("raw finding \(line) is skipped: \(reason)")
        }
    }
}
