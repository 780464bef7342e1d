// Keeps symbols in a database: compressed, in rows of limited size.

import Glibc
import ZombieGuard
import ZombieGuardCore

extension FleetTables {
    /// The tables of symbols. `binary` is the dialect's type for bytes.
    static func symbols(binary: String) -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_symbols (
            tenant text NOT NULL, build_id text NOT NULL, kind text NOT NULL, name text NOT NULL, size bigint NOT NULL,
            digest text NOT NULL, has_debug bigint NOT NULL, at bigint NOT NULL, PRIMARY KEY (tenant, build_id, kind));
        CREATE TABLE IF NOT EXISTS zguard_symbol_parts (
            tenant text NOT NULL, build_id text NOT NULL, kind text NOT NULL, part bigint NOT NULL,
            content \(binary) NOT NULL, PRIMARY KEY (tenant, build_id, kind, part));
        """
    }
}

/// The tables `zguard_symbols` and `zguard_symbol_parts`. One transaction adds a file.
final class SymbolTable: SymbolKeeper {
    private let database: any Database
    private let tenant: String
    let budget = DecompressionBudget()

    private static let partBytes = 1 << 19
    private static let key = "tenant = $1 AND build_id = $2 AND kind = $3"

    init(_ database: any Database, tenant: String) {
        self.database = database
        self.tenant = tenant
    }

    private func isThere() throws(FleetError) -> Bool {
        let hasFiles = try database.mayRead("zguard_symbols")
        let hasParts = try database.mayRead("zguard_symbol_parts")
        return hasFiles && hasParts
    }

    func entries() throws(FleetError) -> [SymbolStore.Entry] {
        guard try isThere() else { return [] }
        return try database.query(
            "SELECT build_id, kind, name, size, has_debug, at FROM zguard_symbols WHERE tenant = $1", [.text(tenant)]
        ).map { row in
            SymbolStore.Entry(
                buildID: row[0].text ?? "", kind: row[1].text ?? "", name: row[2].text ?? "", size: row[3].integer,
                hasDebugInformation: row[4].integer != 0, time: Timestamp(milliseconds: row[5].integer))
        }
    }

    private func key(_ buildID: String, _ kind: String) -> [SQLValue] { [.text(tenant), .text(buildID), .text(kind)] }

    func has(_ file: Descriptor, as entry: SymbolStore.Entry) throws(FleetError) -> Bool {
        let rows = try database.query(
            "SELECT digest FROM zguard_symbols WHERE \(Self.key)", key(entry.buildID, entry.kind))
        guard let digest = rows.first?.first?.text else { return false }
        var own = Digest()
        var offset: UInt64 = 0
        while let bytes = try? file.read(at: offset, upTo: 1 << 20), !bytes.isEmpty {
            own.add(bytes)
            offset += UInt64(bytes.count)
        }
        return own.digits() == digest
    }

    func add(_ file: Descriptor, _ entry: SymbolStore.Entry) throws(FleetError) {
        // Compress the file before the transaction, because in SQLite a transaction excludes other writers.
        let packed = try UnnamedFile.make()
        var digest = Digest()
        var offset: UInt64 = 0
        do throws(SystemError) {
            try GzipWriter.compress {
                () throws(SystemError) in
                let bytes = try file.read(at: offset, upTo: 1 << 18)
                offset += UInt64(bytes.count)
                digest.add(bytes)
                return bytes
            } to: { (bytes) throws(SystemError) in
                try packed.write(bytes: bytes)
            }
        } catch {
            throw FleetError("cannot compress '\(visible(entry.name))': \(error)")
        }
        let digits = digest.digits()
        let key = key(entry.buildID, entry.kind)
        try database.prepareSymbols()
        try database.inTransaction { () throws(FleetError) in
            try self.delete(key)
            try self.database.query(
                "INSERT INTO zguard_symbols VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                key + [
                    .text(ShippedFinding.short(entry.name)), .integer(entry.size), .text(digits),
                    .integer(entry.hasDebugInformation ? 1 : 0), .integer(entry.time.milliseconds),
                ])
            var place: UInt64 = 0
            while true {
                let bytes: [UInt8]
                do throws(SystemError) { bytes = try packed.read(at: place, upTo: Self.partBytes) } catch {
                    throw FleetError("cannot read a temporary file: \(error)")
                }
                if bytes.isEmpty { break }
                try self.database.query(
                    "INSERT INTO zguard_symbol_parts VALUES ($1, $2, $3, $4, $5)",
                    key + [.integer(Int64(place) / Int64(Self.partBytes)), .bytes(bytes)])
                place += UInt64(bytes.count)
            }
        }
    }

    private func delete(_ key: [SQLValue]) throws(FleetError) {
        // Delete the row of the file first: its lock makes a second writer of the same file wait for the first.
        for table in ["zguard_symbols", "zguard_symbol_parts"] {
            try database.query("DELETE FROM \(table) WHERE \(Self.key)", key)
        }
    }

    func remove(_ entries: [SymbolStore.Entry]) throws(FleetError) {
        guard try isThere() else { return }
        try database.inTransaction { () throws(FleetError) in
            for entry in entries { try self.delete(self.key(entry.buildID, entry.kind)) }
        }
    }

    func version() throws(FleetError) -> String? {
        guard try isThere() else { return nil }
        let row = try database.query(
            "SELECT count(*), max(at), sum(size) FROM zguard_symbols WHERE tenant = $1", [.text(tenant)])[0]
        return row[0].integer == 0 ? nil : row.map { $0.text ?? "" }.joined(separator: " ")
    }

    /// Decompresses a file into an unlinked file; nil if the file is missing or incomplete.
    func open(_ kind: SymbolFileKind, buildID: String) -> Descriptor? { try? unpacked(kind, buildID) }

    private func unpacked(_ kind: SymbolFileKind, _ buildID: String) throws -> Descriptor? {
        guard try isThere() else { return nil }
        let key = key(buildID, kind.rawValue)
        let found = try database.query("SELECT size FROM zguard_symbols WHERE \(Self.key)", key)
        guard let size = found.first?.first?.integer, (1...SymbolUpload.mostBytes).contains(size) else { return nil }
        let packed = try UnnamedFile.make()
        for part in 0... {
            let rows = try database.query(
                "SELECT content FROM zguard_symbol_parts WHERE \(Self.key) AND part = $4", key + [.integer(Int64(part))]
            )
            guard let bytes = rows.first?.first?.unpackedBytes else { break }
            try packed.write(bytes: bytes)
        }
        lseek(packed.number, 0, SEEK_SET)
        let file = try UnnamedFile.make()
        let source = GzipSource(file: packed, mostBytes: UInt64(size))
        var count: Int64 = 0
        while true {
            let bytes = try source.read(upTo: 1 << 18)
            if bytes.isEmpty { break }
            try file.write(bytes: bytes)
            count += Int64(bytes.count)
        }
        return source.problem == nil && count == size ? file : nil
    }
}

extension SQLValue {
    /// The value of a binary column. PostgreSQL answers with "\x" and hexadecimal digits.
    fileprivate var unpackedBytes: [UInt8]? {
        switch self {
        case .bytes(let bytes): return bytes
        case .text(let text) where text.hasPrefix("\\x"):
            var bytes: [UInt8] = []
            bytes.reserveCapacity(text.utf8.count / 2)
            var high: UInt8?
            for digit in text.utf8.dropFirst(2) {
                let value = digit <= 0x39 ? digit &- 0x30 : digit &- 0x57
                if value > 15 { return nil }
                if let first = high { bytes.append(first << 4 | value) }
                high = high == nil ? value : nil
            }
            return bytes
        default: return nil
        }
    }
}
