// Keeps findings in PostgreSQL, partitioned by day so that a whole day can be dropped at once.

import ZombieGuard

final class PostgresFleet: PostgresConnection, Database {
    /// Days known to have a partition, or known to get none.
    private var days: Set<String> = []

    /// Age in days up to which a day gets its own partition. Older and future days share the default partition.
    private static let oldestPartition: Int64 = 400
    /// Key of the advisory lock under which tables are created ("zguard" in ASCII).
    private static let lock = 0x7a67_7561_7264

    /// Whether to run each query in a read-only transaction of its own: a pooler (PgBouncer) may use another connection
    /// for the next query.
    private var isReading = false

    /// Opens a database read-only.
    convenience init(reading address: String) throws(FleetError) {
        try self.init(address: address)
        isReading = true
    }

    override init(address: String) throws(FleetError) {
        try super.init(address: address)
        try execute("SET client_encoding = 'UTF8'; SET lock_timeout = '20s'; SET datestyle = 'ISO'")
    }

    func prepare() throws(FleetError) {
        // Check first: a role that may only insert cannot create tables.
        if try hasTable("zguard_totals") {
            // The role may lack the right to create the table, or to write to another role's table. Then findings are
            // stored without their earlier signatures.
            if try !hasTable("zguard_former") {
                do throws(FleetError) {
                    try locked { FleetTables.formerSignatures() }
                } catch {
                    if error.isTemporary { throw error }
                }
            }
            hasFormer = try has("INSERT", on: "zguard_former")
            return try prepareSummaries()
        }
        try locked {
            """
            CREATE TABLE IF NOT EXISTS zguard_findings (
                tenant text NOT NULL, signature text NOT NULL, day date NOT NULL, id uuid NOT NULL, at bigint NOT NULL,
                host text NOT NULL, program text NOT NULL, version text NOT NULL, version_key text COLLATE "C" NOT NULL,
                occurrences bigint NOT NULL, body text NOT NULL,
                PRIMARY KEY (tenant, signature, day, id)) PARTITION BY RANGE (day);
            CREATE TABLE IF NOT EXISTS zguard_findings_other PARTITION OF zguard_findings DEFAULT;
            \((FleetTables.countingDays("zguard_days", day: "date") + FleetTables.counting())
                .replacing("version_key text", with: "version_key text COLLATE \"C\""))
            \(FleetTables.formerSignatures())
            """
        }
        hasFormer = true
        try prepareSummaries()
    }

    /// Creates the tables that speed up readers, and fills in rows that earlier versions did not write, as far as this
    /// role has the rights.
    private func prepareSummaries() throws(FleetError) {
        try prepareWeeks()
        if try !hasTable("zguard_names") {
            do throws(FleetError) { try locked { FleetNames.creation(key: "text COLLATE \"C\"") } } catch {
                if error.isTemporary { throw error }
            }
        }
        hasNames = try has("INSERT", on: "zguard_names")
        if hasNames, try mayRead("zguard_names") { try addMissingNames() }
    }

    func insertNames(_ columns: [[String]]) throws(FleetError) {
        if columns[0].isEmpty { return }
        _ = try query(
            """
            INSERT INTO zguard_names SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING
            """, arrays: columns)
    }

    func features() throws(FleetError) -> FleetFeatures {
        let row = try query(
            """
            SELECT has_table_privilege(to_regclass('zguard_former')::oid, 'SELECT')::text,
                (has_table_privilege(to_regclass('zguard_weeks')::oid, 'SELECT') AND EXISTS (\(Self.hasTrigger)))::text,
                has_table_privilege(to_regclass('zguard_names')::oid, 'SELECT')::text
            """, []
        ).first
        func has(_ column: Int) -> Bool { row?[column].text == "true" }
        return FleetFeatures(hasFormer: has(0), hasWeeks: has(1), hasNames: has(2))
    }

    func rows(of table: String, from first: String?, to last: String?, _ features: FleetFeatures) -> String { table }

    /// Adds decisions about groups.
    func add(_ events: [TriageEvent]) throws(FleetError) {
        if try !hasTable("zguard_triage") { try locked { FleetTables.triage() } }
        try transaction { () throws(FleetError) in try insert(events) }
    }

    var hidesTriage: Bool {
        get throws(FleetError) {
            let isThere = try hasTable("zguard_triage")
            let isReadable = try mayRead("zguard_triage")
            return isThere && !isReadable
        }
    }

    func mayRead(_ table: String) throws(FleetError) -> Bool { try has("SELECT", on: table) }

    private func has(_ privilege: String, on table: String) throws(FleetError) -> Bool {
        let rows = try query(
            "SELECT has_table_privilege(to_regclass($1)::oid, $2)::text", [.text(table), .text(privilege)])
        return rows.first?.first?.text == "true"
    }

    /// Whether there is a table of earlier signatures to which this connection may write.
    private var hasFormer = false
    /// Whether there is a table of names to which this connection may write.
    private var hasNames = false

