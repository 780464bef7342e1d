// Ships complete reports from directories to a destination of a fleet (`zguard collect`).

import Glibc
import ZombieGuard

/// Reads report directories and ships findings that one destination does not have yet.
public final class Collector {
    /// The result of a pass.
    public struct PassResult: Hashable, Sendable {
        /// Findings that were sent.
        public var sent = 0
        /// Findings that the destination did not have before. If the destination does not detect duplicates, every
        /// finding counts as new.
        public var new = 0
        /// Reports that were read.
        public var files = 0
        /// Reports that are still being written. A later pass ships them.
        public var pending = 0
        /// Lines that are not findings.
        public var skipped = 0
    }

    private let directories: [String]
    private let name: String
    private let destination: any Destination
    private let sender: ShippedFinding.Sender
    private let redaction: Redaction?
    private let sampling: Sampling?
    /// Called with problems that do not end the pass.
    private let warn: (String) -> Void
    /// Attempts at an operation that fails temporarily; nil: unlimited.
    private let attempts: Int?

    private var counts: [String: Int64] = [:]
    private var batch: [ShippedFinding] = []
    private var batchBytes = 0
    private var warned: Set<String> = []
    /// Progress entries to record after the destination has received the batch.
    private var marks: [(name: String, entry: ShippingProgress.Entry)] = []

    private static let maxBatchCount = 1000
    private static let mostBytes = 8 << 20
    private static let maxCachedCounts = 1 << 18
    private static let longestPause = 60.0

    /// - Parameters:
    ///   - directories: paths of report directories.
    ///   - target: the destination; see ``FleetAddress``.
    ///   - sender: identity of this machine.
    ///   - redaction: rules that remove private data from findings; nil: none.
    ///   - sampling: decides which findings are sent as counts only; nil: all are sent whole.
    ///   - tokenFile: path of the file with the token for an HTTP receiver; nil: none.
    ///   - attempts: attempts at an operation that fails temporarily; nil: unlimited.
    ///   - warn: called with problems that do not end the pass; the texts are safe to print.
    /// - Throws: ``FleetError`` if the destination cannot be set up.
    public init(
        from directories: [String], to target: FleetAddress, sender: ShippedFinding.Sender, redaction: Redaction? = nil,
        sampling: Sampling? = nil, tokenFile: String? = nil, attempts: Int? = 5, warn: @escaping (String) -> Void
    ) throws(FleetError) {
        self.directories = directories
        name = "\(target.name) \(sender.tenant)"
        destination = try target.destination(sender, tokenFile: tokenFile)
        self.sender = sender
        self.redaction = redaction
        self.sampling = sampling
        self.attempts = attempts
        self.warn = warn
    }

    /// Reads every directory once and ships new findings.
    ///
    /// - Parameter retention: what the destination keeps; nil: everything.
    /// - Returns: counts of what was done.
    /// - Throws: ``FleetError`` if a directory cannot be read or the destination refuses the findings.
    public func pass(pruning retention: Retention? = nil) throws -> PassResult {
        // Forget the batch of a failed pass: its findings are read again.
        batch = []
        batchBytes = 0
        marks = []
        var passed = PassResult()
        var failure: FleetError?
        for path in directories {
            // An unreadable directory must not keep the findings of other directories from being shipped. The error is
            // thrown at the end.
            let directory: StoreDirectory
            let files: [ReportFile]
            do throws(StoreError) {
                directory = try StoreDirectory(opening: path)
                files = try complete(ReportStore(directory: path), &passed)
            } catch {
                failure = FleetError("\(error)")
                continue
            }
            try ship(files, in: directory, &passed)
        }
        if let retention { try retrying { () throws(FleetError) in try self.destination.prune(retention) } }
        // Close the connection, because a server may have very many idle shippers.
        destination.reset()
        if let failure { throw failure }
        return passed
    }

    /// Returns the complete reports. First completes the reports of runs whose zguard was killed, by adding the raw
    /// findings that these runs left behind.
    private func complete(_ store: ReportStore, _ passed: inout PassResult) throws(StoreError) -> [ReportFile] {
        let completed = try store.completeReports(warn: warnOnce)
        if completed.findings > 0 {
            let findings = completed.findings == 1 ? "1 finding is" : "\(completed.findings) findings are"
            warn("\(findings) added to reports in '\(visible(store.directory))' of runs whose zguard was killed")
        }
        return try store.files().filter { file in
            if file.remains.isEmpty { return true }
            // The guarded process still runs and may add findings to the report.
            passed.pending += 1
            return false
        }
    }

    private func ship(_ files: [ReportFile], in directory: StoreDirectory, _ passed: inout PassResult) throws {
        var progress = ShippingProgress(destination: name, in: directory)
        progress.keep(only: Set(files.map(\.name)))
        for file in files {
            do {
                if let known = progress.entries[file.name], known.written == file.written.rawValue,
                    known.size == file.size, known.inode == file.inode
                {
                    continue
                }
                guard let opened = try open(file, in: directory, &passed) else { continue }
                passed.files += 1
                let source = Source(
                    file: file, descriptor: opened.descriptor, status: opened.status,
                    resumed: progress.entries[file.name])
                try read(source, &progress, directory, &passed)
            } catch let error as SystemError {
                warnOnce("cannot read report '\(visible(file.path))': \(error)")
            }
        }
        try flush(&progress, directory, &passed)
        save(&progress, directory)
    }

