// Writes the findings of a run to standard error, a report file or pipe, or a report store.

import Glibc
import ZombieGuard

/// Writes the report of a run. Streamed formats are written finding by finding, other formats at the end.
struct FindingSink {
    private enum Destination {
        case standardError
        case file(ReportFileWriter)
        /// A pipe or a device.
        case pipe(PipeWriter)
        /// The file of standard output or standard error, which the program writes to as well, so it is never
        /// truncated.
        case stream(Descriptor, path: String)
        case store(ReportStore, ReportWriter)
        /// Nothing is written: another sink gets the findings later.
        case none

        /// Descriptor that determines colors and width of the text; -1 if the report is no text.
        var descriptor: Int32 {
            switch self {
            case .standardError: STDERR_FILENO
            case .file(let writer): writer.descriptor
            case .pipe(let pipe): pipe.descriptor
            case .stream(let file, _): file.number
            case .store, .none: -1
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
    /// Path of the finished report; nil if there is none.
    private(set) var place: String?
    /// Why the report is incomplete; contains no control characters.
    private(set) var failure: String?
    /// Number of complete findings in an incomplete report; nil if the report is complete, or there is none.
    private(set) var stored: Int?
    /// The file of raw findings that is kept beside the report until the report is complete; nil if there is none.
    private var kept: RunFindings?
    /// Number of findings printed on standard error because writing the report failed.
    private(set) var printed = 0

    /// Opens the destination named by `--report`, before the program is started.
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
                    hint: "'zguard report \(visible(path)) --format \(format.rawValue)' converts them")
            }
            let store = ReportStore(directory: path, retention: try arguments.retention())
            do throws(StoreError) {
                destination = .store(store, try store.open(program: arguments.operands[0]))
            } catch {
                throw .usage("\(error)")
            }
            Self.completeReports(of: store)
            // Prunes before and after each run, so that reports of killed runs do not accumulate. An error does not
            // prevent the run; pruning at the end reports it.
            _ = try? store.prune()
            format = .json
            renderer = options.renderer(for: -1)
            return
        }
        format = options.format ?? .json
        do {
            destination = try Self.open(path)
        } catch let error as UntrustedFile {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        } catch {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        }
        renderer = options.renderer(for: destination.descriptor)
    }

    /// A sink that writes nothing.
    init(withoutDestinationFor options: ReportOptions) {
        self.options = options
        destination = .none
        format = .json
        renderer = options.renderer(for: -1)
        compresses = false
        sampling = nil
    }

    private static func open(_ path: String) throws -> Destination {
        let access: ReportFileAccess
        do {
            access = try ReportFileAccess(opening: path)
        } catch let error as SystemError {
            // ENXIO: the path is a FIFO without a reader yet.
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

    // If the file is also standard output or error, returns a duplicate of that stream, which shares its file offset.
    // With separate offsets, the program and the report would overwrite each other.
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

    /// Resolved path of the report, beside which raw findings are kept until the report is complete; nil if there is no
    /// file.
    var keptPath: String? {
        switch destination {
        case .file(let writer): writer.resolvedPath
        case .store(_, let writer): writer.path
        case .standardError, .pipe, .stream, .none: nil
        }
    }

    /// Resolved path of the report file, beside which an earlier run may have left findings; nil for other
    /// destinations.
    var recoverablePath: String? { if case .file(let writer) = destination { writer.resolvedPath } else { nil } }

    /// Sets the raw findings that stay beside the report until it is complete, and the name of the file that will
    /// replace a report file.
    mutating func keep(_ findings: RunFindings?) {
        kept = findings
        guard case .file(var writer) = destination else { return }
        writer.replacement = findings?.replacement
        destination = .file(writer)
    }

    /// Truncates the report file. Called only when the program runs: if the program cannot be started, an earlier
    /// report stays.
    mutating func begin() {
        guard case .file(var writer) = destination else { return }
        writer.begin()
        destination = .file(writer)
    }

    /// Whether the report contains the timeline of the heap.
    var drawsTimeline: Bool {
        if case .store = destination { return true }
        return format == .html
    }

    /// Adds the first finding of a group; nil stands for a repeated finding.
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

    // Prints a finding on standard error because writing it to the report failed.
    private mutating func print(_ finding: Finding) {
        Output.error(options.renderer(for: STDERR_FILENO).render(finding))
        printed += 1
    }

    /// Writes as much to a pipe as fits without blocking.
    mutating func flush() {
        guard case .pipe(var pipe) = destination else { return }
        do throws(SystemError) { try pipe.write() } catch { failure = failure ?? describe(error) }
        destination = .pipe(pipe)
    }

    private mutating func write(_ finding: Finding) throws {
        switch destination {
        case .standardError: Output.error(onNewLine(text(of: finding)))
        case .file(var writer):
            defer { destination = .file(writer) }
            try writer.append(text(of: finding))
        case .pipe(var pipe):
            defer { destination = .pipe(pipe) }
            try pipe.append(text(of: finding))
        case .stream(let file, _): try file.write(onNewLine(text(of: finding)))
        case .store(_, let writer): try writer.append(finding.jsonLine)
        case .none: break
        }
    }

    /// Writes a report whose findings are all known. A report file is replaced, so that this function may be called
    /// again with a later report; for any other destination it must be called once.
    mutating func write(_ document: ReportDocument, of process: pid_t) {
        if isFile {
            hasRepeats = true // rewrites the file
        } else {
            for finding in document.findings { add(finding) }
        }
        finish(document, of: process)
    }

    /// Whether the destination is a regular file.
    var isFile: Bool { if case .file = destination { true } else { false } }

    /// Completes the report, with the number of occurrences of each finding.
    mutating func finish(_ document: ReportDocument, of process: pid_t) {
        do {
            // Rewriting the report also writes findings whose earlier writes failed.
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
        case .standardError, .stream, .none: break
        }
        // If neither the report nor the raw file contains the findings, prints them, unless all were printed when they
        // were added.
        let areMissing = !(kept?.hasAll ?? false) && (!format.isStreamed || stored == 0)
        guard areMissing, printed < document.findings.count else { return }
        printed = 0
        for finding in document.findings { print(finding) }
    }

    // Adds a line about the end of the run to a JSON report. Not needed if the program exited by itself, died of its
    // own signal, or a finding explains the end.
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
        case .store, .none: break
        }
    }

    /// Completes the report. Returns whether it was rewritten completely.
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
            // A streamed format was already written finding by finding.
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
        case .none: return false
        }
    }

    // Closes the report even after errors. Closing deletes the report if it is empty; otherwise other runs may prune it
    // once it is old.
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

    // Removes the stacks of those findings that `sampling` does not select. `counts` includes this run's report, so 1
    // is subtracted.
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

    // GitHub accepts an annotation only at the beginning of a line, and the program may have left an unfinished line.
    private func onNewLine(_ text: String) -> String { format == .github ? "\n" + text : text }

    private func describe(_ error: any Error) -> String {
        switch destination {
        case .file(let writer): "cannot write report '\(visible(writer.path))': \(error)"
        case .pipe(let pipe): "cannot write report '\(visible(pipe.path))': \(pipe.describe(error))"
        case .stream(_, let path): "cannot write report '\(visible(path))': \(error)"
        case .standardError, .store, .none: "\(error)"
        }
    }
}
