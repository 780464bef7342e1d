// Opens the store that `zguard alerts` watches, and changes its record of alerts, for one watcher at a time.

import Glibc
import ZombieGuard

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A store of findings with the record of its alerts. In a database, the record is the table zguard_alerts; in a
/// directory, a hidden file of JSON lines. Used by one thread at a time.
final class AlertStore {
    private let address: FleetAddress
    private let tenant: String
    private var database: (any Database)?
    /// For a directory: an in-memory database of its findings, and how many bytes of the alerts file were replayed into
    /// this database.
    private let source: FleetSource
    private var copy: (database: ObjectIdentifier, inode: UInt64, read: UInt64)?
    /// Size of the alerts file above which the file is compacted, if at least half of it is outdated.
    private var compactSize = AlertLog.leastCompacted

    /// Names a store. Opens nothing.
    init(_ address: FleetAddress, tenant: String) {
        (self.address, self.tenant) = (address, tenant)
        source = FleetSource(address)
    }

    /// Runs `work` in a transaction that excludes other watchers.
    ///
    /// - Parameters:
    ///   - isKept: whether to commit the changes.
    ///   - work: reads findings, and changes the table of alerts.
    func transaction<Result>(
        isKept: Bool = true, _ work: (FleetReader, inout AlertTable) throws(FleetError) -> Result
    ) throws(FleetError) -> Result {
        if case .directory(let path) = address { return try inDirectory(path, isKept, work) }
        do throws(FleetError) {
            let database = try opened()
            var table = AlertTable(database, tenant: tenant)
            return try database.exclusive(isKept: isKept) { () throws(FleetError) in
                if try !database.mayRead("zguard_alerts") { try database.execute(FleetTables.alerts) }
                return try work(FleetReader(database), &table)
            }
        } catch {
            // The connection may be lost.
            database = nil
            throw error
        }
    }

    private func opened() throws(FleetError) -> any Database {
        if let database { return database }
        // Throws if the database has no tables of zguard.
        _ = try FleetReader(address)
        let new: any Database
        switch address {
        case .sqlite(let path): new = try SQLiteFleet(existing: path)
        case .postgres(let address): new = try PostgresFleet(address: address)
        case .directory, .web, .openTelemetry: throw FleetError("'\(visible(address.name))' holds no findings")
        }
        database = new
        return new
    }

    // MARK: Directories

    private static let name = ".zguard-alerts"
    private static let mostBytes: Int64 = 256 << 20

    private func inDirectory<Result>(
        _ path: String, _ isKept: Bool, _ work: (FleetReader, inout AlertTable) throws(FleetError) -> Result
    ) throws(FleetError) -> Result {
        var log: AlertLog
        do { log = try AlertLog(path, Self.name, isKept: isKept, most: Self.mostBytes) } catch {
            throw FleetError("cannot open '\(visible(path))/\(Self.name)': \(error)")
        }
        return try source.ask { (reader) throws(FleetError) in
            let database = reader.database
            var read: UInt64 = 0
            // If another watcher has compacted the file, it has a new inode, and is read from the start.
            if let copy, copy.database == ObjectIdentifier(database), copy.inode == log.inode { read = copy.read }
            do {
                if read == 0 { try database.execute("DROP TABLE IF EXISTS zguard_alerts; " + FleetTables.alerts) }
                read = try log.replay(from: read, into: database)
                if isKept, log.size > compactSize {
                    try log.compact(AlertTable.all(in: database))
                    compactSize = max(AlertLog.leastCompacted, 2 * log.size)
                    read = log.size
                }
                copy = (ObjectIdentifier(database), log.inode, read)
                var table = AlertTable(database, tenant: tenant)
                return try database.exclusive(isKept: isKept) { () throws(FleetError) in
                    let result = try work(reader, &table)
                    if isKept { copy?.read = try log.append(try table.changes()) }
                    return result
                }
            } catch {
                copy = nil
                throw (error as? FleetError) ?? FleetError("\(error)")
            }
        }
    }
}

/// The locked file of alerts in a directory. Each line has the rows that one transaction wrote.
private struct AlertLog {
    static let leastCompacted: UInt64 = 4 << 20

    private let name: String
    private var file: Descriptor?
    private let isNew: Bool
    private let directory: StoreDirectory

    private var path: String { directory.path + "/" + name }

    private struct Line: Codable {
        var schema = "zguard.alerts/1"
        var rows: [[String]]
    }

    /// - Parameters:
    ///   - path: path of the directory.
    ///   - name: name of the file.
    ///   - isKept: whether lines will be added; if not, a missing file is not created.
    ///   - most: number of bytes above which a file is refused.
    init(_ path: String, _ name: String, isKept: Bool, most: Int64) throws {
        self.name = name
        directory = try StoreDirectory(opening: path)
        isNew = directory.regularFile(name) == nil
        if isNew, !isKept {
            file = nil
            return
        }
        let opened = try Self.locked(name, in: directory)
        if isNew { directory.share(opened) }
        if opened.status?.st_size ?? 0 > most { throw FleetError("it is larger than \(most >> 20) MiB") }
        file = opened
    }