    /// Opens a report that no process is writing; nil if its writer holds the lock, or if the report was removed.
    private func open(_ file: ReportFile, in directory: StoreDirectory, _ passed: inout PassResult) throws(SystemError)
        -> (
            descriptor: Descriptor, status: stat
        )?
    {
        let descriptor: Descriptor
        do throws(SystemError) { descriptor = try directory.open(file.name) } catch {
            if error.number == ENOENT { return nil }
            throw error
        }
        // While its writer holds the lock, a report in a store grows, and is rewritten at the end of its run.
        if file.started != nil, !file.isCompressed, flock(descriptor.number, LOCK_SH | LOCK_NB) != 0,
            errno == EWOULDBLOCK
        {
            passed.pending += 1
            return nil
        }
        guard let status = descriptor.status, let named = directory.regularFile(file.name),
            named.st_ino == status.st_ino
        else {
            return nil
        }
        return (descriptor, status)
    }

    /// A report that is being read.
    private struct Source {
        var file: ReportFile
        var descriptor: Descriptor
        var status: stat
        var resumed: ShippingProgress.Entry?

        /// Digest of up to 256 bytes before an offset.
        func digest(before offset: UInt64) -> String {
            let count = min(offset, 256)
            var digest = Digest()
            digest.add((try? descriptor.read(at: offset - count, upTo: Int(count))) ?? [])
            return digest.digits(8)
        }
    }

    private func read(
        _ source: Source, _ progress: inout ShippingProgress, _ directory: StoreDirectory, _ passed: inout PassResult
    ) throws {
        let file = source.file
        let written = Timestamp(source.status.st_mtim)
        var start: (offset: UInt64, lines: Int) = (0, 0)
        if let known = source.resumed, !file.isCompressed, known.inode == source.status.st_ino, known.offset > 0,
            known.offset <= UInt64(max(0, source.status.st_size)), known.digest == source.digest(before: known.offset),
            lseek(source.descriptor.number, off_t(known.offset), SEEK_SET) >= 0
        {
            start = (known.offset, known.lines)
        }
        var reader = FindingReader(file: source.descriptor)
        var line = start.lines
        func mark(isWhole: Bool) {
            let offset = file.isCompressed ? 0 : start.offset + reader.offset
            marks.append(
                (
                    file.name,
                    ShippingProgress.Entry(
                        inode: UInt64(source.status.st_ino), offset: offset, lines: line,
                        written: isWhole ? written.rawValue : 0,
                        size: isWhole ? UInt64(max(0, source.status.st_size)) : 0,
                        digest: file.isCompressed ? "" : source.digest(before: offset))
                ))
        }
        while let entry = try reader.next() ?? (file.started != nil ? reader.finish() : nil) {
            switch entry {
            case .finding(let finding, let number):
                line = start.lines + number
                let shipped = ShippedFinding(
                    finding, text: reader.text, source: "\(sender.host)/\(file.name)", line: line, written: written,
                    sender: sender, redaction: redaction)
                if let shipped {
                    batch.append(try sampled(shipped))
                    batchBytes += shipped.line.utf8.count
                } else {
                    passed.skipped += 1
                    warnOnce("'\(visible(file.path))' line \(line) is not shipped: it cannot be redacted")
                }
            case .timeline(_, let number), .run(_, let number): line = start.lines + number
            case .skipped(let number, let reason):
                line = start.lines + number
                passed.skipped += 1
                warnOnce("'\(visible(file.path))' line \(line) is not shipped: \(reason)")
            }
            if batch.count >= Self.maxBatchCount || batchBytes >= Self.mostBytes {
                if !file.isCompressed { mark(isWhole: false) }
                try flush(&progress, directory, &passed)
            }
        }
        if let problem = reader.problem { warnOnce("'\(visible(file.path))' was read only in part: \(problem)") }
        mark(isWhole: true)
    }

    private func sampled(_ finding: ShippedFinding) throws(FleetError) -> ShippedFinding {
        guard let sampling else { return finding }
        let key = "\(finding.tenant)/\(finding.signature)"
        if counts.count > Self.maxCachedCounts { counts = [:] }
        var count = counts[key] ?? 0
        if counts[key] == nil {
            try retrying { () throws(FleetError) in
                count = try self.destination.count(of: finding.signature, tenant: finding.tenant)
            }
        }
        counts[key] = count + 1
        return sampling.keeps(at: finding.place, after: count) ? finding : finding.thinned
    }

    /// Sends the batch, then records its reports as shipped.
    private func flush(
        _ progress: inout ShippingProgress, _ directory: StoreDirectory, _ passed: inout PassResult
    ) throws(FleetError) {
        if !batch.isEmpty {
            var new = 0
            try retrying { () throws(FleetError) in new = try self.destination.send(self.batch) }
            passed.sent += batch.count
            passed.new += new
            batch = []
            batchBytes = 0
            for mark in marks { progress.set(mark.entry, for: mark.name) }
            marks = []
            save(&progress, directory)
        }
        for mark in marks { progress.set(mark.entry, for: mark.name) }
        marks = []
    }

    private func save(_ progress: inout ShippingProgress, _ directory: StoreDirectory) {
        do throws(SystemError) { try progress.save(in: directory) } catch {
            warnOnce("cannot save the shipping progress of '\(visible(directory.path))': \(error)")
        }
    }

    /// Repeats an operation that fails temporarily, with growing pauses.
    private func retrying(_ work: () throws(FleetError) -> Void) throws(FleetError) {
        var tried = 0
        var pause = 0.2
        while true {
            do throws(FleetError) {
                return try work()
            } catch {
                tried += 1
                guard error.isTemporary, attempts.map({ tried < $0 }) ?? true else { throw error }
                warnOnce("\(error); trying again")
                destination.reset()
                // Randomize the pause: shippers that failed together must not all reconnect together.
                usleep(useconds_t(pause * Double.random(in: 0.5...1) * 1e6))
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    // Suppresses repeated warnings.
    private func warnOnce(_ text: String) {
        if warned.count > 1000 { warned = [] }
        if warned.insert(text).inserted { warn(text) }
    }
}
