// zguard report: merges and prints raw and finished reports, report stores, databases and core files.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct ReportCommand {
    private let paths: [String]
    private let options: ReportOptions
    private let format: ReportFormat
    private let suggests: Bool
    private let filter: FleetFilter
    /// Path of the executable that belongs to a core file.
    private let program: String?

    /// Maximum number of skipped lines per file that are listed.
    private static let namedLines = 5

    init(_ arguments: Arguments) throws(Failure) {
        paths = arguments.operands
        options = try ReportOptions(arguments)
        format = options.format ?? .text
        suggests = arguments.has("--suggest")
        if suggests, let format = options.format, format != .text {
            throw .usage("options '--suggest' and '--format \(format.rawValue)' exclude each other")
        }
        var filter = FleetFilter()
        filter.since = try arguments.since()
        filter.kind = arguments.value("--kind")
        filter.program = arguments.value("--program")
        filter.host = arguments.value("--host")
        filter.signature = arguments.value("--signature")
        filter.newSince = arguments.value("--new-since")
        filter.tenant = arguments.value("--tenant")
        filter.states = try arguments.states()
        if let text = arguments.value("--search") {
            do throws(ValueError) { try FleetSearch.add(text, to: &filter) } catch {
                throw .usage("option '--search' has the bad value '\(visible(text))': expected \(error.expected)")
            }
        }
        self.filter = filter
        program = filter.program
    }

    func run() throws -> Int32 {
        var contents = Contents(options)
        var status = ExitStatus.success
        // An unreadable report does not keep other reports from being shown.
        for path in paths {
            do throws(Failure) {
                try read(path, into: &contents)
                contents.readable += 1
            } catch {
                Output.print(error)
                contents.isComplete = false
                status = error.status
            }
        }
        if contents.readable == 0 { return status }
        let intake = selected(contents.intake)
        for note in intake.notes { Output.warn(note) }
        if suggests {
            for (number, finding) in intake.groups.findings.enumerated() {
                Output.out((number > 0 ? "\n" : "") + Suppressions.suggestion(for: finding) + "\n")
            }
            return status
        }
        let document = intake.document(
            isComplete: contents.isComplete, timeline: contents.timeline, run: .init(end: contents.runs.first?.end))
        options.write(document, in: format, for: STDOUT_FILENO) { text, _ in Output.out(text) }
        if format == .text {
            for run in contents.runs {
                guard let text = run.end.text else { continue }
                Output.out(TextRenderer.mark + "\(visible(run.program)) [\(run.processID)]: \(text)\n")
            }
            Output.out(TextRenderer.mark + intake.groups.summary + "\n")
        }
        if let unused = intake.unusedSuppressions { Output.warn(unused) }
        return status
    }

    /// Reads all paths and returns their findings, one for each group of equal findings.
    func findings() throws(Failure) -> [Finding] {
        var contents = Contents(options)
        for path in paths { try read(path, into: &contents) }
        return selected(contents.intake).groups.findings
    }

    private func selected(_ intake: FindingIntake) -> FindingIntake {
        var intake = intake
        let groups = intake.groups
        // Databases have searched the stored texts. Do not search again: symbol names that are known only now would
        // change the result.
        let isSearched = paths.allSatisfy { (try? FleetAddress($0))?.isDatabase ?? false }
        intake.keep { [filter] finding in
            if !isSearched, !filter.acceptsTexts(of: finding) { return false }
            if let signature = filter.signature, !finding.isSigned(signature) { return false }
            guard filter.isNew(finding) else { return false }
            let state = finding.triage.flatMap { Triage.State(rawValue: $0.state) } ?? .open
            if !filter.states.isEmpty, !filter.states.contains(state) { return false }
            return filter.newSince.map { !groups.wasStored(finding, before: $0) } ?? true
        }
        return intake
    }

    // MARK: Reading

    /// Collects the contents of all files.
    private struct Contents {
        var intake: FindingIntake
        var timeline: [TimelineSample] = []
        /// Triage states in the store that is being read, by group signature.
        var triage: [String: Triage] = [:]
        /// How runs ended, if no finding explains the end; in the order of the files.
        var runs: [RunLine] = []
        var isComplete = true
        /// Number of readable files and directories.
        var readable = 0

        private static let mostSamples = 20_000

        init(_ options: ReportOptions) { intake = FindingIntake(options) }

        /// Adds a finding, with its triage state if it comes from a store.
        mutating func add(_ finding: Finding) {
            var finding = finding
            if !triage.isEmpty {
                var signed = finding
                if signed.signature == nil { signed.addSignature() }
                finding.triage = triage[signed.signature ?? ""]?.note
            }
            intake.add(finding)
        }

        mutating func add(_ sample: TimelineSample) {
            if timeline.count < Self.mostSamples { timeline.append(sample) }
        }
    }

    private static let keptCore = "coredump:"

    private func read(_ path: String, into contents: inout Contents) throws(Failure) {
        if path.hasPrefix(Self.keptCore) {
            return try readCore(keptCore(of: String(path.dropFirst(Self.keptCore.count))), into: &contents)
        }
        if isCore(path) { return try readCore(path, into: &contents) }
        if let address = try? FleetAddress(path), address.isDatabase { return try read(address, into: &contents) }
        let isReadable: Bool
        let isStore: Bool
        let remains = UnfinishedFindings.beside(path)
        do throws(SystemError) {
            let file = try Descriptor(opening: path)
            isStore = file.isDirectory
            isReadable = isStore ? true : try read(FindingReader(file: file), path, into: &contents, remains)
        } catch {
            // If zguard was killed early, there may be only raw findings and no report.
            guard error.number == ENOENT, !remains.isEmpty else {
                throw Failure("cannot read report '\(visible(path))': \(error)")
            }
            readRemains(remains, beside: nil, path, into: &contents)
            return
        }
        if !isReadable { throw Failure("'\(visible(path))' holds no finding that this version can read") }
        if isStore { try readStore(path, into: &contents) }
    }

    private func isCore(_ path: String) -> Bool {
        guard let file = try? Descriptor(opening: path, flags: O_RDONLY | O_NONBLOCK), !file.isDirectory else {
            return false
        }
        return CoreFile.mayBeCore(file)
    }

    private func keptCore(of wanted: String) throws(Failure) -> String {
        do throws(SystemError) {
            if let path = try KeptCores().newest(of: wanted) { return path }
        } catch {
            throw Failure("cannot read directory '\(KeptCores.usualDirectory)': \(error)")
        }
        throw Failure(
            "systemd-coredump has kept no core file of '\(visible(wanted))'",
            hint: "list them with: coredumpctl list")
    }

    private func readCore(_ path: String, into contents: inout Contents) throws(Failure) {
        do throws(CoreError) {
            let core = try CoreFile(opening: path, program: program)
            guard let crash = CrashInCore(core) else {
                throw core.isCutOff
                    ? CoreError.damaged(path, "its signal information is truncated")
                    : CoreError.notCore(path, "one that no signal caused")
            }
            let (finding, notes) = crash.finding()
            for note in notes { Output.warn(note) }
            contents.intake.add(finding)
        } catch {
            throw Failure(error.description, hint: error.hint)
        }
    }

    private static let mostGroups = 10_000

    private func read(_ address: FleetAddress, into contents: inout Contents) throws(Failure) {
        do throws(FleetError) {
            let reader = try FleetReader(address)
            contents.triage = try states(reader)
            contents.intake.use(SymbolStore(address, tenant: filter.tenant))
            defer { contents.triage = [:] }
            var groups = try reader.groups(filter, limit: Self.mostGroups + 1)
            if groups.isEmpty, filter.signature != nil {
                // Search without the signature: findings may get this signature only when their symbols are known.
                var wider = filter
                wider.signature = nil
                groups = try reader.groups(wider, limit: Self.mostGroups + 1)
            }
            if groups.count > Self.mostGroups {
                Output.warn(
                    "'\(visible(address.name))' holds more than \(Self.mostGroups) groups: the most frequent are shown"
                )
            }
            for group in groups.prefix(Self.mostGroups) {
                guard let finding = group.finding else {
                    contents.isComplete = false
                    continue
                }
                contents.add(finding)
            }
        } catch {
            throw Failure("\(error)", hint: error.hint)
        }
    }

    private func readStore(_ path: String, into contents: inout Contents) throws(Failure) {
        contents.triage = try triage(in: path)
        contents.intake.use(SymbolStore(.directory(path), tenant: filter.tenant))
        defer { contents.triage = [:] }
        do throws(StoreError) {
            let store = ReportStore(directory: path)
            for file in try store.files(since: filter.since) {
                // The reader is nil if another process has pruned the file meanwhile.
                guard let reader = try store.reader(of: file) else { continue }
                do throws(SystemError) { _ = try read(reader, file.path, into: &contents, file.remains) } catch {
                    contents.isComplete = false // the other reports are worth reading
                    Output.warn("cannot read report '\(visible(file.path))': \(error)")
                }
            }
        } catch {
            throw Failure("\(error)")
        }
    }

    private func states(_ reader: FleetReader) throws(FleetError) -> [String: Triage] {
        // A filter by state needs the decisions: without them, it would show the wrong findings.
        if !filter.states.isEmpty { try reader.requireTriage() }
        return try reader.triage(filter.tenant)
    }

    // The triage states in a directory, by signature. The states depend on the number and times of a group's findings,
    // so the directory is read once for the states and once for the findings.
    private func triage(in path: String) throws(Failure) -> [String: Triage] {
        if !TriageStore.exists(in: path) { return [:] }
        do throws(FleetError) {
            return try FleetSource(.directory(path)).ask { (reader) throws(FleetError) in try states(reader) }
        } catch {
            let failure = Failure(
                "what was decided about the findings in '\(visible(path))' cannot be read: \(error)", hint: error.hint)
            if !filter.states.isEmpty { throw failure }
            Output.warn(failure.message, hint: failure.hint)
            return [:]
        }
    }

    /// Reads raw findings that are missing in the report because zguard was killed.
    private func readRemains(
        _ remains: [UnfinishedFindings], beside report: FindingReader?, _ path: String, into contents: inout Contents
    ) {
        for one in remains {
            var missing = 0
            do {
                try one.forEachFinding(missingIn: report) { finding, _, _ in
                    missing += 1
                    if filter.accepts(finding) { contents.add(finding) }
                }
            } catch {
                contents.isComplete = false
                Output.warn(
                    "cannot read '\(visible(one.path))', which a run whose zguard was killed has left: \(error)")
            }
            let findings = counted(missing, "finding")
            Output.warn(
                "'\(visible(path))' belongs to a run whose zguard was killed\(one.isGrowing ? ", and whose program still runs" : ""): "
                    + "\(findings) \(missing == 1 ? "is" : "are") read from '\(visible(one.path))'")
        }
    }

    /// Reads a report and its remaining raw findings. Returns false if the file has contents but no findings.
    private func read(
        _ reader: FindingReader, _ path: String, into contents: inout Contents, _ remains: [UnfinishedFindings]
    ) throws(SystemError) -> Bool {
        if remains.isEmpty { return try read(reader, path, into: &contents) }
        // The report may have any format and may end anywhere. The raw file also contains the report's findings, but
        // without symbol names.
        var reader = reader
        while let entry = try reader.next() ?? reader.finish() {
            if case .finding(let finding, _) = entry, filter.accepts(finding) { contents.intake.add(finding) }
        }
        let again = try? Descriptor(opening: path)
        readRemains(remains, beside: again.map { FindingReader(file: $0) }, path, into: &contents)
        return true
    }

    private func read(_ reader: FindingReader, _ path: String, into contents: inout Contents) throws(SystemError)
        -> Bool
    {
        var reader = reader
        var found = 0
        var skipped = 0
        while let entry = try reader.next() ?? reader.finish() {
            switch entry {
            case .finding(let finding, _):
                found += 1
                if filter.accepts(finding) { contents.add(finding) }
            case .timeline(let sample, _): contents.add(sample)
            case .run(let run, _): contents.runs.append(run)
            case .skipped(let line, let reason):
                skipped += 1
                if skipped <= Self.namedLines {
                    Output.warn("'\(visible(path))' line \(line) is skipped: \(reason)")
                }
            }
        }
        if skipped > Self.namedLines {
            Output.warn("'\(visible(path))': \(skipped - Self.namedLines) more lines are skipped")
        }
        if let problem = reader.problem { Output.warn("'\(visible(path))' was read only in part: \(problem)") }
        if skipped > 0 || reader.problem != nil { contents.isComplete = false }
        return found > 0 || skipped == 0 || reader.hasTruncatedFinding
    }
}

