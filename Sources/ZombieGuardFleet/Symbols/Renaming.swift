// Symbolicates findings in a database whose symbols arrived after them, signs them again, and moves them to their new
// groups.

import Glibc
import ZombieGuard
import ZombieGuardCore

/// Symbolicates stored findings of one tenant. Every transaction leaves the store consistent, and another run can
/// complete a run that was interrupted.
final class Renaming {
    /// What was done.
    struct Result: Hashable, Sendable {
        /// Findings that have got names.
        var findings = 0
        /// Signatures of the groups that had these findings before, and that have them now.
        var before: Set<String> = []
        var after: Set<String> = []
        /// Signatures whose findings turned out to be of several bugs.
        var apart: [String: Set<String>] = [:]
    }

    private let database: any Database
    private let tenant: String
    private let namer: FindingNamer
    /// Only findings with a frame of one of these builds are read. Empty: all are read, also if more than `mostBuilds`
    /// are given.
    private let builds: [String]
    private let allBuilds: Set<String>

    private var batch: [(row: StoredFinding, named: ShippedFinding)] = []
    private var batchBytes = 0
    /// Groups with findings that got names or moved, and those of these groups whose rows were all read.
    private var changed: Set<String> = []
    private var finished: [String] = []
    private(set) var result = Result()
    private var successors: [String: Set<String>] = [:]

    private static let mostRows = 1000, mostBytes = 16 << 20, pageRows = 200, pageGroups = 200
    private static let mostBuilds = 20
    private static let attempts = 8

    init(_ database: any Database, tenant: String, namer: FindingNamer, builds: [String] = []) {
        self.database = database
        self.tenant = tenant
        self.namer = namer
        self.builds = builds.count <= Self.mostBuilds ? builds : []
        allBuilds = Set(builds)
    }

    func run() throws(FleetError) {
        try database.prepare()
        for signature in try candidates() { try read(signature) }
        try flush()
        result.apart = successors.filter { $0.value.count > 1 }
    }

    /// Signatures of the groups whose findings may get names. Does not consider ``builds``, because a group's findings
    /// may be of different builds.
    private func candidates() throws(FleetError) -> [String] {
        var found: [String] = []
        var last = ""
        while true {
            let rows = try database.query(
                """
                SELECT signature, body FROM zguard_groups WHERE tenant = $1 AND signature > $2
                ORDER BY signature LIMIT \(Self.pageGroups)
                """, [.text(tenant), .text(last)])
            for row in rows {
                let signature = row[0].text ?? ""
                last = signature
                // Include a group whose shown finding has no frames: sampling may have removed its stacks.
                guard let shown = Finding(jsonLine: row[1].text ?? ""),
                    shown.hasUnnamedFrames || !shown.hasFrames || shown.hasFramesOfTables(in: allBuilds)
                else { continue }
                found.append(signature)
                // Refresh the shown finding, too, if an earlier run was interrupted before it did.
                if namer.named(shown, signature: signature, builds: allBuilds) != nil { changed.insert(signature) }
            }
            if rows.count < Self.pageGroups { return found }
        }
    }

    private func read(_ signature: String) throws(FleetError) {
        let days = try database.query(
            "SELECT DISTINCT day FROM zguard_days WHERE tenant = $1 AND signature = $2 ORDER BY day",
            [.text(tenant), .text(signature)])
        for day in days.compactMap({ $0.first?.text }) { try read(signature, day) }
        if changed.contains(signature) { finished.append(signature) }
    }

    private func read(_ signature: String, _ day: String) throws(FleetError) {
        var parameters: [SQLValue] = [.text(tenant), .text(signature), .text(day)]
        let words = builds.isEmpty ? ["build_id"] : builds
        let conditions = words.indices.map { "body LIKE $\($0 + 5)" }
        // The least id, with 32 digits because ids are UUIDs in PostgreSQL.
        var last = String(repeating: "0", count: 32)
        let table = try database.findingsTable(of: day)
        let statement = """
            SELECT \(StoredFinding.columns) FROM \(table)
            WHERE tenant = $1 AND signature = $2 AND day = $3 AND id > $4 AND occurrences > 0
                AND (\(conditions.joined(separator: " OR "))) ORDER BY id LIMIT \(Self.pageRows)
            """
        parameters.append(.text(last))
        parameters += words.map { .text("%\"\($0)\"%") }
        while true {
            parameters[3] = .text(last)
            let rows = try database.query(statement, parameters)
            for row in rows {
                let row = StoredFinding(row, tenant: tenant, signature: signature, day: day)
                last = row.id
                try take(row)
            }
            if rows.count < Self.pageRows { return }
        }
    }

