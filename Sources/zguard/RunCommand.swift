// zguard run: starts a program with the runtime preloaded, and writes the findings.

import CSystem
import Glibc
import ZombieGuard

struct RunCommand {
    private let arguments: Arguments
    private let exitStatus: Int32
    /// Required percentage of watched pairs; nil if not given.
    private let requiredCoverage: Double?
    private let options: RuntimeOptions
    /// Allocation stacks of which every block is isolated.
    private let focus: Focus
    /// Takes the outcome if this run is one of several; nil for a single run, which writes its own report.
    private let series: RunSeries?

    private static let pollMilliseconds: Int32 = 200
    /// Required and desired limit on open files. During a run, zguard opens twelve files and the modules that findings
    /// mention.
    private static let leastDescriptors: UInt64 = 16, wantedDescriptors: UInt64 = 256

    /// A run of the program, by itself or as one of several with the same arguments.
    init(_ arguments: Arguments, focus: Focus, in series: RunSeries? = nil) throws(Failure) {
        self.arguments = arguments
        self.focus = focus
        self.series = series
        exitStatus = try Self.exitStatus(arguments.value("--exit-code"))
        requiredCoverage = try arguments.value("--require-coverage").map { text throws(Failure) in
            try Self.percentage(text)
        }
        options = try RuntimeOptions(
            inherited: Preload.environment(RuntimeOptions.variable), profile: arguments.value("--profile"),
            given: (arguments.value("--collect").map { ["collect=\($0)"] } ?? [])
                + (try OnlyPrograms.option(arguments.values["--only"] ?? []).map { [$0] } ?? [])
                + (arguments.has("--coverage") ? RunPairs.options : [])
                + (arguments.values["-o"] ?? []))
    }

    /// Parses "90%", "90" or "99.5%": 0 to 100 with at most one decimal.
    static func percentage(_ text: String) throws(Failure) -> Double {
        let number = text.hasSuffix("%") ? text.dropLast() : text[...]
        let fraction = number.split(separator: ".").dropFirst().first
        guard let value = Double(digits: number), fraction?.count ?? 1 == 1, value <= 100 else {
            throw .usage(
                "option '--require-coverage' has the bad value '\(visible(text))': expected 0% to 100%")
        }
        return value
    }

    static func exitStatus(_ text: String?) throws(Failure) -> Int32 {
        guard let text else { return ExitStatus.findings }
        guard let status = Int32(digits: text), (0...255).contains(status) else {
            throw .usage("option '--exit-code' has the bad value '\(visible(text))': expected 0 to 255")
        }
        return status
    }

