// A directory of reports, one file a run.

import Glibc

/// A finished or growing report in a store.
public struct ReportFile: Hashable, Sendable {
    /// Of the file in the directory.
    public var name: String
    /// The directory's path, and ``name``.
    public var path: String
    /// When the run began; nil for files that the store did not name.
    public var started: Timestamp?
    /// When its last line was written.
    public var written: Timestamp
    /// In bytes, as it lies on the disk.
    public var size: UInt64
    /// Whether it is packed by gzip.
    public var isCompressed: Bool
    /// The file system's number of it.
    package var inode: UInt64
    /// Raw findings that it lacks, because the zguard of the run was killed.
    package var remains: [RunRemains] = []
}

/// A directory with one file of JSON lines a run. Several processes may write, read and prune it at the same time, and each
/// may die at any moment.
public struct ReportStore: Sendable {
    /// How reports are listed, by when their runs began.
    public enum Order: Sendable {
        /// Those of the oldest runs come first.
        case oldestFirst
        /// Those of the newest runs come first.
        case newestFirst
    }

    /// Path without slashes at its end.
    public let directory: String
    /// Which reports stay.
    public let retention: Retention

    /// Names a store; nothing is opened or made. Slashes at the end of the path mean nothing.
    ///
    /// - Parameters:
    ///   - directory: path of the store.
    ///   - retention: which reports stay.
    public init(directory: String, retention: Retention = .standard) {
        var directory = directory
        while directory.count > 1, directory.hasSuffix("/") { directory.removeLast() }
        self.directory = directory
        self.retention = retention
    }

    /// Begins the report of a run. Makes the directory where it does not exist.
    ///
    /// - Parameters:
    ///   - program: whose run it is; part of the file's name.
    ///   - processID: whose run it is.
    /// - Returns: a writer of the new report.
    /// - Throws: ``StoreError`` where it cannot be made.
    public func open(program: String, processID: Int = Int(getpid())) throws(StoreError) -> ReportWriter {
        let name = ReportName(program: program, processID: processID)
        return try ReportWriter(directory: StoreDirectory(creating: directory), name: name)
    }

    /// The reports that were written to since then: those of the store itself, and whatever else in it is called .jsonl or
    /// .jsonl.gz, such as what the runtime wrote with report_path; and what runs whose zguard was killed left beside a report of another
    /// form. Links and what is no regular file are left out.
    ///
    /// - Parameters:
    ///   - since: leaves out what was written to before; nil: nothing.
    ///   - order: by when the runs began.
    /// - Returns: the reports.
    /// - Throws: ``StoreError`` where the directory cannot be read.
    public func files(since: Timestamp? = nil, order: Order = .oldestFirst) throws(StoreError) -> [ReportFile] {
        let directory = try StoreDirectory(opening: directory)
        let names = try names(in: directory)
        let all = Set(names)
        var files: [ReportFile] = []
        let remains = Dictionary(grouping: names) { RunRemains.report(of: $0) ?? "" }
        for name in names where !name.hasPrefix(".") {
            let isCompressed = name.hasSuffix(ReportName.compressedExtension)
            if let report = RunRemains.report(of: name) {
                // Of a report that is here, it is read with that.
                let isBeside = [report, report + ".gz"].contains { directory.regularFile($0) != nil }
                guard !report.hasSuffix(ReportName.plainExtension) || !isBeside,
                    RunRemains(name, in: directory) != nil
                else { continue }
            } else if !isCompressed, !name.hasSuffix(ReportName.plainExtension) {
                continue
            }
            // For a moment a report lies there as both.
            let own = ReportName.parse(name)?.name
            if isCompressed, let own, all.contains(own.plain) { continue }
            guard let status = directory.regularFile(name) else { continue }
            var file = ReportFile(
                name: name, path: "\(self.directory)/\(name)", started: own?.started,
                written: Timestamp(status.st_mtim), size: UInt64(max(0, status.st_size)), isCompressed: isCompressed,
                inode: UInt64(status.st_ino))
            let plain = isCompressed ? String(name.dropLast(".gz".count)) : name
            file.remains = (remains[plain] ?? []).compactMap { RunRemains($0, in: directory) }
            if since.map({ file.written >= $0 }) ?? true { files.append(file) }
        }
        files.sort { ($0.written, $0.name) < ($1.written, $1.name) }
        return order == .oldestFirst ? files : files.reversed()
    }

    /// Reads a report that `files` named; nil where it has been removed meanwhile.
    ///
    /// - Parameter file: a report of this store.
    /// - Returns: a reader at its beginning; nil where it is gone.
    /// - Throws: ``StoreError`` where it cannot be opened.
    public func reader(of file: ReportFile) throws(StoreError) -> FindingReader? {
        let directory = try StoreDirectory(opening: directory)
        // Between the look and this it may have been compressed.
        let names = [file.name] + (ReportName.parse(file.name).map { [$0.name.compressed] } ?? [])
        for name in names {
            do throws(SystemError) {
                let opened = try directory.open(name)
                if let status = opened.status, status.st_mode & S_IFMT != S_IFREG { continue }
                return FindingReader(file: opened)
            } catch {
                if error.number != ENOENT { throw StoreError("read report", file.path, error) }
            }
        }
        return nil
    }

    /// What a prune did.
    public struct Pruned: Hashable, Sendable {
        /// Reports that were removed, and their size on the disk.
        public var removed = 0
        /// Their size on the disk, in bytes.
        public var bytes: UInt64 = 0
        /// What dead processes had left half done.
        public var remains = 0
        /// Another process kept the store locked: nothing was done.
        public var isPostponed = false
    }

    /// Removes the oldest reports that the retention does not keep. Only files that the store itself named; none that is being
    /// written. The newest stays even where it alone is larger than the limit, unless it is too old.
    ///
    /// - Parameter now: what ages are counted from.
    /// - Returns: what was removed.
    /// - Throws: ``StoreError`` where the directory cannot be read or changed.
    @discardableResult
    public func prune(now: Timestamp = .now) throws(StoreError) -> Pruned {
        let directory = try StoreDirectory(opening: directory)
        do throws(SystemError) {
            // Two at once would each remove what is over the limit. Nobody waits for one that is stopped.
            guard let lock = try directory.lock(seconds: 1) else { return Pruned(isPostponed: true) }
            defer { withExtendedLifetime(lock) {} }
            var pruner = Pruner(directory: directory, retention: retention, now: now)
            try pruner.run()
            return pruner.pruned
        } catch {
            throw StoreError("prune report directory", self.directory, error)
        }
    }

    private func names(in directory: StoreDirectory) throws(StoreError) -> [String] {
        do throws(SystemError) {
            return try directory.names()
        } catch {
            throw StoreError("read report directory", self.directory, error)
        }
    }
}
