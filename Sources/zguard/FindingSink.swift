// Where the findings of a run go: standard error, a report file, or the report store.

import Glibc
import ZombieGuard

/// Writes the report of a run: findings as they come where the form allows it, everything at the end.
struct FindingSink {
    private enum Destination {
        case standardError
        case file(ReportFileWriter)
        /// A pipe or a device.
        case pipe(PipeWriter)
        /// What one of the standard streams leads to, which the program writes to as well: nothing of it is ever taken back.
        case stream(Descriptor, path: String)
        case store(ReportStore, ReportWriter)

        /// What text is laid out for; -1: nobody looks.
        var descriptor: Int32 {
            switch self {
            case .standardError: STDERR_FILENO
            case .file(let writer): writer.descriptor
            case .pipe(let pipe): pipe.descriptor
            case .stream(let file, _): file.number
            case .store: -1
            }
        }
    }

    private var destination: Destination
    private let format: ReportFormat
    private let options: ReportOptions
    private let renderer: TextRenderer
    private var hasRepeats = false
    private let compresses: Bool
    private let sampling: Sampling?
    /// Where the report is, once it is finished; nil where there is none.
    private(set) var place: String?
    /// Why the report is not what it should be; safe to print.
    private(set) var failure: String?
    /// Findings that are in the report, whole; nil where it has all of them, or there is none.
    private(set) var stored: Int?
    /// What is kept beside the report until that is complete; nil where nothing is.
    private var kept: RunFindings?
    /// Findings that were printed on standard error because the report did not take them.
    private(set) var printed = 0

    /// Opens what `--report` names. Throws where that is not possible, before anything runs.
    init(_ arguments: Arguments, _ options: ReportOptions) throws(Failure) {
        self.options = options
        compresses = arguments.has("--compress")
        sampling = try arguments.sampling()
        let path = arguments.value("--report")
        let isStore = path.map(ReportStore.isNamed(by:)) ?? false
        if !isStore, let flag = (Arguments.keepFlags + ["--keep-share", "--compress"]).first(where: arguments.has) {
            throw .usage(
                "option '\(flag)' needs '--report' with a directory",
                hint: path.map { "--report \(visible($0))/" } ?? "--report DIR/")
        }
        guard let path else {
            destination = .standardError
            format = options.format ?? .text
            renderer = options.renderer(for: STDERR_FILENO)
            return
        }
        if isStore {
            if let format = options.format, format != .json {
                throw .usage(
                    "a report store holds json lines, not \(format.rawValue)",
                    hint: "'zguard report \(visible(path)) --format \(format.rawValue)' makes it of them")
            }
            let store = ReportStore(directory: path, retention: try arguments.retention())
            do throws(StoreError) {
                destination = .store(store, try store.open(program: arguments.operands[0]))
            } catch {
                throw .usage("\(error)")
            }
            Self.completeReports(of: store)
            // Before and after each run, so that those of runs that are killed do not pile up. No reason to refuse a run: what
            // keeps the store from being pruned is said at the end.
            _ = try? store.prune()
            format = .json
            renderer = options.renderer(for: -1)
            return
        }
        format = options.format ?? .json
        do {
            destination = try Self.open(path)
        } catch let error as ForeignFile {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        } catch {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        }
        renderer = options.renderer(for: destination.descriptor)
    }

    private static func open(_ path: String) throws -> Destination {
        let access: ReportFileAccess
        do {
            access = try ReportFileAccess(opening: path)
        } catch let error as SystemError {
            // Nobody has opened a FIFO for reading yet.
            guard error.number == ENXIO else { throw error }
            return .pipe(PipeWriter(nil, path: path))
        }
        if let stream = try standardStream(sameAs: access.file) { return .stream(stream, path: path) }
        let isRegular = access.file.status.map { $0.st_mode & S_IFMT == S_IFREG } ?? false
        return isRegular
            ? .file(ReportFileWriter(access, path: path)) : .pipe(PipeWriter(access.file, path: path))
    }

