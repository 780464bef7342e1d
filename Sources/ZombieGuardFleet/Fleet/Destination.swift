// Destinations of shipped findings: databases and directories are in this file, HTTP receivers in others.

import Glibc
import ZombieGuard

/// Receives findings in batches.
protocol Destination: AnyObject {
    /// Sends a batch completely or not at all, and returns after the destination has stored it durably. A finding that
    /// is sent again is stored once if the destination detects duplicates. Returns the number of new findings; without
    /// detection of duplicates, every finding counts as new.
    func send(_ findings: [ShippedFinding]) throws(FleetError) -> Int
    /// The number of stored findings with this signature; 0 if unknown.
    func count(of signature: String, tenant: String) throws(FleetError) -> Int64
    /// Removes findings that are too old.
    func prune(_ retention: Retention) throws(FleetError)
    /// Drops the connection; the next use connects again.
    func reset()
}

extension Destination {
    func count(of signature: String, tenant: String) -> Int64 { 0 }
    func prune(_ retention: Retention) {}
    func reset() {}
}

/// A database. Connects on first use.
final class DatabaseDestination: Destination {
    private let connect: () throws(FleetError) -> any Database
    private var open: (any Database)?

    init(_ connect: @escaping () throws(FleetError) -> any Database) { self.connect = connect }

    private func database() throws(FleetError) -> any Database {
        if let open { return open }
        let new = try connect()
        try new.prepare()
        open = new
        return new
    }

    func send(_ findings: [ShippedFinding]) throws(FleetError) -> Int { try database().insert(findings) }

    func count(of signature: String, tenant: String) throws(FleetError) -> Int64 {
        let rows = try database().query(
            "SELECT findings FROM zguard_totals WHERE tenant = $1 AND signature = $2",
            [.text(tenant), .text(signature)])
        return rows.first?.first?.integer ?? 0
    }

    func prune(_ retention: Retention) throws(FleetError) {
        guard let age = retention.age else { return }
        try database().removeFindings(before: Timestamp.now.earlier(bySeconds: age).day)
    }

    func reset() { open = nil }
}

/// A directory of reports. Findings of each source report are appended to a file of their own.
final class DirectoryDestination: Destination {
    private let store: ReportStore
    /// Ids of the findings in each file, and the size of the file when its ids were read.
    private var known: [String: (size: UInt64, ids: Set<String>)] = [:]
    /// Counts of stored findings by tenant and signature, loaded for a tenant on the first query.
    private var counts: [String: [String: Int64]] = [:]

    private static let waitSeconds = 60.0
    private static let mostKnown = 1000

    init(_ path: String) { store = ReportStore(directory: path) }

    func send(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        do {
            let directory = try StoreDirectory(creating: store.directory)
            guard let lock = try directory.lock(seconds: Self.waitSeconds) else {
                throw FleetError("'\(visible(store.directory))' is locked by another process", isTemporary: true)
            }
            defer { withExtendedLifetime(lock) {} }
            var added = 0
            for (source, findings) in Dictionary(grouping: findings, by: \.source) {
                added += try add(findings, to: Self.name(of: source), in: directory)
            }
            return added
        } catch let error as FleetError {
            throw error
        } catch let error as StoreError {
            throw FleetError("\(error)")
        } catch {
            let isTemporary = [ENOSPC, EDQUOT, EIO].contains((error as? SystemError)?.number ?? 0)
            throw FleetError("cannot write to '\(visible(store.directory))': \(error)", isTemporary: isTemporary)
        }
    }

    private static func name(of source: String) -> ReportName {
        // `source` is "HOST/FILE". Reuse the file name if a store generated it.
        let file = source.split(separator: "/").last.map(String.init) ?? source
        if let own = ReportName.parse(file)?.name { return own }
        var digest = Digest()
        digest.add(source)
        return ReportName(file: file, digits: digest.digits(8))
    }

    private func add(_ findings: [ShippedFinding], to name: ReportName, in directory: StoreDirectory) throws -> Int {
        let flags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW
        let file = try directory.open(name.plain, flags: flags)
        guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else { throw SystemError(number: EEXIST) }
        var size = UInt64(max(0, status.st_size))
        if known.count > Self.mostKnown { known = [:] }
        if known[name.stem]?.size != size {
            var reader = FindingReader(file: file)
            var ids: Set<String> = []
            while let entry = try reader.next() {
                if case .finding(let finding, _) = entry, let id = finding.origin?.id { ids.insert(id) }
            }
            // Remove a torn last line, left by a process that was killed.
            if reader.offset < size, ftruncate(file.number, off_t(reader.offset)) != 0 { throw SystemError.last }
            size = reader.offset
            if let compressed = try? directory.open(name.compressed) {
                var reader = FindingReader(file: compressed)
                while let entry = try reader.next() {
                    if case .finding(let finding, _) = entry, let id = finding.origin?.id { ids.insert(id) }
                }
            }
            known[name.stem] = (size, ids)
        }
        var ids = known[name.stem]?.ids ?? []
        let new = findings.filter { ids.insert($0.id).inserted }
        if new.isEmpty { return 0 }
        let bytes = new.flatMap { Array($0.line.utf8) + [UInt8(ascii: "\n")] }
        do throws(SystemError) {
            try file.write(bytes: bytes)
            if fsync(file.number) != 0 { throw .last }
        } catch {
            known[name.stem] = nil
            ftruncate(file.number, off_t(size))
            throw error
        }
        known[name.stem] = (size + UInt64(bytes.count), ids)
        for finding in new { counts[finding.tenant]?[finding.signature, default: 0] += 1 }
        return new.count
    }

    // Reads the whole store once per tenant.
    func count(of signature: String, tenant: String) -> Int64 {
        if counts[tenant] == nil { counts[tenant] = (try? store.counts(tenant: tenant)) ?? [:] }
        return counts[tenant]?[signature] ?? 0
    }

    func prune(_ retention: Retention) throws(FleetError) {
        do throws(StoreError) {
            try ReportStore(directory: store.directory, retention: retention).prune()
        } catch {
            throw FleetError("\(error)")
        }
    }
}
