// Writes decisions about findings to the store that holds the findings.

import Glibc
import ZombieGuard

/// Where the decisions about the findings of a store are written: a hidden file of JSON lines in a directory, the table
/// zguard_triage in a database.
public struct TriageStore: Sendable {
    private let address: FleetAddress

    /// Creates a handle for a store. Does not open the store.
    ///
    /// - Parameter address: a directory or a database.
    public init(_ address: FleetAddress) { self.address = address }

    /// Adds events, all or none. An event that the store has is not added again.
    ///
    /// - Parameter events: the events.
    /// - Throws: ``FleetError`` if they cannot be written.
    public func add(_ events: [TriageEvent]) throws(FleetError) {
        if events.isEmpty { return }
        switch address {
        case .directory(let path): try Self.append(events, to: path)
        case .sqlite(let path): try SQLiteFleet(existing: path).add(events)
        case .postgres(let address): try PostgresFleet(address: address).add(events)
        case .web, .openTelemetry:
            throw FleetError("'\(visible(address.name))' holds no findings that can be triaged")
        }
    }

    // MARK: Directories

    private static let name = ".zguard-triage"
    private static let mostBytes: Int64 = 64 << 20

    /// Whether something was decided about the findings in a directory.
    ///
    /// - Parameter path: path of the directory.
    /// - Returns: whether there is a file of decisions.
    public static func exists(in path: String) -> Bool {
        (try? StoreDirectory(opening: path))?.regularFile(name) != nil
    }

    /// Inode and size of the file: they identify its version, because it only grows. Nil if there is no file.
    static func version(in path: String) -> [Int]? {
        (try? StoreDirectory(opening: path))?.regularFile(name).map { [Int($0.st_ino), Int($0.st_size)] }
    }

    /// The events in a directory; nil if the file may not be read. Leaves out lines that are cut off or have unknown
    /// actions.
    static func events(in path: String) throws(FleetError) -> [TriageEvent]? {
        do {
            let directory = try StoreDirectory(opening: path)
            guard let status = directory.regularFile(name) else { return [] }
            if status.st_size > mostBytes { throw FleetError("it is larger than \(mostBytes >> 20) MiB") }
            let file: Descriptor
            do throws(SystemError) { file = try directory.open(name) } catch {
                if error.number == EACCES { return nil }
                throw error
            }
            return try file.read(at: 0, upTo: Int(status.st_size)).split(separator: UInt8(ascii: "\n")).compactMap {
                TriageEvent(line: String(decoding: $0, as: UTF8.self)[...])
            }
        } catch {
            throw FleetError("cannot read '\(visible(path))/\(name)': \(error)")
        }
    }

    // Appends whole lines under a lock, or nothing.
    private static func append(_ events: [TriageEvent], to path: String) throws(FleetError) {
        do {
            let directory = try StoreDirectory(opening: path)
            let isNew = directory.regularFile(name) == nil
            let file = try directory.open(name, flags: O_RDWR | O_CREAT | O_APPEND)
            while flock(file.number, LOCK_EX) != 0 { if errno != EINTR { throw SystemError.last } }
            if isNew { directory.share(file) }
            let size = file.status?.st_size ?? 0
            // A writer that was killed may have left part of a line: end that line.
            let last = size > 0 ? try file.read(at: UInt64(size - 1), upTo: 1) : []
            let isTorn = last.first.map { $0 != UInt8(ascii: "\n") } ?? false
            do {
                try file.write((isTorn ? "\n" : "") + events.map { $0.line + "\n" }.joined())
                if fsync(file.number) != 0 { throw SystemError.last }
            } catch {
                _ = ftruncate(file.number, size)
                throw error
            }
            if isNew { try directory.save() }
        } catch {
            throw FleetError("cannot write '\(visible(path))/\(name)': \(error)")
        }
    }
}

// MARK: Databases

extension FleetTables {
    /// The table of decisions about groups.
    static func triage(form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_triage (
            tenant text NOT NULL, signature text NOT NULL, at bigint NOT NULL, id text NOT NULL, author text NOT NULL,
            action text NOT NULL, value text NOT NULL, comment text NOT NULL, PRIMARY KEY (tenant, signature, at, id))\(form);
        """
    }
}

extension Database {
    /// Inserts events. Call in a transaction.
    func insert(_ events: [TriageEvent]) throws(FleetError) {
        for event in events {
            try query(
                "INSERT INTO zguard_triage VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
                event.columns)
        }
    }
}
