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
        let unnamed = fileThatSwiftCannotName()
        let path = try unnamed.map { "/proc/self/fd/\($0.number)" } ?? check.resolve(name)
        try check.check(path, name: name)
        let reporting = try ReportOptions(arguments)
        var sink = try FindingSink(arguments, reporting)

        let temporary = try TemporaryDirectory()
        defer { temporary.remove() }
        let raw = "\(temporary.path)/findings"
        let environment = ChildEnvironment.guarding(library: library, options: options.text(reportPath: raw))
        let file = try open(raw)
        let unwritten = try countUnwritten(raw)
        var reader = FindingReader(file: file)
        var intake = FindingIntake(reporting)

        let child = try start(unnamed == nil ? path : name, environment)
        sink.begin()
        var timeline = TimelineRecorder(processID: Int(child.processID))
        let end = child.wait(every: Self.pollMilliseconds) {
            read(&reader, &intake, &sink)
            if sink.drawsTimeline { timeline.look() }
        }
        read(&reader, &intake, &sink)
        while let rest = reader.finish() { handle(rest, &intake, &sink) }
        sink.finish(
            intake.document(
                timeline: timeline.samples, title: arguments.operands[0], exitStatus: end.status,
                unwritten: unwritten.count))
        return conclude(child, end, intake, sink, unwritten: unwritten.count)
    }

    private func conclude(
        _ child: ChildProcess, _ end: ChildProcess.End, _ intake: FindingIntake, _ sink: FindingSink, unwritten: Int
    ) -> Int32 {
        if let failure = sink.failure { Output.warn(failure) }
        if !arguments.has("--quiet") {
            if let unused = intake.unusedSuppressions { Output.warn(unused) }
            Output.error(closingLine(child, intake, sink, unwritten))
        }
        return end.status == 0 && !(intake.groups.findings.isEmpty && unwritten == 0) ? exitStatus : end.status
    }

    private func closingLine(
        _ child: ChildProcess, _ intake: FindingIntake, _ sink: FindingSink, _ unwritten: Int
    ) -> String {
        let isEmpty = intake.groups.findings.isEmpty
        if isEmpty, unwritten == 0 { return TextRenderer.mark + intake.groups.summary + "\n" }
        let program = "\(visible(arguments.operands[0])) [\(child.processID)]"
        let findings = "\(unwritten) finding\(unwritten == 1 ? "" : "s")"
        if isEmpty { return TextRenderer.mark + "\(findings) in \(program) that could not be written\n" }
        let report = sink.place.map { ", written to '\(visible($0))'" } ?? ""
        let more = unwritten == 0 ? "" : ", and \(findings) that could not be written"
        return TextRenderer.mark + "\(intake.groups.summary) in \(program)\(report)\(more)\n"
    }

    private func countUnwritten(_ raw: String) throws(Failure) -> UnwrittenFindings {
        do throws(SystemError) {
            return try UnwrittenFindings(besides: raw, mode: TemporaryDirectory.fileMode)
        } catch {
            throw Failure(
                "cannot create '\(visible(raw + UnwrittenFindings.suffix))': \(error)",
                status: ExitStatus.cannotGuard)
        }
    }

    // The file exists before the program starts; every guarded process appends to it.
    private func open(_ raw: String) throws(Failure) -> Descriptor {
        do throws(SystemError) {
            let file = try Descriptor(opening: raw, flags: O_RDONLY | O_CREAT | O_EXCL, mode: 0o600)
            fchmod(file.number, TemporaryDirectory.fileMode)
            return file
        } catch {
            throw Failure("cannot create '\(visible(raw))': \(error)", status: ExitStatus.cannotGuard)
        }
    }

    // The program's words as they were given: Swift's own copies of them are repaired to UTF-8.
    private var words: [UnsafeMutablePointer<CChar>?] {
        let count = Int(CommandLine.argc) - arguments.operands.count
        return (count..<Int(CommandLine.argc)).map { CommandLine.unsafeArgv[$0] }
    }

    // The program's file where its path is not UTF-8; nil otherwise, or where there is none.
    private func fileThatSwiftCannotName() -> Descriptor? {
        guard let word = words[0], strchr(word, Int32(UInt8(ascii: "/"))) != nil, String(validatingCString: word) == nil
        else { return nil }
        let file = Glibc.open(word, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        return file < 0 ? nil : Descriptor(adopting: file)
    }

    private func start(_ path: String, _ environment: ChildEnvironment) throws(Failure) -> ChildProcess {
        let words = self.words
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

    private func read(_ reader: inout FindingReader, _ intake: inout FindingIntake, _ sink: inout FindingSink) {
        while let entry = try? reader.next() { handle(entry, &intake, &sink) }
    }

    private func handle(_ entry: FindingReader.Entry, _ intake: inout FindingIntake, _ sink: inout FindingSink) {
        switch entry {
        case .finding(let finding, _):
            sink.add(intake.add(finding))
            for note in intake.newNotes() { Output.warn(note) }
        case .timeline: break
        case .skipped(let line, let reason): Output.warn("raw finding \(line) is skipped: \(reason)")
        }
    }
}