    private func take(_ row: StoredFinding) throws(FleetError) {
        guard let finding = Finding(jsonLine: row.body),
            let named = namer.named(finding, signature: row.signature, builds: allBuilds)
        else { return }
        let shipped = ShippedFinding(named, from: row)
        batch.append((row, shipped))
        changed.insert(row.signature)
        batchBytes += shipped.line.utf8.count
        if batch.count >= Self.mostRows || batchBytes >= Self.mostBytes { try flush() }
    }

    // MARK: Writing

    /// Stores the findings of the batch, then completes the groups whose rows were all read.
    private func flush() throws(FleetError) {
        if batch.isEmpty, finished.isEmpty { return }
        var attempt = 0
        while true {
            do throws(FleetError) {
                let moved = try database.changeCounts { () throws(FleetError) in try self.store() }
                result.findings += moved
                break
            } catch {
                attempt += 1
                guard error.isTemporary, attempt < Self.attempts else { throw error }
                usleep(useconds_t.random(in: 50_000...500_000))
            }
        }
        for (row, named) in batch {
            result.before.insert(row.signature)
            result.after.insert(named.signature)
            successors[row.signature, default: []].insert(named.signature)
        }
        (batch, batchBytes, finished) = ([], 0, [])
    }

    private func store() throws(FleetError) -> Int {
        let rows = batch.map { entry in
            var row = entry.row
            row.body = entry.named.signature == row.signature ? entry.named.line : ""
            return row
        }
        let replaced = try database.replaceBodies(rows)
        // Another process may have moved some of the findings meanwhile: continue with those that this transaction has
        // moved.
        let buried = Set(replaced.filter { $0.body.isEmpty }.map { [$0.signature, $0.day, $0.id] })
        let moved = batch.filter { buried.contains([$0.row.signature, $0.row.day, $0.row.id]) }
        try database.subtractCounts(of: moved.map(\.row))
        _ = try database.insertWithin(moved.map(\.named))
        try database.insert(Array(Set(moved.flatMap(\.named.formers))))
        let left = Dictionary(grouping: moved.map(\.row), by: \.signature)
        for (signature, rows) in left.sorted(by: { $0.key < $1.key }) {
            try database.removeEmptyGroup(tenant, signature, days: Set(rows.map(\.day)))
        }
        for signature in finished { try database.refreshGroup(tenant, signature) }
        return replaced.count
    }
}

