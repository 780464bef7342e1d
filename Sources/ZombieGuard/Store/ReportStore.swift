// A directory of reports, one file per run.

import Glibc

/// A finished or growing report in a store.
public struct ReportFile: Hashable, Sendable {
    /// Name of the file in the directory.
    public var name: String
    /// Path of the file: the directory's path and ``name``.
    public var path: String
    /// Start time of the run; nil if the store did not name the file.
    public var started: Timestamp?
    /// Time of the last write.
    public var written: Timestamp
    /// Size on disk in bytes.
    public var size: UInt64
    /// Whether the file is compressed with gzip.
    public var isCompressed: Bool
    /// Inode number of the file.
    package var inode: UInt64
    /// Files with raw findings that the report lacks, because zguard was killed during the run.
    package var remains: [UnfinishedFindings] = []
}

/// A directory with one file of JSON lines per run. Several processes may write, read and prune it at the same time,
/// and any of them may die at any moment.
public struct ReportStore: Sendable {
    /// Order of listed reports, by time of the last write.
    public enum Order: Sendable {
        /// The report written least recently comes first.
        case oldestFirst
        /// The report written most recently comes first.
        case newestFirst
    }

    /// Path of the directory, without trailing slashes.
    public let directory: String
    /// Limits on the reports to keep.
    public let retention: Retention

    /// Names a store. Opens and creates nothing. Trailing slashes of the path are removed.
    ///
    /// - Parameters:
    ///   - directory: path of the store.
    ///   - retention: limits on the reports to keep.
    public init(directory: String, retention: Retention = .standard) {
        var directory = directory
        while directory.count > 1, directory.hasSuffix("/") { directory.removeLast() }
        self.directory = directory
        self.retention = retention
    }

    /// Starts the report of a run. Creates a missing directory.
    ///
    /// - Parameters:
    ///   - program: path or name of the program; part of the file's name.
    ///   - processID: process id of the program; part of the file's name.
    /// - Returns: the writer of the new report.
    /// - Throws: ``StoreError`` if the report cannot be created.
    public func open(program: String, processID: Int = Int(getpid())) throws(StoreError) -> ReportWriter {
        let name = ReportName(program: program, processID: processID)
        return try ReportWriter(directory: StoreDirectory(creating: directory), name: name)
    }

    /// Lists reports: those of the store, other .jsonl and .jsonl.gz files (such as the runtime's report_path output),
    /// and files of raw findings from runs whose zguard was killed, if the report is missing or not in JSON lines.
    /// Leaves out symbolic links and everything else that is not a regular file.
    ///
    /// - Parameters:
    ///   - since: leaves out files last written before this time; nil leaves out none.
    ///   - order: order by time of the last write.
    /// - Returns: the reports.
    /// - Throws: ``StoreError`` if the directory cannot be read.
    public func files(since: Timestamp? = nil, order: Order = .oldestFirst) throws(StoreError) -> [ReportFile] {
        let directory = try StoreDirectory(opening: directory)
        let names = try names(in: directory)
        let all = Set(names)
        var files: [ReportFile] = []
        let remains = Dictionary(grouping: names) { UnfinishedFindings.report(of: $0) ?? "" }
        for name in names where !name.hasPrefix(".") {
            let isCompressed = name.hasSuffix(ReportName.compressedExtension)
            if let report = UnfinishedFindings.report(of: name) {
                // Raw findings beside an existing JSON report are read together with it.
                let isBeside = [report, report + ".gz"].contains { directory.regularFile($0) != nil }
                guard !report.hasSuffix(ReportName.plainExtension) || !isBeside,
                    UnfinishedFindings(name, in: directory) != nil
                else { continue }
            } else if !isCompressed, !name.hasSuffix(ReportName.plainExtension) {
                continue
            }
            // A report exists in both forms while it is being compressed: list only the plain file.
            let own = ReportName.parse(name)?.name
            if isCompressed, let own, all.contains(own.plain) { continue }
            guard let status = directory.regularFile(name) else { continue }
            var file = ReportFile(
                name: name, path: "\(self.directory)/\(name)", started: own?.started,
                written: Timestamp(status.st_mtim), size: UInt64(max(0, status.st_size)), isCompressed: isCompressed,
                inode: UInt64(status.st_ino))
            let plain = isCompressed ? String(name.dropLast(".gz".count)) : name
            file.remains = (remains[plain] ?? []).compactMap { UnfinishedFindings($0, in: directory) }
            if since.map({ file.written >= $0 }) ?? true { files.append(file) }
        }
        files.sort { ($0.written, $0.name) < ($1.written, $1.name) }
        return order == .oldestFirst ? files : files.reversed()
    }

    /// Opens a report that `files` returned.
    ///
    /// - Parameter file: a report of this store.
    /// - Returns: a reader at its beginning; nil if the report was removed meanwhile.
    /// - Throws: ``StoreError`` if it cannot be opened.
    public func reader(of file: ReportFile) throws(StoreError) -> FindingReader? {
        let directory = try StoreDirectory(opening: directory)
        // The report may have been compressed since it was listed.
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

    /// The result of a prune.
    public struct Pruned: Hashable, Sendable {
        /// Number of reports removed.
        public var removed = 0
        /// Size of the removed reports on disk, in bytes.
        public var bytes: UInt64 = 0
        /// Number of removed files that dead writers had left.
        public var remains = 0
        /// Whether another process held the store's lock, so that nothing was done.
        public var isPostponed = false
    }

    /// Removes the oldest reports beyond the retention limits. Removes only files that the store named and that nobody
    /// is writing. The newest report stays even if it alone exceeds the size limit, unless it is too old.
    ///
    /// - Parameter now: current time, from which ages are computed.
    /// - Returns: what was removed.
    /// - Throws: ``StoreError`` if the directory cannot be read or changed.
    @discardableResult
    public func prune(now: Timestamp = .now) throws(StoreError) -> Pruned {
        let directory = try StoreDirectory(opening: directory)
        do throws(SystemError) {
            // Two prunes at once would each remove the excess. Do not wait long: the holder of the lock may be stopped.
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
