// Findings in a file of SQLite.

final class SQLiteFleet: SQLiteConnection, Database {
    init(path: String) throws(FleetError) {
        try super.init(path: path, isWritten: true)
        // What is said to be kept outlasts a power failure.
        try execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;")
    }

    /// To read from alone.
    init(reading path: String) throws(FleetError) { try super.init(path: path, isWritten: false) }

    /// A fleet's store in memory.
    init() throws(FleetError) {
        try super.init(path: ":memory:", isWritten: true)
        try prepare()
    }

    func prepare() throws(FleetError) {
        try execute(
            """
            BEGIN IMMEDIATE;
            CREATE TABLE IF NOT EXISTS zguard_findings (
                tenant text NOT NULL, signature text NOT NULL, day text NOT NULL, id text NOT NULL, at bigint NOT NULL,
                host text NOT NULL, program text NOT NULL, version text NOT NULL, version_key text NOT NULL,
                occurrences bigint NOT NULL, body text NOT NULL,
                PRIMARY KEY (tenant, signature, day, id));
            CREATE INDEX IF NOT EXISTS zguard_findings_by_day ON zguard_findings (day);
            \(FleetTables.counting(day: "text"))
            COMMIT;
            """)
    }

    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        try execute("BEGIN IMMEDIATE")
        do throws(FleetError) {
            var added = 0
            for finding in findings where try insert(finding) { added += 1 }
            try execute("COMMIT")
            return added
        } catch {
            try? execute("ROLLBACK")
            throw error
        }
    }

    private func insert(_ finding: ShippedFinding) throws(FleetError) -> Bool {
        let values = finding.values
        try query(Self.insertion, values)
        if changes == 0 { return false }
        try query(Self.countingDays, values)
        try query(Self.countingHosts, values)
        try query(Self.countingTotals, values)
        try query(
            "INSERT INTO zguard_groups VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            values[..<2] + [finding.kind, finding.headline, finding.words, finding.line].map { .text($0) })
        return true
    }

    private static let insertion = """
        INSERT INTO zguard_findings VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING
        """
    private static let countingDays = """
        INSERT INTO zguard_days VALUES ($1, $2, $3, $7, $8, $9, 1, $10, $5, $5)
        ON CONFLICT (tenant, signature, day, program, version) DO UPDATE SET findings = findings + 1,
            occurrences = occurrences + excluded.occurrences, first_at = min(first_at, excluded.first_at),
            last_at = max(last_at, excluded.last_at)
        """
    private static let countingHosts = """
        INSERT INTO zguard_hosts VALUES ($1, $2, $6, 1, $10, $5)
        ON CONFLICT (tenant, signature, host) DO UPDATE SET findings = findings + 1,
            occurrences = occurrences + excluded.occurrences, last_at = max(last_at, excluded.last_at)
        """
    private static let countingTotals = """
        INSERT INTO zguard_totals VALUES ($1, $2, 1, $10, $5, $5, $8, $9)
        ON CONFLICT (tenant, signature) DO UPDATE SET findings = findings + 1, occurrences = occurrences + excluded.occurrences,
            first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at),
            version = CASE WHEN excluded.version_key < version_key THEN excluded.version ELSE version END,
            version_key = min(version_key, excluded.version_key)
        """

    func removeFindings(before day: String) throws(FleetError) {
        try execute("BEGIN IMMEDIATE")
        do throws(FleetError) {
            try query("DELETE FROM zguard_findings WHERE day < $1", [.text(day)])
            try query(
                """
                UPDATE zguard_totals AS t SET findings = t.findings - g.findings, occurrences = t.occurrences - g.occurrences
                FROM (SELECT tenant, signature, sum(findings) AS findings, sum(occurrences) AS occurrences
                    FROM zguard_days WHERE day < $1 GROUP BY tenant, signature) AS g
                WHERE t.tenant = g.tenant AND t.signature = g.signature
                """, [.text(day)])
            try query("DELETE FROM zguard_days WHERE day < $1", [.text(day)])
            for statement in FleetTables.removingEmpty { try query(statement, []) }
            try execute("COMMIT")
        } catch {
            try? execute("ROLLBACK")
            throw error
        }
    }
}

extension FleetTables {
    /// Groups of which no finding is left.
    static let removingEmpty =
        ["zguard_groups", "zguard_hosts"].map { table in
            """
            DELETE FROM \(table) WHERE (tenant, signature) IN (SELECT tenant, signature FROM zguard_totals WHERE findings <= 0)
            """
        } + ["DELETE FROM zguard_totals WHERE findings <= 0"]
}
