// Completes the reports of runs whose zguard was killed, from the raw findings left beside them.

import Glibc

extension ReportStore {
    /// The result of completing reports.
    package struct Completed: Hashable, Sendable {
        package var reports = 0
        /// Number of findings that the reports lacked.
        package var findings = 0
    }

    /// Symbolicates the raw findings left beside each report, adds them to the report, and removes their files. Leaves
    /// a report alone if its program still runs or the files belong to different users. Replaces each report
    /// atomically.
    ///
    /// - Parameter warn: called for each report that cannot be completed; all other reports still are.
    /// - Returns: counts of what was completed.
    /// - Throws: ``StoreError`` if the directory cannot be read.
    package func completeReports(warn: (String) -> Void) throws(StoreError) -> Completed {
        let directory = try StoreDirectory(opening: directory)
        var completed = Completed()
        let names: [String]
        let lock: Descriptor?
        do throws(SystemError) {
            // Without the lock, two processes could rewrite the same report.
            lock = try directory.lock(seconds: 1)
            names = lock == nil ? [] : try directory.names()
        } catch {
            throw StoreError("read report directory", self.directory, error)
        }
        defer { withExtendedLifetime(lock) {} }
        for report in Set(names.compactMap(UnfinishedFindings.report)).sorted()
        where report.hasSuffix(ReportName.plainExtension) {
            let remains = UnfinishedFindings.beside(report, names, in: directory)
            guard let unfinished = UnfinishedReport(report, remains, in: directory) else { continue }
            do {
                completed.findings += try unfinished.complete()
                completed.reports += 1
            } catch {
                let path = "\(self.directory)/\(report)"
                warn("cannot complete report '\(visible(path))', whose run was killed: \(error)")
            }
        }
        return completed
    }
}

/// A report and the files of raw findings beside it.
private struct UnfinishedReport {
    private let name: String
    private let remains: [UnfinishedFindings]
    private let directory: StoreDirectory
    /// Whether the report exists only in compressed form.
    private let isCompressed: Bool
    private let owner: (user: uid_t, group: gid_t), mode: mode_t

    /// nil if there is nothing to do, the program still runs, or the files belong to different users.
    init?(_ name: String, _ remains: [UnfinishedFindings], in directory: StoreDirectory) {
        let compressed = name + ".gz"
        let plain = directory.regularFile(name)
        guard
            let status = plain ?? directory.regularFile(compressed)
                ?? remains.first.flatMap({ directory.regularFile($0.name) }),
            remains.allSatisfy({ !$0.isGrowing && $0.owner == status.st_uid })
        else { return nil }
        self.name = name
        self.remains = remains
        self.directory = directory
        isCompressed = plain == nil && directory.regularFile(compressed) != nil
        owner = (status.st_uid, status.st_gid)
        mode = status.st_mode & 0o777
    }

    /// Completes the report. Returns how many findings it lacked.
    func complete() throws -> Int {
        let symbolicator = Symbolicator(sources: SymbolSources())
        var groups = FindingGroups()
        if var reader = reader {
            while let entry = try reader.next() ?? reader.finish() {
                if case .finding(let finding, _) = entry { groups.add(finding) }
            }
        }
        var missing = 0
        for one in remains {
            try one.forEachFinding(missingIn: one.hasBegun ? reader : nil) { finding, _, _ in
                missing += 1
                groups.add(finding) { symbolicator.symbolicate($0) }
            }
        }
        // A compressed report was complete before it was compressed.
        if missing > 0, !isCompressed { try write(groups.findings) }
        for one in remains { one.remove() }
        return missing
    }

    private var reader: FindingReader? {
        (try? directory.open(isCompressed ? name + ".gz" : name)).map { FindingReader(file: $0) }
    }

    private func write(_ findings: [Finding]) throws(SystemError) {
        let temporary = ".\(name).tmp"
        do throws(SystemError) {
            let new = try directory.create(temporary)
            for finding in findings { try new.write(finding.jsonLine + "\n") }
            // Preserve the owner, and the time of the last finding.
            if owner.user != geteuid(), fchown(new.number, owner.user, owner.group) != 0 { throw .last }
            fchmod(new.number, mode)
            if let last = remains.map(\.written).max()?.systemTime { futimens(new.number, [last, last]) }
            if fsync(new.number) != 0 { throw .last }
            try directory.rename(temporary, to: name)
        } catch {
            directory.remove(temporary)
            throw error
        }
    }
}
