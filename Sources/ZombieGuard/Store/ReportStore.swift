// A directory of reports, one file a run.

import Glibc

/// A finished or growing report in a store.
public struct ReportFile: Hashable, Sendable {
    /// Of the file in the directory.
    public var name: String
    public var path: String
    /// When the run began; nil for files that the store did not name.
    public var started: Timestamp?
    /// When its last line was written.
    public var written: Timestamp
    /// In bytes, as it lies on the disk.
    public var size: UInt64
    public var isCompressed: Bool
}

/// A directory with one file of JSON lines a run. Several processes may write, read and prune it at the same time, and each
/// may die at any moment.
public struct ReportStore: Sendable {
    public enum Order: Sendable { case oldestFirst, newestFirst }

    public let directory: String
    public let retention: Retention

    /// Names a store; nothing is opened or made. Slashes at the end of the path mean nothing.
    public init(directory: String, retention: Retention = .standard) {
        var directory = directory
        while directory.count > 1, directory.hasSuffix("/") { directory.removeLast() }
        self.directory = directory
        self.retention = retention
    }

    /// Begins the report of a run. Makes the directory where it does not exist.
    public func open(program: String, processID: Int = Int(getpid())) throws(StoreError) -> ReportWriter {
        let name = ReportName(program: program, processID: processID)
        return try ReportWriter(directory: StoreDirectory(creating: directory), name: name)
    }

    /// The reports that were written to since then: those of the store itself, and whatever else in it is called .jsonl or
    /// .jsonl.gz, such as what the runtime wrote with report_path. Links and what is no regular file are left out.
    public func files(since: Timestamp? = nil, order: Order = .oldestFirst) throws(StoreError) -> [ReportFile] {
        let directory = try StoreDirectory(opening: directory)
        let names = try names(in: directory)
        let all = Set(names)
        var files: [ReportFile] = []
        for name in names where !name.hasPrefix(".") {
            let isCompressed = name.hasSuffix(ReportName.compressedExtension)
            guard isCompressed || name.hasSuffix(ReportName.plainExtension) else { continue }
            // For a moment a report lies there as both.
            let own = ReportName.parse(name)?.name
            if isCompressed, let own, all.contains(own.plain) { continue }
            guard let status = directory.regularFile(name) else { continue }
            let file = ReportFile(
                name: name, path: "\(self.directory)/\(name)", started: own?.started,
                written: Timestamp(status.st_mtim), size: UInt64(max(0, status.st_size)), isCompressed: isCompressed)
            if since.map({ file.written >= $0 }) ?? true { files.append(file) }
        }
        files.sort { ($0.written, $0.name) < ($1.written, $1.name) }
        return order == .oldestFirst ? files : files.reversed()
    }

    /// Reads a report that `files` named; nil where it has been removed meanwhile.
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
        public var bytes: UInt64 = 0
        /// What dead processes had left half done.
        public var remains = 0
        /// Another process kept the store locked: nothing was done.
        public var isPostponed = false
    }

    /// Removes the oldest reports that the retention does not keep. Only files that the store itself named; none that is being
    /// written. The newest stays even where it alone is larger than the limit, unless it is too old.
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