    @discardableResult
    override func query(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]] {
        if !isReading { return try super.query(statement, parameters) }
        return try transaction("BEGIN READ ONLY") { () throws(FleetError) in try super.query(statement, parameters) }
    }

    private func hasTable(_ name: String) throws(FleetError) -> Bool {
        try query("SELECT to_regclass($1)::text", [.text(name)]).first?.first?.text != nil
    }

    func locked(_ script: () -> String) throws(FleetError) {
        try transaction("BEGIN; SELECT pg_advisory_xact_lock(\(Self.lock))") { () throws(FleetError) in
            try execute(script())
        }
    }

    private static func partition(of day: String) -> String { "zguard_findings_" + FleetTables.suffix(of: day) }

    private func prepare(day: String) throws(FleetError) {
        if days.contains(day) { return }
        let name = Self.partition(of: day)
        if FleetTables.isOwn(day, oldest: Self.oldestPartition), try !hasTable(name),
            let end = Timestamp(day)?.earlier(bySeconds: -86400)
        {
            do throws(FleetError) {
                try locked {
                    """
                    CREATE TABLE IF NOT EXISTS \(name) PARTITION OF zguard_findings
                        FOR VALUES FROM ('\(day)') TO ('\(end.day)')
                    """
                }
            } catch {
                // Findings of this day arrived when the day was in the future. All of them stay in the default
                // partition.
                let checkViolation = "23514"
                if state != checkViolation { throw error }
            }
        }
        days.insert(day)
    }

    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        if findings.isEmpty { return 0 }
        for day in Set(findings.map(\.day)) { try prepare(day: day) }
        return try transaction { () throws(FleetError) in try insertWithin(findings) }
    }

    // Precondition: each day of the findings has a partition, or belongs to the default partition.
    func insertWithin(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        if findings.isEmpty { return 0 }
        // All writers lock rows in the same order, to avoid deadlocks.
        let order = ShippedFinding.order(of: findings)
        var keys = VersionKeys()
        var columns = FleetTables.columns.map { _ in [String]() }
        for index in columns.indices { columns[index].reserveCapacity(order.count) }
        for place in order {
            let values = findings[place].columns(versionKey: keys[findings[place].version])
            for (index, value) in values.enumerated() { columns[index].append(value) }
        }
        // The statement returns one row for each group that was not counted before. In one more row the group is NULL,
        // and the last column is the number of new findings.
        let rows = try query(Self.insertion, arrays: columns)
        let unseen = Set(rows.filter { $0[0] != .null }.map { [$0[0].text ?? "", $0[1].text ?? ""] })
        var groups: [[String]: ShippedFinding] = [:]
        if !unseen.isEmpty {
            for finding in findings {
                let key = [finding.tenant, finding.signature]
                if unseen.contains(key) { groups[key] = groups[key] ?? finding }
            }
        }
        if !groups.isEmpty {
            let sorted = groups.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
            try _ = query(
                Self.insertionOfGroups,
                arrays: [
                    sorted.map(\.tenant), sorted.map(\.signature), sorted.map(\.kind), sorted.map(\.headline),
                    sorted.map(\.words), sorted.map(\.line),
                ])
            try insert(sorted.flatMap(\.formers))
            if hasNames { try insertNames(of: sorted.map { ($0.tenant, $0.signature, $0.finding) }) }
        }
        return Int(rows.first { $0[0] == .null }?.last?.integer ?? 0)
    }

    func insert(_ formers: [FormerSignature]) throws(FleetError) {
        if !hasFormer || formers.isEmpty { return }
        try _ = query(
            Self.insertionOfFormers,
            arrays: [formers.map(\.tenant), formers.map(\.former), formers.map(\.signature)])
    }

    func inTransaction<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
        try transaction("BEGIN", work)
    }

    /// The table lock stops shippers before they lock rows, because they lock the table zguard_days before any row.
    func changeCounts<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
        try transaction { () throws(FleetError) in
            // Force lookups by key: without statistics, the planner would read whole partitions.
            try execute(
                """
                LOCK TABLE zguard_days IN SHARE ROW EXCLUSIVE MODE;
                SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off
                """)
            return try work()
        }
    }

    func findingsTable(of day: String) -> String { "zguard_findings" }

    func daysTable(of day: String, _ tenant: String, _ signature: String) -> String { "zguard_days" }

    func replaceBodies(_ rows: [StoredFinding]) throws(FleetError) -> [StoredFinding] {
        if rows.isEmpty { return [] }
        let found = try query(
            """
            UPDATE zguard_findings f SET body = i.body, occurrences = CASE WHEN i.body = '' THEN 0 ELSE f.occurrences END
            FROM unnest($1::text[], $2::text[], $3::text[]::date[], $4::text[]::uuid[], $5::text[], $6::text[]::bigint[])
                AS i(tenant, signature, day, id, body, place)
            WHERE f.tenant = i.tenant AND f.signature = i.signature AND f.day = i.day AND f.id = i.id AND f.occurrences > 0
            RETURNING i.place
            """,
            arrays: [
                rows.map(\.tenant), rows.map(\.signature), rows.map(\.day), rows.map(\.id), rows.map(\.body),
                rows.indices.map(String.init),
            ])
        return found.map { rows[Int($0[0].integer)] }
    }

    func prepareSymbols() throws(FleetError) {
        if try !hasTable("zguard_symbol_parts") { try locked { FleetTables.symbols(binary: "bytea") } }
    }

    private func transaction<Result>(
        _ begin: String = "BEGIN", _ work: () throws(FleetError) -> Result
    ) throws(FleetError) -> Result {
        try execute(begin)
        do throws(FleetError) {
            let result = try work()
            try execute("COMMIT")
            return result
        } catch {
            let reason = state
            if isUsable { try? execute("ROLLBACK") }
            state = reason
            throw error
        }
    }

    /// One statement inserts the findings and updates all counts from the newly inserted rows. It returns the number of
    /// new findings and the groups that were not counted before. zguard_groups needs a second statement, whose newer
    /// snapshot shows which groups other transactions have removed. Further removals are prevented by row locks in
    /// zguard_totals, which the first statement has taken.
    private static let insertion = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::date[], $4::text[]::uuid[], $5::text[]::bigint[], $6::text[],
                $7::text[], $8::text[], $9::text[], $10::text[]::bigint[], $11::text[])
                AS i(\(FleetTables.columns.joined(separator: ", ")))),
        new AS (
            INSERT INTO zguard_findings SELECT * FROM input ON CONFLICT DO NOTHING
            RETURNING tenant, signature, day, at, host, program, version, version_key, occurrences),
        days AS (
            INSERT INTO zguard_days AS d SELECT tenant, signature, day, program, version, version_key, count(*), sum(occurrences),
                min(at), max(at) FROM new GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5
            ON CONFLICT (tenant, signature, day, program, version) DO UPDATE SET findings = d.findings + excluded.findings,
                occurrences = d.occurrences + excluded.occurrences, first_at = least(d.first_at, excluded.first_at),
                last_at = greatest(d.last_at, excluded.last_at)),
        hosts AS (
            INSERT INTO zguard_hosts AS h SELECT tenant, signature, host, count(*), sum(occurrences), max(at)
                FROM new GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
            ON CONFLICT (tenant, signature, host) DO UPDATE SET findings = h.findings + excluded.findings,
                occurrences = h.occurrences + excluded.occurrences, last_at = greatest(h.last_at, excluded.last_at)),
        sums AS MATERIALIZED (
            SELECT tenant, signature, count(*) AS findings, sum(occurrences) AS occurrences, min(at) AS first_at, max(at) AS last_at,
                (array_agg(version ORDER BY version_key))[1] AS version, min(version_key) AS version_key FROM new GROUP BY 1, 2),
        totals AS (
            INSERT INTO zguard_totals AS t SELECT * FROM sums ORDER BY tenant, signature
            ON CONFLICT (tenant, signature) DO UPDATE SET findings = t.findings + excluded.findings,
                occurrences = t.occurrences + excluded.occurrences, first_at = least(t.first_at, excluded.first_at),
                last_at = greatest(t.last_at, excluded.last_at),
                version = CASE WHEN excluded.version_key < t.version_key THEN excluded.version ELSE t.version END,
                version_key = least(t.version_key, excluded.version_key)
            RETURNING tenant, signature, findings)
        SELECT NULL, NULL, count(*) FROM new
        UNION ALL SELECT t.tenant, t.signature, t.findings FROM totals t JOIN sums s
            ON s.tenant = t.tenant AND s.signature = t.signature AND s.findings = t.findings
        """
    private static let insertionOfGroups = """
        INSERT INTO zguard_groups SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
        ON CONFLICT DO NOTHING
        """

    private static let insertionOfFormers = """
        INSERT INTO zguard_former SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING
        """

    func removeFindings(before day: String) throws(FleetError) {
        let partitions = try query(
            """
            SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass('zguard_findings') AND c.relname LIKE 'zguard\\_findings\\_2%' AND c.relname < $1
            """, [.text(Self.partition(of: day))])
        for name in partitions.compactMap({ $0.first?.text }) {
            try execute("DROP TABLE IF EXISTS \"\(name.replacing("\"", with: "\"\""))\"")
        }
        days = []
        try transaction { () throws(FleetError) in
            try query("DELETE FROM zguard_findings_other WHERE day < $1", [.text(day)])
            try query(
                """
                WITH gone AS (DELETE FROM zguard_days WHERE day < $1 RETURNING tenant, signature, findings, occurrences),
                sums AS (SELECT tenant, signature, sum(findings) AS findings, sum(occurrences) AS occurrences FROM gone GROUP BY 1, 2)
                UPDATE zguard_totals t SET findings = t.findings - s.findings, occurrences = t.occurrences - s.occurrences
                FROM sums s WHERE t.tenant = s.tenant AND t.signature = s.signature
                """, [.text(day)])
            for statement in FleetTables.removingEmpty { try query(statement, []) }
            if hasFormer { try query(FleetTables.removingFormer, []) }
            if hasNames { try query(FleetTables.removingNames, []) }
        }
    }
}