    func run() throws -> Int32 {
        // All checks are made before files are created and the program is started.
        let library = try Preload.library()
        let pairs = try RunPairs(arguments)
        let unnamed = fileThatSwiftCannotName()
        let (path, executed) = try program(unnamed)
        var reporting = try ReportOptions(arguments)
        reporting.symbols.program = SymbolSources.resolved(path)
        let most = zg_system_raise_descriptors(Self.wantedDescriptors)
        if most < Self.leastDescriptors { throw execWithoutZGuard(executed, library, limit: most) }
        var sink = try series?.sink(arguments, reporting) ?? FindingSink(arguments, reporting)

        let directory = try Self.createDirectory()
        var kept: RunFindings?
        var isKept = false // keep the raw findings, because the report is incomplete
        // Remove the raw findings last: if zguard is killed before, all findings are still beside the report.
        defer { if !isKept { kept?.remove() } }
        defer { directory.remove() }
        try pairs?.tell(directory)
        var raw = try RawFindings(in: directory, report: sink.keptPath)
        kept = raw.kept
        sink.keep(raw.kept)
        let filters = SystemCallFilters()
        let environment = try environment(library, directory, filters)
        let unwritten = try count(directory.unwritten)
        let untold = try count(directory.untold)
        let observers = RunObservers(directory, options, searchesLeaks: arguments.has("--leaks"))
        var intake = FindingIntake(reporting)
        let recovered = RecoveredFindings(beside: sink, reporting)
        var socket = try? RunSocket(at: directory.socket, mode: RunDirectory.fileMode)
        let child = try start(executed, environment)
        // Call after the program's start: the call makes libc handle SIGRTMIN+1, so no child would inherit it ignored.
        if filters == nil { zg_system_hold_event() }
        sink.begin()
        raw.kept?.begin()
        for finding in recovered.findings { sink.add(finding) }
        var timeline = TimelineRecorder(processID: Int(child.processID))
        observers.begin(child.processID)
        var end = child.wait(every: observers.milliseconds ?? Self.pollMilliseconds, or: socket?.descriptor ?? -1) {
            for message in socket?.receive() ?? [] { addOwn(observers.answer(message), kept, &intake, &sink) }
            raw.look()
            addOwn(observers.look(), kept, &intake, &sink)
            if read(&raw, &intake, &sink, observers, of: child.processID) > 0 {
                observers.coverage?.tell(shown: intake.entries)
            }
            sink.flush()
            if sink.drawsTimeline { timeline.look() }
        }
        // zguard does not wait for processes that outlive the program. Closing the socket makes them print their later
        // findings themselves. Their earlier findings are already in the file.
        socket = nil
        let claimed = observers.coverage?.written ?? 0
        let last = observers.finish(end)
        for note in last.notes { Output.warn(note) }
        addOwn(last.findings, kept, &intake, &sink)
        readRest(&raw, &intake, &sink, observers, of: child.processID)
        addOwn(observers.leftInHandlers(end), kept, &intake, &sink)
        explain(&end, isInHandler: observers.isInHandler, child, intake)
        // Includes findings that were lost because a process truncated the file: fewer were read than processes have
        // counted on the coverage page.
        let lost = unwritten.count + max(claimed - intake.entries, 0)
        if raw.wasCut {
            Output.warn("a process of the run truncated the file of raw findings: findings may be missing")
        }
        var result = FindingIntake.RunResult(
            end: end, exitStatus: end.status, unwritten: lost, coverage: observers.coverage?.coverage)
        result.coverage?.unknownProcesses = untold.count
        pairs?.add(from: directory)
        if result.coverage == nil { result.unknown = [Self.unknownText] }
        let outcome = RunOutcome(
            processID: child.processID, result: result, intake: intake, timeline: timeline.samples, filters: filters)
        var document = outcome.document(title: arguments.operands[0])
        document.findings = recovered.findings + document.findings
        sink.finish(document, of: child.processID)
        isKept = sink.failure != nil
        if !isKept { recovered.remove() }
        series?.outcome = outcome
        let place = isKept && raw.kept?.hasAll ?? false ? raw.kept?.path : nil
        return series == nil ? conclude(outcome, sink, rawFindings: place) : status(of: outcome)
    }

    private func environment(
        _ library: String, _ directory: RunDirectory, _ filters: SystemCallFilters?
    ) throws -> ChildEnvironment {
        ChildEnvironment.guarding(
            library: library,
            options: options.text(
                reportPath: directory.findings, focusPath: try focus.write(in: directory),
                maySuppress: arguments.values["--suppressions"] != nil),
            filters: filters)
    }

    /// Prints warnings and the closing line of a run whose report is written. Returns zguard's exit status.
    func conclude(_ outcome: RunOutcome, _ sink: FindingSink, rawFindings: String? = nil) -> Int32 {
        if let failure = sink.failure { Output.warn(failure) }
        if let lack = outcome.result.coverage.flatMap(focus.lack) { Output.warn(lack) }
        if !arguments.has("--quiet") { printClosing(outcome, closing(outcome, sink, rawFindings)) }
        return status(of: outcome)
    }

    // The program's path, and the name by which it is executed. Throws if the program cannot be guarded.
    private func program(_ unnamed: Descriptor?) throws -> (path: String, executed: String) {
        let name = arguments.operands[0]
        let check = ProgramCheck(searchPath: Preload.environment("PATH"))
        let path = try unnamed.map { "/proc/self/fd/\($0.number)" } ?? check.resolve(name)
        try check.check(path, name: name)
        return (path, unnamed == nil ? path : name)
    }

