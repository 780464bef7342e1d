// Keeps findings in a SQLite file.

import Glibc
import ZombieGuard

final class SQLiteFleet: SQLiteConnection, Database {
    init(path: String) throws(FleetError) {
        try super.init(path: path, isWritable: true)
        // synchronous = FULL: a committed finding survives a power failure.
        try execute(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 8192"
        )
    }

    /// Opens a file read-only.
    init(reading path: String) throws(FleetError) { try super.init(path: path, isWritable: false) }

    /// Opens a file that exists, for writing.
    init(existing path: String) throws(FleetError) {
        if access(path, F_OK) != 0 { throw FleetError("cannot open '\(visible(path))': \(SystemError.last)") }
        try super.init(path: path, isWritable: true)
        try execute("PRAGMA synchronous = FULL")
    }

    /// Makes a store in memory.
    init() throws(FleetError) {
        try super.init(path: ":memory:", isWritable: true)
        try prepare()
        try execute(Self.triage)
    }

    private static let triage = FleetTables.triage(form: " WITHOUT ROWID")

    /// Adds decisions about groups.
    func add(_ events: [TriageEvent]) throws(FleetError) {
        try execute(Self.triage)
        try transaction { () throws(FleetError) in try insert(events) }
    }

    /// For the in-memory copy of a directory: whether the directory's decisions may not be read.
    private(set) var hidesTriage = false

    /// Replaces all decisions about groups; nil: they may not be read.
    func replaceTriage(with events: [TriageEvent]?) throws(FleetError) {
        hidesTriage = events == nil
        let events = events ?? []
        try transaction { () throws(FleetError) in
            try query("DELETE FROM zguard_triage", [])
            try insert(events)
        }
    }

    /// Gives each day its own tables, like PostgreSQL's partitions, so that a day's findings are dropped at once. Views
    /// unite the tables of all days.
    func prepare() throws(FleetError) {
        let kinds = "SELECT name, type FROM sqlite_master WHERE name IN ('zguard_findings', 'zguard_days') AND type = "
        if try query(kinds + "'view'").count == Self.byDay.count {
            if try !hasTable("zguard_former") { try execute(Self.formerSignatures) }
            return try prepareSummaries()
        }
        try transaction { () throws(FleetError) in
            // In older versions, zguard_findings was a table of all days, and until more recently so was zguard_days.
            // Such a table becomes the table of other days.
            for name in try query(kinds + "'table'").compactMap({ $0.first?.text }) {
                try execute("ALTER TABLE \(name) RENAME TO \(name)_\(Self.otherDays)")
            }
            try execute(Self.tables(Self.otherDays) + FleetTables.counting(form: " WITHOUT ROWID"))
            try execute(Self.formerSignatures)
            for suffix in try suffixes() { try execute(Self.tables(suffix)) }
            try showAllDays()
        }
        try prepareSummaries()
    }

    /// Creates the tables and indexes that speed up readers, and fills in rows that earlier versions did not write.
    private func prepareSummaries() throws(FleetError) {
        if try !countsWeeks(suffixes()) {
            try transaction { () throws(FleetError) in try prepareWeeks(suffixes()) }
        }
        try execute(
            FleetNames.creation(form: " WITHOUT ROWID")
                + "CREATE INDEX IF NOT EXISTS zguard_groups_by_kind ON zguard_groups (tenant, kind, signature)")
        // Insert all names in one transaction, because each transaction waits for the disk.
        try transaction { () throws(FleetError) in try addMissingNames() }
    }