    /// Opens and locks the file. Retries if the watcher that held the lock has replaced the file.
    private static func locked(_ name: String, in directory: StoreDirectory) throws(SystemError) -> Descriptor {
        while true {
            let file = try directory.open(name, flags: O_RDWR | O_CREAT | O_APPEND)
            guard let status = file.status, status.st_mode & S_IFMT == S_IFREG else {
                throw SystemError(number: EEXIST)
            }
            while flock(file.number, LOCK_EX) != 0 { if errno != EINTR { throw .last } }
            if directory.regularFile(name)?.st_ino == status.st_ino { return file }
        }
    }

    var inode: UInt64 { UInt64(file?.status?.st_ino ?? 0) }
    var size: UInt64 { UInt64(max(0, file?.status?.st_size ?? 0)) }

    /// Replaces the file with one that has only these rows, unless the new file would be larger than half of the old
    /// one.
    mutating func compact(_ rows: [[String]]) throws(FleetError) {
        let lines = stride(from: 0, to: rows.count, by: 1000).map {
            Self.line(Array(rows[$0..<min($0 + 1000, rows.count)]))
        }
        let text = lines.joined()
        if UInt64(text.utf8.count) > size / 2 { return }
        let temporary = name + ".new"
        do {
            directory.remove(temporary)
            let new = try directory.open(temporary, flags: O_RDWR | O_CREAT | O_EXCL | O_APPEND)
            // Lock the file before the rename, so that no other watcher can lock it first.
            while flock(new.number, LOCK_EX) != 0 { if errno != EINTR { throw SystemError.last } }
            directory.share(new)
            try new.write(text)
            if fsync(new.number) != 0 { throw SystemError.last }
            try directory.rename(temporary, to: name)
            file = new
        } catch {
            directory.remove(temporary)
            throw FleetError("cannot write '\(visible(path)).new': \(error)")
        }
    }

    private static func line(_ rows: [[String]]) -> String {
        JSONText.object([
            ("schema", .string(Line(rows: []).schema)),
            ("rows", .array(rows.map { .array($0.map { .string($0) }) })),
        ]).line + "\n"
    }

    /// Replays the lines from an offset on. Returns the offset behind the last complete line.
    func replay(from offset: UInt64, into database: any Database) throws -> UInt64 {
        guard let file, size > offset else { return offset }
        let bytes = try file.read(at: offset, upTo: Int(size - offset))
        let end = bytes.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        try database.execute("BEGIN")
        for line in bytes[..<end].split(separator: UInt8(ascii: "\n")) {
            // Skip lines of a later version, and damaged lines.
            guard let line = try? JSONDecoder().decode(Line.self, from: Data(line)),
                line.schema == Line(rows: []).schema
            else { continue }
            for row in line.rows { try AlertTable.replay(row, into: database) }
        }
        try database.execute("COMMIT")
        return offset + UInt64(end)
    }

    /// Adds a line; returns the offset behind it.
    func append(_ rows: [[String]]) throws(FleetError) -> UInt64 {
        guard let file else { return 0 }
        let size = size
        if rows.isEmpty { return size }
        do {
            // A watcher that was killed may have left part of a line: end that line.
            let last = size > 0 ? try file.read(at: size - 1, upTo: 1) : []
            let isTorn = last.first.map { $0 != UInt8(ascii: "\n") } ?? false
            do {
                try file.write((isTorn ? "\n" : "") + Self.line(rows))
                if fsync(file.number) != 0 { throw SystemError.last }
            } catch {
                _ = ftruncate(file.number, off_t(size))
                throw error
            }
            if isNew { try directory.save() }
            return self.size
        } catch {
            throw FleetError("cannot write '\(visible(path))': \(error)")
        }
    }
}

extension Database {
    /// Runs `work` in a transaction that excludes other watchers of alerts.
    fileprivate func exclusive<Result>(
        isKept: Bool, _ work: () throws(FleetError) -> Result
    ) throws(FleetError) -> Result {
        try execute(self is PostgresFleet ? PostgresFleet.beginAlerts : "BEGIN IMMEDIATE")
        do throws(FleetError) {
            let result = try work()
            try execute(isKept ? "COMMIT" : "ROLLBACK")
            return result
        } catch {
            try? execute("ROLLBACK")
            throw error
        }
    }
}

extension PostgresFleet {
    /// Begins a transaction, and takes the advisory lock of watchers. The lock's key is that of table creation, plus 1.
    fileprivate static let beginAlerts = "BEGIN; SELECT pg_advisory_xact_lock(\(0x7a67_7561_7265))"
}