extension ReportCommand {
    static let command = Command(
        name: "report", operands: "PATH…", operandCount: 1...Int.max,
        text:
            "merge and print reports, raw or finished, directories of reports, databases (sqlite:FILE, postgresql://…), and crashes in core files (coredump:PID and coredump:PROGRAM are core files kept by systemd)",
        flags: [
            .format, .suppressions,
            Flag(name: "--suggest", text: "print suppression rules for the findings instead of the findings"),
            Flag(
                name: "--since", value: .required("AGE"),
                text: "only findings since then: 2d, 12h, 2026-11-20, 2026-11-20T10:00Z"),
            Flag(
                name: "--kind", value: .required("TEXT"), text: "only findings of this kind, such as use-after-free"
            ),
            Flag(
                name: "--program", value: .required("PATH"),
                text: "only findings of this program: its path or its name; of a core file, where its executable is"
            ),
            Flag(name: "--host", value: .required("TEXT"), text: "only findings of this machine"),
            Flag(name: "--signature", value: .required("TEXT"), text: "only the findings with this signature"),
            .state,
            Flag(
                name: "--search", value: .required("TEXT"),
                text:
                    "only findings with these words and terms: 'cart class:Cart member:add function:main host:web-7 version:1.10 since:7d until:2026-11-20'"
            ),
            Flag(
                name: "--new-since", value: .required("TEXT"),
                text: "only bugs that no version of the program before this one had"),
            Flag(
                name: "--tenant", value: .required("TEXT"),
                text: "tenant whose findings are read from a database (default: default)"),
            .full, .symbols,
        ],
        run: { try ReportCommand($0).run() })
}