    private static func completeReports(of store: ReportStore) {
        guard let completed = try? store.completeReports(warn: { Output.warn($0) }), completed.findings > 0 else {
            return
        }
        let reports = completed.reports == 1 ? "the report of a run" : "the reports of \(completed.reports) runs"
        let findings = counted(completed.findings, "finding")
        Output.warn("\(findings) added to \(reports) in '\(visible(store.directory))': zguard was killed")
    }

    // With the position that is the stream's own: by another one, program and report would overwrite each other.
    private static func standardStream(sameAs file: Descriptor) throws(SystemError) -> Descriptor? {
        guard let status = file.status else { throw .last }
        for number in [STDOUT_FILENO, STDERR_FILENO] {
            var stream = stat()
            guard fstat(number, &stream) == 0, stream.st_ino == status.st_ino, stream.st_dev == status.st_dev else {
                continue
            }
            let copy = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
            if copy < 0 { throw .last }
            return Descriptor(adopting: copy)
        }
        return nil
    }

    /// The file that raw findings are kept beside until the report is complete, without links in its path; nil where there is none.
    var keptPath: String? {
        switch destination {
        case .file(let writer): writer.resolvedPath
        case .store(_, let writer): writer.path
        case .standardError, .pipe, .stream: nil
        }
    }

    /// Where findings of an earlier run may have been left: beside a file that is written anew.
    var recoverablePath: String? { if case .file(let writer) = destination { writer.resolvedPath } else { nil } }

    /// What is kept beside the report, if it is.
    mutating func keep(_ findings: RunFindings?) {
        kept = findings
        guard case .file(var writer) = destination else { return }
        writer.replacement = findings?.replacement
        destination = .file(writer)
    }

    /// The program runs: what an earlier report left in the file goes. Until then it stays, as the program may not start.
    mutating func begin() {
        guard case .file(var writer) = destination else { return }
        writer.begin()
        destination = .file(writer)
    }

    /// Whether the report wants to know of the heap's history.
    var drawsTimeline: Bool {
        if case .store = destination { return true }
        return format == .html
    }

    /// Takes the first finding of a group; nil stands for one that is not.
    mutating func add(_ new: Finding?) {
        guard let new else {
            hasRepeats = true
            return
        }
        guard format.isStreamed else { return }
        do { try write(new) } catch {
            failure = failure ?? describe(error)
            print(new)
        }
    }

    // It shall be seen somewhere.
    private mutating func print(_ finding: Finding) {
        Output.error(options.renderer(for: STDERR_FILENO).render(finding))
        printed += 1
    }

    /// Writes what a slow reader can take now.
    mutating func flush() {
        guard case .pipe(var pipe) = destination else { return }
        do throws(SystemError) { try pipe.write() } catch { failure = failure ?? describe(error) }
        destination = .pipe(pipe)
    }

    private mutating func write(_ finding: Finding) throws {
        switch destination {
        case .standardError: Output.error(onLineOfItsOwn(text(of: finding)))
        case .file(var writer):
            defer { destination = .file(writer) }
            try writer.append(text(of: finding))
        case .pipe(var pipe):
            defer { destination = .pipe(pipe) }
            try pipe.append(text(of: finding))
        case .stream(let file, _): try file.write(onLineOfItsOwn(text(of: finding)))
        case .store(_, let writer): try writer.append(finding.jsonLine)
        }
    }

    /// Completes the report, with how often each finding came.
    mutating func finish(_ document: ReportDocument, of process: pid_t) {
        do {
            // What could not be written line by line may be there now.
            if try complete(document) { failure = nil }
            try writeRun(document, process)
        } catch {
            failure = failure ?? describe(error)
        }
        if failure == nil { return }
        switch destination {
        case .file(let writer): stored = (try? writer.checkPresence()) == nil ? 0 : writer.findings
        case .pipe(let pipe): stored = pipe.findings
        case .store(_, let writer): stored = writer.lines
        case .standardError, .stream: break
        }
        // Nothing has them: neither the report nor the file beside it. Some may have been printed when they were added.
        let areMissing = !(kept?.hasAll ?? false) && (!format.isStreamed || stored == 0)
        guard areMissing, printed < document.findings.count else { return }
        printed = 0
        for finding in document.findings { print(finding) }
    }

