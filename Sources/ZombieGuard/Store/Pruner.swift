// Removes reports that exceed the retention limits, and leftover files of dead writers.

import Glibc

/// One prune of a directory. The caller holds the directory lock.
struct Pruner {
    let directory: StoreDirectory
    let retention: Retention
    let now: Timestamp
    private(set) var pruned = ReportStore.Pruned()

    init(directory: StoreDirectory, retention: Retention, now: Timestamp) {
        self.directory = directory
        self.retention = retention
        self.now = now
    }

    /// A run's report: one file, or two if its writer died while compressing it.
    private struct Report {
        var names: [String]
        var written: Timestamp
        var size: UInt64
    }

    mutating func run() throws(SystemError) {
        var reports = removingRemains(try look()).sorted { ($0.written, $0.names[0]) < ($1.written, $1.names[0]) }
        if let age = retention.age {
            let oldest = now.earlier(bySeconds: age)
            reports.removeAll { $0.written < oldest && remove($0) }
        }
        var count = reports.count
        // UInt128: st_size of sparse files may add up to more than 64 bits.
        var bytes = reports.reduce(UInt128(0)) { $0 + UInt128($1.size) }
        for report in reports.dropLast() {
            guard count > retention.count ?? .max || bytes > UInt128(retention.bytes ?? .max) else { return }
            if remove(report) {
                count -= 1
                bytes -= UInt128(report.size)
            }
        }
    }

    /// The files with names of the store's form, grouped by run.
    private func look() throws(SystemError) -> [ReportName: [ReportName.Form: stat]] {
        var found: [ReportName: [ReportName.Form: stat]] = [:]
        for file in try directory.names() {
            guard let (name, form) = ReportName.parse(file) else { continue }
            if form == .temporary {
                found[name, default: [:]][form] = stat()
            } else if let status = directory.regularFile(file) {
                found[name, default: [:]][form] = status
            }
        }
        return found
    }

    /// Removes unlocked files that are no longer needed: temporary files, empty reports, and uncompressed reports that
    /// also exist in complete compressed form. Returns the remaining reports.
    private mutating func removingRemains(_ found: [ReportName: [ReportName.Form: stat]]) -> [Report] {
        var reports: [Report] = []
        for (name, forms) in found {
            if forms[.temporary] != nil {
                for file in [name.temporary, name.compressedTemporary] where directory.removeIfUnlocked(file) {
                    pruned.remains += 1
                }
            }
            var files: [(name: String, status: stat)] = []
            if let compressed = forms[.compressed] { files.append((name.compressed, compressed)) }
            if let plain = forms[.plain] {
                let isNeedless = plain.st_size == 0 || forms[.compressed] != nil
                if isNeedless, directory.removeIfUnlocked(name.plain) {
                    pruned.remains += 1
                    // An empty report of a run without findings so far is not counted.
                } else if plain.st_size > 0 {
                    files.append((name.plain, plain))
                }
            }
            guard let written = files.map({ Timestamp($0.status.st_mtim) }).max() else { continue }
            reports.append(
                Report(
                    names: files.map(\.name), written: written,
                    size: files.reduce(0) { $0 + UInt64(max(0, $1.status.st_size)) }))
        }
        return reports
    }

    /// Removes a report that nobody is writing. Returns whether all its files were removed.
    private mutating func remove(_ report: Report) -> Bool {
        // Uncompressed file first: if a report has two files, its writer locks the uncompressed one.
        for name in report.names.reversed() where !directory.removeIfUnlocked(name) { return false }
        pruned.removed += 1
        pruned.bytes = UInt64(clamping: UInt128(pruned.bytes) + UInt128(report.size))
        return true
    }
}
