// Queries of `zguard alerts` to a database: counts and durations of groups over a period, and facts about a group.

import ZombieGuard

/// Facts about a group for the text of an alert.
struct AlertFacts {
    var group: FleetReader.Group
    var triage: Triage?
    /// Programs with the bug, latest first, at most ten.
    var programs: [String]
    /// Versions with the bug, oldest first.
    var versions: [String]
    /// At most ten machines with the bug, those with the most occurrences first. `hostCount` counts all machines with
    /// the bug.
    var hosts: [String]
    var hostCount: Int64
}

/// A cache of the kinds of groups. A kind never changes, and reading the kinds takes longer than all other queries of a
/// check. Used by one thread at a time.
final class AlertKinds {
    private var kinds: [String: String] = [:]
    private static let most = 1 << 20

    /// Returns those of `signatures` whose groups are of the kind `kind`.
    func filtered(
        _ signatures: [String], _ kind: String, _ database: any Database, tenant: String
    ) throws(FleetError) -> [String] {
        let unknown = signatures.filter { kinds[$0] == nil }
        if kinds.count + unknown.count > Self.most { kinds = [:] }
        let rows = try database.chunked(unknown, [.text(tenant)]) { list in
            "SELECT signature, kind FROM zguard_groups WHERE tenant = $1 AND signature IN (\(list))"
        }
        var new: [String: String] = [:]
        for row in rows { new[row[0].text ?? ""] = row[1].text }
        kinds.merge(new) { $1 }
        return signatures.filter { kinds[$0] == kind }
    }
}

/// Queries of one transaction.
struct AlertQueries {
    let reader: FleetReader
    let tenant: String
    let now: Timestamp
    /// Current signatures of groups, by earlier signatures.
    let current: [String: String]
    /// Earlier signatures of groups, by current signatures.
    let earlier: [String: [String]]
    private let kinds: AlertKinds

    private var database: any Database { reader.database }

    init(_ reader: FleetReader, tenant: String, now: Timestamp, kinds: AlertKinds) throws(FleetError) {
        (self.reader, self.tenant, self.now, self.kinds) = (reader, tenant, now, kinds)
        current = try reader.current(tenant)
        earlier = Dictionary(grouping: current.keys) { [current] in current[$0] ?? $0 }
    }

    func current(_ signature: String) -> String { current[signature] ?? signature }

    // MARK: Conditions

    /// Returns the signatures whose groups meet all conditions and were not seen before `version`. One finding must
    /// have both the program and the version; the host may be that of another finding.
    func matching(
        _ signatures: [String], _ conditions: AlertWatch.Conditions, since version: String? = nil
    ) throws(FleetError) -> [String] {
        var left = Set(signatures)
        func keep(_ rows: [[SQLValue]], where isKept: ([SQLValue]) -> Bool = { _ in true }) {
            left.formIntersection(rows.filter(isKept).compactMap { $0.first?.text })
        }
        let owner = SQLValue.text(tenant)
        if let version {
            keep(
                try database.chunked(signatures, [owner, .text(versionKey(version))]) { list in
                    "SELECT signature FROM zguard_totals WHERE tenant = $1 AND version_key >= $2 AND signature IN (\(list))"
                })
            if try database.mayRead("zguard_former") {
                let old = try database.chunked(signatures, [owner, .text(versionKey(version))]) { list in
                    """
                    SELECT f.signature FROM zguard_former f
                        JOIN zguard_totals o ON o.tenant = f.tenant AND o.signature = f.former
                    WHERE f.tenant = $1 AND o.version_key < $2 AND f.signature IN (\(list))
                    """
                }
                left.subtract(old.compactMap { $0.first?.text })
            }
        }
        if let kind = conditions.kind {
            left.formIntersection(try kinds.filtered(signatures, kind, database, tenant: tenant))
        }
        if conditions.program != nil || conditions.version != nil {
            keep(
                try database.chunked(signatures, [owner]) { list in
                    """
                    SELECT DISTINCT signature, program, version FROM zguard_days
                    WHERE tenant = $1 AND signature IN (\(list))
                    """
                }
            ) { row in
                conditions.accepts(program: row[1].text ?? "") && conditions.version.map { row[2].text == $0 } ?? true
            }
        }
        if let host = conditions.host {
            keep(
                try database.chunked(signatures, [owner, .text(host)]) { list in
                    "SELECT signature FROM zguard_hosts WHERE tenant = $1 AND host = $2 AND signature IN (\(list))"
                })
        }
        return signatures.filter { left.contains($0) }
    }

    // MARK: Measures

    /// What was measured for a group over a period.
    struct Seen {
        var occurrences: Int64 = 0
        var hosts: Set<String> = []
        /// Longest duration of a stall, in milliseconds.
        var duration: Int64 = 0
    }

    /// Bounds that a group must exceed to be measured.
    struct Least {
        var occurrences: Int64 = 0
        var hosts: Int64 = 0
        /// Whether to read the durations of stalls. That is slow: they are only in the JSON of the findings.
        var hasDurations = false
    }