extension Database {
    /// Subtracts findings from the counts of their groups.
    func subtractCounts(of rows: [StoredFinding]) throws(FleetError) {
        func subtract(_ table: String, _ columns: [String], _ key: (StoredFinding) -> [String]) throws(FleetError) {
            let sums = Dictionary(grouping: rows) { [$0.tenant, $0.signature] + key($0) }
            let names = ["tenant", "signature"] + columns
            let condition = names.enumerated().map { "\($1) = $\($0 + 3)" }.joined(separator: " AND ")
            for key in sums.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
                let some = sums[key] ?? []
                let occurrences = some.reduce(0 as Int64) { $0 + $1.occurrences }
                let name = table == "zguard_days" ? try daysTable(of: key[2], key[0], key[1]) : table
                try query(
                    "UPDATE \(name) SET findings = findings - $1, occurrences = occurrences - $2 WHERE \(condition)",
                    [.integer(Int64(some.count)), .integer(occurrences)] + key.map { .text($0) })
            }
        }
        try subtract("zguard_days", ["day", "program", "version"]) { [$0.day, $0.program, $0.version] }
        try subtract("zguard_hosts", ["host"]) { [$0.host] }
        try subtract("zguard_totals", []) { _ in [] }
    }

    /// Removes the counts of days and machines, and the group, if they have no findings left. If the group has a single
    /// successor, the successor takes over the group's first time and oldest version, because the group's oldest
    /// findings may have been pruned.
    func removeEmptyGroup(_ tenant: String, _ signature: String, days: Set<String>) throws(FleetError) {
        let key: [SQLValue] = [.text(tenant), .text(signature)]
        try query(
            """
            UPDATE zguard_totals SET
                first_at = CASE WHEN o.first_at < zguard_totals.first_at THEN o.first_at ELSE zguard_totals.first_at END,
                version = CASE WHEN o.version_key < zguard_totals.version_key THEN o.version ELSE zguard_totals.version END,
                version_key = CASE WHEN o.version_key < zguard_totals.version_key THEN o.version_key ELSE zguard_totals.version_key END
            FROM zguard_totals o
            WHERE zguard_totals.tenant = $1 AND o.tenant = $1 AND o.signature = $2 AND o.findings <= 0
                AND zguard_totals.signature = (SELECT min(f.signature) FROM zguard_former f
                    WHERE f.tenant = $1 AND f.former = $2 GROUP BY f.former HAVING count(*) = 1)
            """, key)
        let tables = Set(try days.map { day throws(FleetError) in try daysTable(of: day, tenant, signature) })
        for table in tables.sorted() {
            try query("DELETE FROM \(table) WHERE tenant = $1 AND signature = $2 AND findings <= 0", key)
        }
        // The counts of machines include pruned findings, so they may be above 0 although the group is empty: use
        // zguard_totals.
        let isEmpty = """
            EXISTS (SELECT 1 FROM zguard_totals t WHERE t.tenant = $1 AND t.signature = $2 AND t.findings <= 0)
            """
        try query(
            "DELETE FROM zguard_hosts WHERE tenant = $1 AND signature = $2 AND (findings <= 0 OR \(isEmpty))", key)
        try query("DELETE FROM zguard_groups WHERE tenant = $1 AND signature = $2 AND \(isEmpty)", key)
        try query("DELETE FROM zguard_totals WHERE tenant = $1 AND signature = $2 AND findings <= 0", key)
        if try features().hasNames {
            try query(
                """
                DELETE FROM zguard_names WHERE tenant = $1 AND signature = $2 AND NOT EXISTS (SELECT 1 FROM zguard_groups g
                    WHERE g.tenant = $1 AND g.signature = $2)
                """, key)
        }
    }

    /// Replaces the shown finding of a group, which may have moved or got names, by a current finding of the group.
    func refreshGroup(_ tenant: String, _ signature: String) throws(FleetError) {
        let key: [SQLValue] = [.text(tenant), .text(signature)]
        let bodies = try query(
            """
            SELECT body FROM zguard_findings WHERE tenant = $1 AND signature = $2 AND occurrences > 0
            ORDER BY day DESC, id LIMIT 10
            """, key
        ).compactMap { $0.first?.text }
        let findings = bodies.compactMap { body in Finding(jsonLine: body).map { (body, $0) } }
        // Show only a finding with stacks: sampling may have removed them.
        guard let (body, finding) = findings.first(where: { $0.1.stacks != Finding.Stacks() }) else { return }
        var row = StoredFinding(
            [.text(""), .integer(0), .text(""), .text(""), .text(""), .integer(0), .text(body)], tenant: tenant,
            signature: signature, day: "")
        row.program = finding.program ?? ""
        let shown = ShippedFinding(finding, from: row)
        try query(
            "UPDATE zguard_groups SET headline = $3, words = $4, body = $5 WHERE tenant = $1 AND signature = $2",
            key + [shown.headline, shown.words, body].map { .text($0) })
        if try features().hasNames {
            try query("DELETE FROM zguard_names WHERE tenant = $1 AND signature = $2", key)
            try insertNames(of: [(tenant, signature, finding)])
        }
    }
}