    /// Creates the run's directory in the first of these that is writable: TMPDIR, /tmp, /var/tmp, /dev/shm, and the
    /// current directory. Skips paths that are too long or contain a colon, which separates ZGUARD_OPTIONS. A minimal
    /// root file system may lack /tmp and /var/tmp; even read-only containers have /dev/shm.
    private static func createDirectory() throws(Failure) -> RunDirectory {
        let places = [Preload.environment("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", Preload.workingDirectory()]
        let candidates = places.compactMap { $0 }
        for candidate in candidates
        where candidate.hasPrefix("/") && !candidate.contains(":")
            && candidate.utf8.count <= RunDirectory.longestParent && access(candidate, W_OK | X_OK) == 0
        {
            do throws(SystemError) {
                return try RunDirectory(creatingIn: candidate)
            } catch {
                throw Failure(
                    "cannot create a directory in '\(visible(candidate))': \(error)", status: ExitStatus.cannotGuard)
            }
        }
        throw Failure(
            "cannot find a writable directory for temporary files",
            hint: "set TMPDIR, or mount a tmpfs on /tmp (docker run --tmpfs /tmp)", status: ExitStatus.cannotGuard)
    }

    // The coverage is unknown without /proc, through which the processes of a run open the coverage page.
    private static var unknownText: String {
        Coverage.unknownText + (OwnProgram.isInProc ? "" : ", because /proc is not mounted")
    }

    // Prints warnings, then the closing line.
    private func printClosing(_ outcome: RunOutcome, _ closing: String) {
        let result = outcome.result
        if let unused = outcome.intake.unusedSuppressions { Output.warn(unused) }
        var watched = result.coverage?.text ?? Self.unknownText
        if result.coverage == nil, result.end?.isFiltered ?? false {
            watched += ", because the program ran under a seccomp filter"
        }
        if let forbidden = outcome.filters?.forbidden, !forbidden.isEmpty {
            Output.warn(
                "a seccomp filter from before the start forbids \(forbidden.joined(separator: ", ")): fewer bugs are found; "
                    + "a service of systemd allows them with SystemCallFilter=\(forbidden.joined(separator: " "))")
        }
        let ended = result.end?.text.map { "; \($0)" } ?? ""
        Output.error(TextRenderer.mark + "\(closing); \(watched)\(ended)\n")
    }

    // The exit status of zguard.
    private func status(of outcome: RunOutcome) -> Int32 {
        let result = outcome.result
        if let status = result.exitStatus, status != 0 { return status }
        if outcome.intake.groups.findings.contains(where: isCounted) || result.unwritten > 0 { return exitStatus }
        return statusOfCoverage(result.coverage)
    }

    // Completes the cause of the program's end from the findings and the run's page. Status 0 is never explained by a
    // fault, even if the program exits in a fault handler.
    private func explain(_ end: inout ProgramEnd, isInHandler: Bool, _ child: ChildProcess, _ intake: FindingIntake) {
        let isOfCrash = end.cause == .program && end.status != 0
        if isInHandler, isOfCrash { end.cause = .handler }
        end.isExplained = intake.groups.findings.contains { finding in
            finding.processID == Int(child.processID)
                && ![.stall, .deadlock, .leak, .retainCycle].contains(finding.kind)
                && (isOfCrash || finding.crash != nil || finding.detail["ended_by"] != nil)
        }
    }

    // Whether a finding changes the exit status. A stall changes it only if the user asked for stalls: a slow service
    // has not failed because a profile collects stalls.
    private func isCounted(_ finding: Finding) -> Bool { finding.kind != .stall || options.userSetCollect }

    // If the coverage is below the required one, prints an error and returns the error's exit status.
    private func statusOfCoverage(_ coverage: Coverage?) -> Int32 {
        guard let requiredCoverage, !(coverage?.reaches(percent: requiredCoverage) ?? false) else {
            return ExitStatus.success
        }
        var watched = coverage.map(\.requirementText) ?? Self.unknownText
        if let more = coverage?.unknownProcesses, more > 0 {
            watched += ", and the coverage of some processes is unknown"
        }
        let required =
            requiredCoverage.rounded() == requiredCoverage ? "\(Int(requiredCoverage))" : "\(requiredCoverage)"
        Output.print(
            Failure("\(watched); '--require-coverage' asks for \(required) %", status: ExitStatus.coverage))
        return ExitStatus.coverage
    }

    /// The closing line: "no findings", or "2 findings (…) in prog [7], written to 'x'". Counts only findings that are
    /// in the report as written.
    private func closing(_ outcome: RunOutcome, _ sink: FindingSink, _ kept: String?) -> String {
        let intake = outcome.intake
        let unwritten = outcome.result.unwritten
        let isEmpty = intake.groups.findings.isEmpty
        if isEmpty, unwritten == 0 { return intake.groups.summary }
        let program = "\(visible(arguments.operands[0])) [\(outcome.processID)]"
        if isEmpty { return "\(counted(unwritten, "finding")) in \(program) that could not be written" }
        var text = "\(intake.groups.summary) in \(program)"
        if let stored = sink.stored {
            text += ", \(stored) of them in '\(visible(sink.place ?? "the report"))'"
            if sink.printed > 0 { text += ", \(sink.printed) printed only above, as text" }
            if let kept { text += "; all of them are in '\(visible(kept))'" }
        } else if let place = sink.place {
            text += ", written to '\(visible(place))'"
        }
        return text + (unwritten == 0 ? "" : ", and \(counted(unwritten, "finding")) that could not be written")
    }

    private func count(_ path: String) throws(Failure) -> SharedCounterFile {
        do throws(SystemError) {
            return try SharedCounterFile(path, mode: RunDirectory.fileMode)
        } catch {
            throw Failure("cannot create '\(visible(path))': \(error)", status: ExitStatus.cannotGuard)
        }
    }

    // The program's argument vector in its original bytes: Swift strings would replace invalid UTF-8.
    private var words: [UnsafeMutablePointer<CChar>?] {
        Array(OwnProgram.words.suffix(arguments.operands.count))
    }

    // Opens the program's file if its path is not valid UTF-8; nil if the path is valid or the file cannot be opened.
    private func fileThatSwiftCannotName() -> Descriptor? {
        guard let word = words[0], strchr(word, Int32(UInt8(ascii: "/"))) != nil, String(validatingCString: word) == nil
        else { return nil }
        let file = Glibc.open(word, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        return file < 0 ? nil : Descriptor(adopting: file)
    }

    // Replaces zguard by the guarded program, which prints its findings itself. Returns only on failure.
    private func execWithoutZGuard(_ path: String, _ library: String, limit: UInt64) -> Failure {
        let number = String(limit)
        if arguments.values["--report"] != nil {
            return Failure(
                "the limit on open files (ulimit -n \(number)) is too low to write a report",
                hint: "raise it, or leave out --report", status: ExitStatus.cannotGuard)
        }
        Output.warn(
            "the limit on open files (ulimit -n \(number)) is too low for zguard: the program runs guarded without zguard, and prints its findings itself"
        )
        let environment = ChildEnvironment.guarding(
            library: library, options: options.textWithoutReportPath, filters: SystemCallFilters())
        let words = self.words + [nil]
        zg_system_restore_descriptors()
        environment.withPointers { variables in
            if path == arguments.operands[0], let word = words[0] {
                _ = execve(word, words, variables)
            } else {
                _ = execve(path, words, variables)
            }
        }
        return Self.failure(toRun: arguments.operands[0], .last)
    }

    private static func failure(toRun name: String, _ error: SystemError) -> Failure {
        let status = error.number == ENOENT ? ExitStatus.notFound : ExitStatus.cannotRun
        return Failure("cannot run '\(visible(name))': \(error)", status: status)
    }

    private func start(_ path: String, _ environment: ChildEnvironment) throws(Failure) -> ChildProcess {
        let words = self.words
        do throws(SystemError) {
            guard path == arguments.operands[0], let word = words[0] else {
                return try ChildProcess(path: path, arguments: words, environment: environment)
            }
            return try ChildProcess(path: word, arguments: words, environment: environment)
        } catch {
            throw Self.failure(toRun: arguments.operands[0], error)
        }
    }

    // Handles the raw findings that have arrived. Returns their number.
    private func read(
        _ raw: inout RawFindings, _ intake: inout FindingIntake, _ sink: inout FindingSink, _ observers: RunObservers,
        of processID: pid_t
    ) -> Int {
        let before = intake.entries
        // First add findings that waited for the search for holders, so that a finding comes before its repeats.
        for finding in observers.holders?.ready() ?? [] { addRead(finding, &intake, &sink) }
        while let entry = raw.next() { handle(entry, &intake, &sink, observers, of: processID) }
        return intake.entries - before
    }

    // Handles the raw findings that are left when the program has ended.
    private func readRest(
        _ raw: inout RawFindings, _ intake: inout FindingIntake, _ sink: inout FindingSink, _ observers: RunObservers,
        of processID: pid_t
    ) {
        for finding in observers.holders?.ready(all: true) ?? [] { addRead(finding, &intake, &sink) }
        while let rest = raw.finish() { handle(rest, &intake, &sink, observers, of: processID) }
        for finding in observers.holders?.ready(all: true) ?? [] { addRead(finding, &intake, &sink) }
    }

    private func add(_ finding: Finding, _ intake: inout FindingIntake, _ sink: inout FindingSink) {
        sink.add(intake.add(finding))
        for note in intake.newNotes() { Output.warn(note) }
    }

    // Adds findings made by zguard itself, such as stalls, which are not in the file of raw findings.
    private func addOwn(
        _ findings: [Finding], _ kept: RunFindings?, _ intake: inout FindingIntake, _ sink: inout FindingSink
    ) {
        for finding in findings {
            kept?.isIncomplete = true
            add(finding, &intake, &sink)
        }
    }

    private func addRead(_ finding: Finding, _ intake: inout FindingIntake, _ sink: inout FindingSink) {
        intake.entries += 1
        add(finding, &intake, &sink)
    }

    private func handle(
        _ entry: FindingReader.Entry, _ intake: inout FindingIntake, _ sink: inout FindingSink,
        _ observers: RunObservers, of processID: pid_t
    ) {
        switch entry {
        case .finding(var finding, _):
            observers.crashes?.complete(&finding)
            // Under a seccomp filter, a process may be unable to determine its process ID or the time.
            if finding.processID ?? 0 == 0 { finding.processID = Int(processID) }
            if (finding.time.flatMap { Timestamp($0) }?.rawValue ?? 0) <= 0 { finding.time = Timestamp.now.description }
            // Do not count a finding that waits for the search for holders: the count tells the process that the
            // finding was shown.
            if !(observers.holders?.complete(&finding) ?? true) { return }
            add(finding, &intake, &sink)
        case .timeline, .run: break
        case .skipped(let line, let reason): Output.warn("raw finding \(line) is skipped: \(reason)")
        }
        intake.entries += 1
    }
}

extension RunCommand {
    static let command = Command(
        name: "run", operands: "PROGRAM [ARG…]", operandCount: 1...Int.max, takesProgram: true,
        text: "run a program with guarding on, and print the findings",
        flags: [
            Flag(
                name: "--profile", value: .choice(OptionTable.options.first { $0.name == "profile" }?.choices ?? []),
                text: "preset of runtime options"),
            Flag(
                name: "-o", value: .required("KEY=VALUE"), repeats: true,
                text: "set a runtime option; 'zguard options' lists them"),
            Flag(
                name: "--collect", value: .required("crashes|stalls"),
                text:
                    "also report, separated by commas: crashes (signals that end the program, with all its threads), stalls (threads that are busy instead of waiting for events)"
            ),
            Flag(
                name: "--only", value: .required("PROGRAM|PATH"), repeats: true,
                text:
                    "guard only programs with this name or path, in which * stands for anything (default: all, except build tools under swift build, package, run and test)"
            ),
            Flag(
                name: "--report", value: .required("PATH"),
                text: "write findings to a file, or to a directory that serves as report store"),
            Flag(
                name: "--format", value: .choice(ReportFormat.available),
                text:
                    "output format: text (default), json (JSON lines, default with --report), sarif, html, junit (XML) or github (annotations)"
            ),
            .suppressions, .full, .symbols,
            Flag(
                name: "--exit-code", value: .required("N"),
                text: "exit status if there were findings and the program itself exited with 0 (default 99)"),
            Flag(
                name: "--require-coverage", value: .required("PERCENT"),
                text:
                    "exit with 98 if fewer of the allocation and free pairs were watched, such as 90%, and nothing else went wrong"
            ),
            Flag(
                name: "--coverage", value: .required("DIR"),
                text: "add the allocation and free pairs of this run to a directory, for 'zguard coverage'"),
            Flag(
                name: "--leaks",
                text:
                    "when a process ends by itself, also report blocks that nothing leads to, and retain cycles of Swift objects"
            ),
            Flag(
                name: "--keep-age", value: .required("AGE"),
                text: "delete older reports in the directory, such as 12h; none: keep all (default 7d)"),
            Flag(
                name: "--keep-count", value: .required("N"),
                text: "keep at most N reports; none: no limit (default 1000)"),
            Flag(
                name: "--keep-bytes", value: .required("SIZE"),
                text: "keep at most SIZE of reports, such as 1g; none: no limit (default 256m)"),
            .keepShare,
            Flag(name: "--compress", text: "compress the report in the directory when the program exits"),
            Flag(
                name: "--pinpoint",
                text:
                    "after findings without the instruction of the access, such as late writes, run the program again with the same words, environment and directory, and watch all blocks of their allocation stacks; a regular file as standard input is read again from the same place, what was read from a pipe or terminal is gone"
            ),
            Flag(
                name: "--runs", value: .required("N"),
                text: "with --pinpoint: run the program at most N times (default 3)"),
            Flag(
                name: "--focus", value: .required("FINDING|SIGNATURE|STORE"), repeats: true,
                text:
                    "watch all blocks of the allocation stacks of these findings: a report, PATH#SIGNATURE for one finding in it, a directory of reports or database, or the signature of a finding in the report that --report names"
            ),
            Flag(name: "--quiet", text: "do not print the closing line"),
        ],
        run: { arguments in
            if arguments.has("--pinpoint") { return try Pinpoint(arguments).run() }
            return try RunCommand(arguments, focus: Focus(arguments)).run()
        })
}
