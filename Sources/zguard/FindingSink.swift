// Where the findings of a run go: standard error, a report file, or the report store.

import Glibc
import ZombieGuard

/// Writes the report of a run: findings as they come where the form allows it, everything at the end.
struct FindingSink {
    private enum Destination {
        case standardError
        case file(Descriptor, path: String)
        /// What one of the standard streams leads to, which the program writes to as well: nothing of it is ever taken back.
        case stream(Descriptor, path: String)
        case store(ReportStore, ReportWriter)
    }

    private let destination: Destination
    private let format: ReportFormat
    private let options: ReportOptions
    private let renderer: TextRenderer
    private var hasRepeats = false
    private let compresses: Bool
    private let sampling: Sampling?
    /// The file that the report is in, once it is finished; nil where there is none.
    private(set) var place: String?
    /// Why the report is not what it should be; safe to print.
    private(set) var failure: String?

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
            // Before and after each run, so that those of runs that are killed do not pile up. No reason to refuse a run: what
            // keeps the store from being pruned is said at the end.
            _ = try? store.prune()
            format = .json
            renderer = options.renderer(for: -1)
            return
        }
        do throws(SystemError) {
            let file = try Descriptor(opening: path, flags: O_WRONLY | O_CREAT, mode: 0o666)
            if let stream = try Self.standardStream(sameAs: file) {
                destination = .stream(stream, path: path)
            } else {
                destination = .file(file, path: path)
            }
            format = options.format ?? .json
            renderer = options.renderer(for: file.number)
        } catch {
            throw .usage("cannot write report '\(visible(path))': \(error)")
        }
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

    /// The program runs: what an earlier report left in the file goes. Until then it stays, as the program may not start.
    func begin() {
        if case .file(let file, _) = destination { ftruncate(file.number, 0) }
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
            Output.error(options.renderer(for: STDERR_FILENO).render(new)) // it shall be seen somewhere
        }
    }

    private func write(_ finding: Finding) throws {
        switch destination {
        case .standardError: Output.error(onLineOfItsOwn(text(of: finding)))
        case .file(let file, _): try file.write(text(of: finding))
        case .stream(let file, _): try file.write(onLineOfItsOwn(text(of: finding)))
        case .store(_, let writer): try writer.append(finding.jsonLine)
        }
    }

    /// Completes the report, with how often each finding came.
    mutating func finish(_ document: ReportDocument) {
        do {
            // What could not be written line by line may be there now.
            if try complete(document) { failure = nil }
        } catch {
            failure = failure ?? describe(error)
        }
    }

    /// Returns whether the report was written anew.
    private mutating func complete(_ document: ReportDocument) throws -> Bool {
        switch destination {
        case .standardError:
            if !format.isStreamed {
                options.write(document, in: format, for: STDERR_FILENO) { Output.error($0) }
            }
            return false
        case .file(let file, let path):
            try checkPresence(of: file, at: path)
            place = path
            if format.isStreamed && !hasRepeats && failure == nil { return false }
            return try rewrite(file, document)
        case .stream(let file, let path):
            place = path
            if !format.isStreamed { try write(document, to: file) }
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

    // Whoever removes the report while the program runs shall not hear that it was written.
    private func checkPresence(of file: Descriptor, at path: String) throws(SystemError) {
        var named = stat()
        guard stat(path, &named) == 0 else { throw .last }
        if let status = file.status, status.st_ino != named.st_ino || status.st_dev != named.st_dev {
            throw SystemError(number: ENOENT)
        }
    }

    // What is no regular file, such as a pipe, has been given each finding once and is left at that.
    private func rewrite(_ file: Descriptor, _ document: ReportDocument) throws(SystemError) -> Bool {
        let isRegular = file.status.map { $0.st_mode & S_IFMT == S_IFREG } ?? false
        if !isRegular, format.isStreamed { return false }
        if isRegular {
            guard ftruncate(file.number, 0) == 0, lseek(file.number, 0, SEEK_SET) == 0 else { throw .last }
        }
        try write(document, to: file)
        return true
    }

    private func write(_ document: ReportDocument, to file: Descriptor) throws(SystemError) {
        try options.write(document, in: format, for: file.number) { text throws(SystemError) in try file.write(text) }
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
        case .file(_, let path), .stream(_, let path): return "cannot write report '\(visible(path))': \(error)"
        case .standardError, .store: return "\(error)"
        }
    }
}