    /// What was measured for each group since a time, by current signature. Groups that do not exceed `least` may be
    /// missing.
    func seen(
        since: Timestamp, more least: Least, _ conditions: AlertWatch.Conditions
    ) throws(FleetError) -> [String: Seen] {
        let (owner, day, after) = (
            SQLValue.text(tenant), SQLValue.text(since.day), SQLValue.integer(since.milliseconds)
        )
        let candidates = try candidates(owner, day, after, more: least, kind: conditions.kind)
        // Tolerate clocks that are up to a day ahead; ignore later times.
        let latest = SQLValue.integer(now.earlier(bySeconds: -86400).milliseconds)
        let duration = least.hasDurations ? "max(\(database.durationOfStall))" : "0"
        var seen: [String: Seen] = [:]
        // Skip rows without a body: when a finding's signature changes, such a row remains under the old signature.
        let rows = try database.chunked(candidates, [owner, day, after, latest]) { list in
            """
            SELECT signature, host, program, version, sum(occurrences), \(duration) FROM zguard_findings
            WHERE tenant = $1 AND day >= $2 AND at > $3 AND at <= $4 AND body <> '' AND signature IN (\(list))
            GROUP BY signature, host, program, version
            """
        }
        for row in rows {
            let host = row[1].text ?? ""
            guard conditions.accepts(program: row[2].text ?? ""), conditions.version.map({ row[3].text == $0 }) ?? true,
                conditions.host.map({ host == $0 }) ?? true
            else { continue }
            let signature = current(row[0].text ?? "")
            var one = seen[signature] ?? Seen()
            one.occurrences = one.occurrences.addingSaturated(row[4].integer)
            one.hosts.insert(host)
            one.duration = max(one.duration, row[5].integer)
            seen[signature] = one
        }
        return seen
    }

    /// Signatures of the groups that may exceed `least`, according to their counts by day and machine.
    private func candidates(
        _ owner: SQLValue, _ day: SQLValue, _ after: SQLValue, more least: Least, kind: String?
    ) throws(FleetError) -> [String] {
        var active = try database.query(
            "SELECT signature FROM zguard_totals WHERE tenant = $1 AND last_at > $2 ORDER BY signature", [owner, after]
        ).compactMap { $0.first?.text }
        if let kind { active = try kinds.filtered(active, kind, database, tenant: tenant) }
        func keep(_ rows: [[SQLValue]], more least: Int64) {
            var most: [String: Int64] = [:]
            for row in rows {
                let signature = current(row[0].text ?? "")
                most[signature] = (most[signature] ?? 0).addingSaturated(row[1].integer)
            }
            active = active.filter { most[current($0)] ?? 0 > least }
        }
        if least.hosts > 0 {
            let rows = try database.query(
                "SELECT signature, count(*) FROM zguard_hosts WHERE tenant = $1 AND last_at > $2 GROUP BY signature",
                [owner, after])
            keep(rows, more: least.hosts)
        }
        let days = try database.chunked(active, [owner, day, after]) { list in
            """
            SELECT signature, sum(occurrences) FROM zguard_days
            WHERE tenant = $1 AND day >= $2 AND last_at > $3 AND signature IN (\(list)) GROUP BY signature
            """
        }
        keep(days, more: least.occurrences)
        return active
    }

    private static let monthSeconds: Int64 = 30 * 86400

    /// Number of machines that have sent findings within a month.
    func hostCount() throws(FleetError) -> Int64 {
        try database.query(
            "SELECT count(DISTINCT host) FROM zguard_hosts WHERE tenant = $1 AND last_at > $2",
            [.text(tenant), .integer(now.earlier(bySeconds: Self.monthSeconds).milliseconds)]
        ).first?.first?.integer ?? 0
    }

    // MARK: Facts

    /// Facts about a group; nil if the store does not have it, or if it was split into several groups.
    func facts(of signature: String, _ triage: [String: Triage]) throws(FleetError) -> AlertFacts? {
        let groups = try reader.groups(signed: signature, tenant: tenant)
        guard let group = groups.first, groups.count == 1 else { return nil }
        let hosts = try reader.hosts(of: group.signature, tenant: tenant, limit: 10)
        let versions = try reader.versions(of: group.signature, tenant: tenant).map(\.name).filter { !$0.isEmpty }
        let programs = try database.query(
            """
            SELECT program, max(last_at) FROM zguard_days WHERE tenant = $1 AND signature = $2
            GROUP BY program ORDER BY 2 DESC, 1 LIMIT 10
            """, [.text(tenant), .text(group.signature)]
        ).compactMap { $0.first?.text }.filter { !$0.isEmpty }
        return AlertFacts(
            group: group, triage: triage[group.signature], programs: programs, versions: versions,
            hosts: hosts.hosts.map(\.name), hostCount: hosts.count)
    }
}

extension AlertWatch.Conditions {
    fileprivate func accepts(program path: String) -> Bool {
        program.map { path == $0 || path.hasSuffix("/" + $0) } ?? true
    }
}

extension Database {
    /// SQL for the duration of a stall in milliseconds, read from the finding's JSON in `body`; 0 if the JSON has none.
    fileprivate var durationOfStall: String {
        self is PostgresFleet
            ? "coalesce(substring(body from '\"duration_ms\":([0-9]{1,15})')::bigint, 0)"
            : """
            CASE WHEN instr(body, '"duration_ms":') > 0
                THEN CAST(substr(body, instr(body, '"duration_ms":') + 14, 15) AS integer) ELSE 0 END
            """
    }
}
