// Findings in PostgreSQL: partitioned by day, so that what is too old goes as a whole.

final class PostgresFleet: PostgresConnection, Database {
    /// Days that have a partition, or for which there shall be none.
    private var days: Set<String> = []

    /// Days before today that get a partition of their own; what is older, or of the future, lies in one for all.
    private static let oldestPartition: Int64 = 400
    /// Keeps two from making the same table.
    private static let lock = 0x7a67_7561_7264

    override init(address: String) throws(FleetError) {
        try super.init(address: address)
        try execute("SET client_encoding = 'UTF8'; SET lock_timeout = '20s'; SET datestyle = 'ISO'")
    }

    func prepare() throws(FleetError) {
        // Who may only write need not be able to make tables.
        if try isThere("zguard_totals") { return }
        try locked {
            """
            CREATE TABLE IF NOT EXISTS zguard_findings (
                tenant text NOT NULL, signature text NOT NULL, day date NOT NULL, id uuid NOT NULL, at bigint NOT NULL,
                host text NOT NULL, program text NOT NULL, version text NOT NULL, version_key text COLLATE "C" NOT NULL,
                occurrences bigint NOT NULL, body text NOT NULL,
                PRIMARY KEY (tenant, signature, day, id)) PARTITION BY RANGE (day);
            CREATE TABLE IF NOT EXISTS zguard_findings_other PARTITION OF zguard_findings DEFAULT;
            \(FleetTables.counting(day: "date").replacing("version_key text", with: "version_key text COLLATE \"C\""))
            """
        }
    }

    private func isThere(_ name: String) throws(FleetError) -> Bool {
        try query("SELECT to_regclass($1)::text", [.text(name)]).first?.first?.text != nil
    }

    private func locked(_ script: () -> String) throws(FleetError) {
        try execute("BEGIN; SELECT pg_advisory_xact_lock(\(Self.lock));")
        do throws(FleetError) {
            try execute(script() + "; COMMIT")
        } catch {
            let reason = state
            if isUsable { try? execute("ROLLBACK") }
            state = reason
            throw error
        }
    }

    private func prepare(day: String) throws(FleetError) {
        if days.contains(day) { return }
        let now = Timestamp.now
        let name = Self.partition(day)
        let isOwn =
            day >= ShippedFinding.day(now.earlier(bySeconds: Self.oldestPartition * 86400))
            && day <= ShippedFinding.day(now.earlier(bySeconds: -86400))
        if isOwn, try !isThere(name), let end = Timestamp(day)?.earlier(bySeconds: -86400) {
            do throws(FleetError) {
                try locked {
                    """
                    CREATE TABLE IF NOT EXISTS \(name) PARTITION OF zguard_findings
                        FOR VALUES FROM ('\(day)') TO ('\(ShippedFinding.day(end))')
                    """
                }
            } catch {
                // Findings of that day came when it was the future: they lie in the table of the others, and so will these.
                let checkViolation = "23514"
                if state != checkViolation { throw error }
            }
        }
        days.insert(day)
    }

    private static func partition(_ day: String) -> String { "zguard_findings_" + day.replacing("-", with: "_") }

    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        for day in Set(findings.map(\.day)) { try prepare(day: day) }
        // Rows are locked in the same order by all, so that nobody waits for somebody who waits for them.
        let sorted = findings.sorted { ($0.signature, $0.day, $0.id) < ($1.signature, $1.day, $1.id) }
        let rows = sorted.map { $0.values + [$0.kind, $0.headline, $0.words].map { .text($0) } }
        guard let first = rows.first else { return 0 }
        let columns = first.indices.map { column in SQLValue.text(Self.array(rows.map { $0[column].text ?? "" })) }
        return Int(try query(Self.insertion, columns).first?.first?.integer ?? 0)
    }

    private static func array(_ texts: [String]) -> String {
        var array = "{"
        for (index, text) in texts.enumerated() {
            array += index == 0 ? "\"" : ",\""
            if text.utf8.contains(where: { $0 == 0x22 || $0 == 0x5c }) {
                array += text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
            } else {
                array += text
            }
            array += "\""
        }
        return array + "}"
    }

    /// One statement, which is there as a whole or not at all: what counts does so for what is new alone.
    private static let insertion = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::text[], $2::text[], $3::date[], $4::uuid[], $5::bigint[], $6::text[], $7::text[],
                $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[])
                AS i(\(FleetTables.columns.joined(separator: ", ")), kind, headline, words)),
        new AS (
            INSERT INTO zguard_findings SELECT \(FleetTables.columns.joined(separator: ", ")) FROM input
            ON CONFLICT DO NOTHING
            RETURNING tenant, signature, day, id, at, host, program, version, version_key, occurrences),
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
        totals AS (
            INSERT INTO zguard_totals AS t SELECT tenant, signature, count(*), sum(occurrences), min(at), max(at),
                (array_agg(version ORDER BY version_key))[1], min(version_key) FROM new GROUP BY 1, 2 ORDER BY 1, 2
            ON CONFLICT (tenant, signature) DO UPDATE SET findings = t.findings + excluded.findings,
                occurrences = t.occurrences + excluded.occurrences, first_at = least(t.first_at, excluded.first_at),
                last_at = greatest(t.last_at, excluded.last_at),
                version = CASE WHEN excluded.version_key < t.version_key THEN excluded.version ELSE t.version END,
                version_key = least(t.version_key, excluded.version_key)),
        groups AS (
            INSERT INTO zguard_groups SELECT DISTINCT ON (tenant, signature) tenant, signature, kind, headline, words, body
                FROM input ORDER BY tenant, signature
            ON CONFLICT DO NOTHING)
        SELECT count(*) FROM new
        """

    func removeFindings(before day: String) throws(FleetError) {
        let partitions = try query(
            """
            SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass('zguard_findings') AND c.relname LIKE 'zguard\\_findings\\_2%' AND c.relname < $1
            """, [.text(Self.partition(day))])
        for name in partitions.compactMap({ $0.first?.text }) {
            try execute("DROP TABLE IF EXISTS \"\(name.replacing("\"", with: "\"\""))\"")
        }
        days = []
        try execute("BEGIN")
        do throws(FleetError) {
            try query("DELETE FROM zguard_findings_other WHERE day < $1", [.text(day)])
            try query(
                """
                WITH gone AS (DELETE FROM zguard_days WHERE day < $1 RETURNING tenant, signature, findings, occurrences),
                sums AS (SELECT tenant, signature, sum(findings) AS findings, sum(occurrences) AS occurrences FROM gone GROUP BY 1, 2)
                UPDATE zguard_totals t SET findings = t.findings - s.findings, occurrences = t.occurrences - s.occurrences
                FROM sums s WHERE t.tenant = s.tenant AND t.signature = s.signature
                """, [.text(day)])
            for statement in FleetTables.removingEmpty { try query(statement, []) }
            try execute("COMMIT")
        } catch {
            if isUsable { try? execute("ROLLBACK") }
            throw error
        }
    }
}