    // JSON lines have no other place for how the run ended. Nothing is said where the program ended by itself, also by a signal, or of
    // what a finding tells.
    private mutating func writeRun(_ document: ReportDocument, _ process: pid_t) throws {
        guard format == .json, let end = document.end, end.needsExplanation, end.cause != .program else { return }
        let run = RunLine(program: document.title ?? "", processID: Int(process), end: end)
        switch destination {
        case .file(var writer):
            defer { destination = .file(writer) }
            try writer.append(run.jsonLine + "\n", findings: 0)
        case .pipe(var pipe):
            defer { destination = .pipe(pipe) }
            try pipe.append(run.jsonLine + "\n", findings: 0)
            try pipe.finish()
        case .stream(let file, _): try file.write(run.jsonLine + "\n")
        case .standardError: Output.error(run.jsonLine + "\n")
        case .store: break
        }
    }

    /// Returns whether the report was written anew.
    private mutating func complete(_ document: ReportDocument) throws -> Bool {
        switch destination {
        case .standardError:
            if !format.isStreamed {
                options.write(document, in: format, for: STDERR_FILENO) { text, _ in Output.error(text) }
            }
            return false
        case .file(var writer):
            defer { destination = .file(writer) }
            place = writer.path
            try writer.checkPresence()
            if format.isStreamed && !hasRepeats && failure == nil { return false }
            try writer.rewrite { (put) throws(SystemError) in try write(document, to: put) }
            return true
        case .pipe(var pipe):
            defer { destination = .pipe(pipe) }
            place = pipe.path
            // Of a form that is streamed it has been given each finding once.
            if !format.isStreamed {
                try write(document) { (text: String, count: Int) throws(SystemError) in
                    try pipe.append(text, findings: count)
                }
            }
            try pipe.finish()
            return false
        case .stream(let file, let path):
            place = path
            if !format.isStreamed {
                try write(document) { (text: String, _: Int) throws(SystemError) in try file.write(text) }
            }
            return false
        case .store(let store, let writer):
            return try finish(writer, of: store, document)
        }
    }

    // Whatever fails, the report is closed: one without a line goes, and others may remove it once it is old.
    private mutating func finish(_ writer: ReportWriter, of store: ReportStore, _ document: ReportDocument) throws
        -> Bool
    {
        let lines = sampled(document.findings, store).map(\.jsonLine) + document.timeline.map(\.jsonLine)
        let replaced = Result { if !document.findings.isEmpty { try writer.replace(lines) } }
        let closed = Result { try writer.close(compressed: compresses) }
        let pruned = Result { _ = try store.prune() }
        place = try closed.get()
        for result in [replaced, pruned] { try result.get() }
        return true
    }

    // This run's report is among those that are counted.
    private func sampled(_ findings: [Finding], _ store: ReportStore) -> [Finding] {
        guard let sampling, !findings.isEmpty else { return findings }
        let counts = try? store.counts(of: Set(findings.compactMap(\.signature)), upTo: sampling.first + 1)
        return findings.map { finding in
            let others = (finding.signature.flatMap { counts?[$0] } ?? 0) - 1
            return sampling.keeps(at: .random(in: 0..<1), after: others) ? finding : finding.thinned
        }
    }

    private func write(_ document: ReportDocument, to put: ReportFileWriter.Put) throws(SystemError) {
        try options.write(document, in: format, for: destination.descriptor, to: put)
    }

    private func text(of finding: Finding) -> String {
        switch format {
        case .text: renderer.render(finding)
        case .github: options.annotations.line(for: finding)
        default: finding.jsonLine + "\n"
        }
    }

    // GitHub reads a command at the beginning of a line only, and the program may have left one unfinished.
    private func onLineOfItsOwn(_ text: String) -> String { format == .github ? "\n" + text : text }

    private func describe(_ error: any Error) -> String {
        switch destination {
        case .file(let writer): "cannot write report '\(visible(writer.path))': \(error)"
        case .pipe(let pipe): "cannot write report '\(visible(pipe.path))': \(pipe.describe(error))"
        case .stream(_, let path): "cannot write report '\(visible(path))': \(error)"
        case .standardError, .store: "\(error)"
        }
    }
}