    func insertNames(_ columns: [[String]]) throws(FleetError) {
        for index in columns[0].indices {
            try query(
                "INSERT INTO zguard_names VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                columns.map { .text($0[index]) })
        }
    }

    func features() throws(FleetError) -> FleetFeatures {
        let suffixes = try suffixes()
        var features = FleetFeatures(suffixes: suffixes)
        features.hasFormer = try hasTable("zguard_former")
        if !suffixes.isEmpty { features.hasWeeks = try countsWeeks(suffixes) }
        features.hasNames = try hasTable("zguard_names")
        return features
    }

    func rows(of table: String, from first: String?, to last: String?, _ features: FleetFeatures) -> String {
        let (first, last) = (first.map(FleetTables.suffix), last.map(FleetTables.suffix))
        let own = features.suffixes.filter { suffix in
            suffix == Self.otherDays
                || (first.map { suffix >= $0 } ?? true) && (last.map { suffix <= $0 } ?? true)
        }
        // A database of an earlier version has no tables by day. If all days are wanted, use the view.
        if own.isEmpty || own.count == features.suffixes.count { return table }
        return "(\(own.map { "SELECT * FROM \(table)_\($0)" }.joined(separator: " UNION ALL ")))"
    }

    private static let formerSignatures = FleetTables.formerSignatures(form: " WITHOUT ROWID")

    func mayRead(_ name: String) throws(FleetError) -> Bool { try hasTable(name) }

    private func hasTable(_ name: String) throws(FleetError) -> Bool {
        try !query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1", [.text(name)]).isEmpty
    }

    private static let byDay = ["zguard_findings", "zguard_days"]
    private static let otherDays = "other"
    /// Age in days up to which a day gets its own tables. A view can unite at most 500 tables
    /// (SQLITE_MAX_COMPOUND_SELECT).
    private static let maxTableAgeDays: Int64 = 400

    private static func tables(_ suffix: String) -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_findings_\(suffix) (
            tenant text NOT NULL, signature text NOT NULL, day text NOT NULL, id text NOT NULL, at bigint NOT NULL,
            host text NOT NULL, program text NOT NULL, version text NOT NULL, version_key text NOT NULL,
            occurrences bigint NOT NULL, body text NOT NULL,
            PRIMARY KEY (tenant, signature, day, id));

        """ + FleetTables.countingDays("zguard_days_\(suffix)", day: "text", form: " WITHOUT ROWID")
    }

    /// Suffixes of the names of all day tables, the newest day first.
    private func suffixes() throws(FleetError) -> [String] {
        let first = Self.byDay[0] + "_"
        return try query(
            "SELECT substr(name, \(first.utf8.count + 1)) FROM sqlite_master WHERE type = 'table' AND name GLOB '\(first)*' ORDER BY 1 DESC"
        ).compactMap { $0.first?.text }.filter { $0 == Self.otherDays || FleetTables.isDay($0) }
    }

    private func showAllDays() throws(FleetError) {
        let suffixes = try suffixes()
        for name in Self.byDay {
            let all = suffixes.map { "SELECT * FROM \(name)_\($0)" }
            try execute("DROP VIEW IF EXISTS \(name); CREATE VIEW \(name) AS \(all.joined(separator: " UNION ALL "))")
        }
    }

    /// The table suffix for a day. Creates the day's tables if they are missing, unless the day belongs to the table of
    /// other days. Call in a transaction, which excludes other writers.
    private func suffix(of day: String) throws(FleetError) -> String {
        let suffix = FleetTables.suffix(of: day)
        if try suffixes().contains(suffix) { return suffix }
        // Findings of this day may have arrived when the day was in the future. Later findings go to the same table, to
        // detect duplicates.
        guard FleetTables.isOwn(day, oldest: Self.maxTableAgeDays),
            try query("SELECT 1 FROM zguard_findings_\(Self.otherDays) WHERE day = $1 LIMIT 1", [.text(day)]).isEmpty
        else { return Self.otherDays }
        try execute(Self.tables(suffix) + Self.triggers(suffix))
        try showAllDays()
        return suffix
    }

    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        try transaction { () throws(FleetError) in try insertWithin(findings) }
    }

    func insertWithin(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        var keys = VersionKeys()
        var group = Group()
        var added = 0
        var suffixes: [String: String] = [:]
        for day in Set(findings.map(\.day)) { suffixes[day] = try suffix(of: day) }
        // Insert in key order, for locality in the B-trees.
        for place in ShippedFinding.order(of: findings) {
            let finding = findings[place]
            let values = finding.columns(versionKey: keys[finding.version]).map { SQLValue.text($0) }
            try query(
                """
                INSERT INTO zguard_findings_\(suffixes[finding.day] ?? Self.otherDays) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                ON CONFLICT DO NOTHING
                """, values)
            if changes == 0 { continue }
            added += 1
            let key = finding.tenant + "/" + finding.signature
            if group.key != key { try count(&group, suffixes, next: key) }
            group.add(finding, values)
        }
        try count(&group, suffixes, next: "")
        return added
    }

    func insert(_ formers: [FormerSignature]) throws(FleetError) {
        for one in formers {
            try query(
                "INSERT INTO zguard_former VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                [one.tenant, one.former, one.signature].map { .text($0) })
        }
    }

    // Forgets the names of tables, because another process may have dropped a day's tables before the transaction.
    func inTransaction<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
        try transaction { () throws(FleetError) in
            self.findingsTables = [:]
            return try work()
        }
    }

    func changeCounts<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
        try inTransaction(work)
    }

    func findingsTable(of day: String) throws(FleetError) -> String {
        if let known = findingsTables[day] { return known }
        let suffix = FleetTables.suffix(of: day)
        // The day may be in the table of other days although it has one of its own: see `suffix(of:)`.
        let others = "SELECT 1 FROM zguard_findings_\(Self.otherDays) WHERE day = $1 LIMIT 1"
        let hasTable = try suffixes().contains(suffix)
        let isElsewhere = try !query(others, [.text(day)]).isEmpty
        let isOwn = hasTable && !isElsewhere
        let table = "zguard_findings_\(isOwn ? suffix : Self.otherDays)"
        findingsTables[day] = table
        return table
    }

    private var findingsTables: [String: String] = [:]

    /// Moves the group's counts from the table of other days first: earlier versions kept the counts of all days there.
    func daysTable(of day: String, _ tenant: String, _ signature: String) throws(FleetError) -> String {
        let table = try findingsTable(of: day).replacing("zguard_findings", with: "zguard_days")
        let other = "zguard_days_\(Self.otherDays)"
        if table == other { return table }
        let key: [SQLValue] = [tenant, signature, day].map { .text($0) }
        let rows = "FROM \(other) WHERE tenant = $1 AND signature = $2 AND day = $3"
        try query(Self.countingDays(table, "SELECT * \(rows)"), key)
        try query("DELETE \(rows)", key)
        return table
    }

    func replaceBodies(_ rows: [StoredFinding]) throws(FleetError) -> [StoredFinding] {
        var replaced: [StoredFinding] = []
        for row in rows {
            try query(
                """
                UPDATE \(try findingsTable(of: row.day)) SET body = $5, occurrences = CASE WHEN $5 = '' THEN 0 ELSE occurrences END
                WHERE tenant = $1 AND signature = $2 AND day = $3 AND id = $4 AND occurrences > 0
                """, [row.tenant, row.signature, row.day, row.id, row.body].map { .text($0) })
            if changes > 0 { replaced.append(row) }
        }
        return replaced
    }

    func prepareSymbols() throws(FleetError) { try execute(FleetTables.symbols(binary: "blob")) }

    private func transaction<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
        try execute("BEGIN IMMEDIATE")
        do throws(FleetError) {
            let result = try work()
            try execute("COMMIT")
            return result
        } catch {
            try? execute("ROLLBACK")
            throw error
        }
    }

    /// Counts of the new findings in one group.
    private struct Group {
        struct Counts {
            /// The key columns of the table, tenant and signature first.
            var key: [SQLValue]
            var findings: Int64 = 0
            var occurrences: Int64 = 0
            var first = Int64.max
            var last = Int64.min

            /// Parameters of a counting statement: key, counts, then `more`.
            func values(_ more: [SQLValue] = []) -> [SQLValue] {
                key + [.integer(findings), .integer(occurrences), .integer(first), .integer(last)] + more
            }
        }

        var key = ""
        var finding: ShippedFinding?
        var total: Counts?
        var version: (name: SQLValue, key: String) = (.null, "")
        var days: [[SQLValue]: Counts] = [:]
        var hosts: [[SQLValue]: Counts] = [:]

        mutating func add(_ new: ShippedFinding, _ values: [SQLValue]) {
            func count(_ counts: inout Counts) {
                counts.findings += 1
                counts.occurrences += new.occurrences
                counts.first = min(counts.first, new.milliseconds)
                counts.last = max(counts.last, new.milliseconds)
            }
            let versionKey = values[8].text ?? ""
            if finding == nil || versionKey < version.key { version = (values[7], versionKey) }
            finding = finding ?? new
            var total = total ?? Counts(key: Array(values[..<2]))
            count(&total)
            self.total = total
            // Key of zguard_days: tenant, signature, day, program, version, version_key. Key of zguard_hosts: tenant,
            // signature, host.
            let day = Array(values[..<3]) + values[6...8]
            count(&days[day, default: Counts(key: day)])
            let host = Array(values[..<2]) + values[5...5]
            count(&hosts[host, default: Counts(key: host)])
        }
    }

    /// Adds the counts of a group to the tables, then starts the next group.
    private func count(_ group: inout Group, _ suffixes: [String: String], next key: String) throws(FleetError) {
        if let finding = group.finding, let total = group.total {
            for day in group.days.values {
                let suffix = day.key[2].text.flatMap { suffixes[$0] } ?? Self.otherDays
                let values = "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
                try query(Self.countingDays("zguard_days_\(suffix)", values), day.values())
            }
            for host in group.hosts.values { try query(Self.countingHosts, host.values()) }
            try query(Self.countingTotals, total.values([group.version.name, .text(group.version.key)]))
            if try query("SELECT 1 FROM zguard_groups WHERE tenant = $1 AND signature = $2", total.key).isEmpty {
                try query(
                    "INSERT INTO zguard_groups VALUES ($1, $2, $3, $4, $5, $6)",
                    total.key + [finding.kind, finding.headline, finding.words, finding.line].map { .text($0) })
                try insert(finding.formers)
                try insertNames(of: [(finding.tenant, finding.signature, finding.finding)])
            }
        }
        group = Group(key: key)
    }

    private static func countingDays(_ table: String, _ rows: String) -> String {
        """
        INSERT INTO \(table) \(rows)
        ON CONFLICT (tenant, signature, day, program, version) DO UPDATE SET findings = findings + excluded.findings,
            occurrences = occurrences + excluded.occurrences, first_at = min(first_at, excluded.first_at),
            last_at = max(last_at, excluded.last_at)
        """
    }
    private static let countingHosts = """
        INSERT INTO zguard_hosts VALUES ($1, $2, $3, $4, $5, $7)
        ON CONFLICT (tenant, signature, host) DO UPDATE SET findings = findings + excluded.findings,
            occurrences = occurrences + excluded.occurrences, last_at = max(last_at, excluded.last_at)
        """
    private static let countingTotals = """
        INSERT INTO zguard_totals VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (tenant, signature) DO UPDATE SET findings = findings + excluded.findings,
            occurrences = occurrences + excluded.occurrences, first_at = min(first_at, excluded.first_at),
            last_at = max(last_at, excluded.last_at),
            version = CASE WHEN excluded.version_key < version_key THEN excluded.version ELSE version END,
            version_key = min(version_key, excluded.version_key)
        """

    func removeFindings(before day: String) throws(FleetError) {
        try transaction { () throws(FleetError) in
            func subtractCounts(_ suffix: String) throws(FleetError) {
                try query(
                    """
                    UPDATE zguard_totals AS t SET findings = t.findings - g.findings, occurrences = t.occurrences - g.occurrences
                    FROM (SELECT tenant, signature, sum(findings) AS findings, sum(occurrences) AS occurrences
                        FROM zguard_days_\(suffix) WHERE day < $1 GROUP BY tenant, signature) AS g
                    WHERE t.tenant = g.tenant AND t.signature = g.signature
                    """, [.text(day)])
            }
            let all = try suffixes()
            // Older versions kept the counts of all days in one table.
            try subtractCounts(Self.otherDays)
            for name in Self.byDay { try query("DELETE FROM \(name)_\(Self.otherDays) WHERE day < $1", [.text(day)]) }
            for suffix in all where FleetTables.isDay(suffix) && suffix < FleetTables.suffix(of: day) {
                try subtractCounts(suffix)
                for name in Self.byDay { try execute("DROP TABLE \(name)_\(suffix)") }
                try query("DELETE FROM \(Self.counted) WHERE suffix = $1", [.text(suffix)])
            }
            try showAllDays()
            try recountWeek(of: day, try suffixes())
            for statement in FleetTables.removingEmpty + [FleetTables.removingFormer, FleetTables.removingNames] {
                try query(statement, [])
            }
        }
    }
}

extension FleetTables {
    /// Statements that remove groups without findings.
    static let removingEmpty =
        ["zguard_groups", "zguard_hosts"].map { table in
            """
            DELETE FROM \(table) WHERE (tenant, signature) IN (SELECT tenant, signature FROM zguard_totals WHERE findings <= 0)
            """
        } + ["DELETE FROM zguard_totals WHERE findings <= 0"]

    /// Removes the names of groups that are gone.
    static let removingNames = """
        DELETE FROM zguard_names WHERE NOT EXISTS (SELECT 1 FROM zguard_totals t
            WHERE t.tenant = zguard_names.tenant AND t.signature = zguard_names.signature)
        """

    /// Removes the earlier signatures of groups that are gone.
    static let removingFormer = """
        DELETE FROM zguard_former WHERE NOT EXISTS (SELECT 1 FROM zguard_totals t WHERE t.tenant = zguard_former.tenant
            AND t.signature IN (zguard_former.signature, zguard_former.former))
        """
}
