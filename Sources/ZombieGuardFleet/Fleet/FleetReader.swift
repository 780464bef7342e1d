// Queries a database of findings.

import ZombieGuard

/// A database of findings, open for reading. Used by one thread at a time.
public final class FleetReader {
    /// Findings with equal signatures.
    public struct Group: Hashable, Sendable {
        /// Signature, 16 hexadecimal digits.
        public var signature: String
        /// Name of the kind, such as "use-after-free".
        public var kind: String
        /// The bug in one sentence.
        public var headline: String
        /// Number of stored findings.
        public var findings: Int64
        /// How often the bug occurred: one finding may count several occurrences.
        public var occurrences: Int64
        /// Time of the first occurrence.
        public var first: Timestamp
        /// Time of the last occurrence.
        public var last: Timestamp
        /// The oldest version with the bug; nil if a finding has no version.
        public var version: String?
        /// One of the findings, as a line of JSON.
        public var line: String
    }

    /// The order of listed groups.
    public enum Order: String, CaseIterable, Sendable {
        /// Most occurrences first.
        case often
        /// Latest last occurrence first.
        case last
        /// By first occurrence, the latest first.
        case new
    }

    let database: any Database
    /// The optional tables of the database; nil until the first query after ``refresh()``.
    private var known: FleetFeatures?
    /// Results of ``joins(_:)`` by tenant.
    private var knownJoins: [String: [String: String]] = [:]

    init(_ database: any Database) { self.database = database }

    /// Opens a database.
    ///
    /// - Parameter address: a SQLite or PostgreSQL address.
    /// - Throws: ``FleetError`` if it cannot be opened or has no tables of zguard.
    public convenience init(_ address: FleetAddress) throws(FleetError) {
        switch address {
        case .sqlite(let path): self.init(try SQLiteFleet(reading: path))
        case .postgres(let text):
            self.init(try PostgresFleet(reading: text))
        case .directory, .web, .openTelemetry: throw FleetError("'\(visible(address.name))' is not a database")
        }
        do throws(FleetError) {
            _ = try database.query("SELECT 1 FROM zguard_groups LIMIT 1")
        } catch {
            throw FleetError(
                "cannot read findings from '\(visible(address.name))': \(error)", isTemporary: error.isTemporary)
        }
    }

    /// Drops cached results, because shippers may have changed the database.
    func refresh() {
        known = nil
        knownJoins = [:]
    }

    func features() throws(FleetError) -> FleetFeatures {
        if let known { return known }
        let features = try database.features()
        known = features
        return features
    }

    /// Parameters of an SQL query.
    struct Query {
        var parameters: [SQLValue] = []

        mutating func parameter(_ value: SQLValue) -> String {
            parameters.append(value)
            return "$\(parameters.count)"
        }
    }

    /// SQL for pairs of an earlier signature, under which findings of a group are stored, and the group's current
    /// signature, for one tenant. Leaves out signatures that several groups had, and pairs whose findings differ in
    /// kind, because a sender may claim any earlier signature.
    static func joined(_ tenant: String) -> String {
        """
        SELECT f.former AS former, min(f.signature) AS signature FROM zguard_former f
            JOIN zguard_totals o ON o.tenant = f.tenant AND o.signature = f.former
            JOIN zguard_totals n ON n.tenant = f.tenant AND n.signature = f.signature
            JOIN zguard_groups a ON a.tenant = f.tenant AND a.signature = f.former
            JOIN zguard_groups b ON b.tenant = f.tenant AND b.signature = f.signature AND b.kind = a.kind
        WHERE f.tenant = \(tenant) GROUP BY f.former HAVING count(*) = 1
        """
    }

    /// Current signatures of groups, by the earlier ones under which findings are stored.
    func joins(_ tenant: String?) throws(FleetError) -> [String: String] {
        let owner = tenant ?? ShippedFinding.Sender.standardTenant
        if let known = knownJoins[owner] { return known }
        var joins: [String: String] = [:]
        if try features().hasFormer {
            for row in try database.query(Self.joined("$1"), [.text(owner)]) {
                joins[row[0].text ?? ""] = row[1].text ?? ""
            }
        }
        knownJoins[owner] = joins
        return joins
    }

    /// Maps the signatures under which findings of the given groups are stored to the given signatures: each given
    /// signature to itself, and each earlier signature of a given group to the group's current signature.
    func stored(_ signatures: [String], _ tenant: String?) throws(FleetError) -> [String: String] {
        var stored = Dictionary(signatures.map { ($0, $0) }, uniquingKeysWith: { first, _ in first })
        let joins = try joins(tenant)
        if joins.isEmpty { return stored }
        let wanted = Set(signatures)
        for (former, signature) in joins where wanted.contains(signature) { stored[former] = signature }
        return stored
    }

    /// The oldest version of each group's findings under earlier signatures, by current signature of the group.
    private func formerVersions(_ tenant: String?) throws(FleetError) -> [String: (key: String, name: String)] {
        let rows = try database.query(
            """
            WITH j AS (\(Self.joined("$1"))) SELECT j.signature, o.version_key, o.version
            FROM j JOIN zguard_totals o ON o.tenant = $1 AND o.signature = j.former
            """, [.text(tenant ?? ShippedFinding.Sender.standardTenant)])
        var versions: [String: (key: String, name: String)] = [:]
        for row in rows {
            let new = (key: row[1].text ?? "", name: row[2].text ?? "")
            if versions[row[0].text ?? ""].map({ new.key < $0.key }) ?? true { versions[row[0].text ?? ""] = new }
        }
        return versions
    }

    /// All stored signatures of the groups that have, or once had, this signature.
    func related(_ signature: String, _ tenant: String?) throws(FleetError) -> [String] {
        guard try features().hasFormer else { return [signature] }
        let owner = tenant ?? ShippedFinding.Sender.standardTenant
        let rows = try database.query(
            "SELECT signature FROM zguard_former WHERE tenant = $1 AND former = $2 LIMIT \(Self.mostRelated)",
            [.text(owner), .text(signature)])
        return try stored([signature] + rows.compactMap { $0.first?.text }, tenant).keys.sorted()
    }

    private static let mostRelated = 100

    // MARK: Triage

    /// The states of the groups that have a decision or comment.
    ///
    /// - Parameters:
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - now: the current time.
    /// - Returns: states by signature. A group is listed under its current and under each earlier signature.
    /// - Throws: ``FleetError`` if the query fails.
    public func triage(_ tenant: String? = nil, now: Timestamp = .now) throws(FleetError) -> [String: Triage] {
        var states: [String: Triage] = [:]
        for group in try decided(tenant, now) {
            for signature in group.stored { states[signature] = group.triage }
        }
        return states
    }

    /// Whether the database has decisions that this connection may not read. All groups are then listed as open.
    public var hidesTriage: Bool {
        get throws(FleetError) { try database.hidesTriage }
    }

    /// Throws ``FleetError`` if there are decisions that may not be read: without them, the states are unknown.
    public func requireTriage() throws(FleetError) {
        if try hidesTriage { throw FleetError("what was decided about the findings may not be read") }
    }

    /// A group that has a decision or comment.
    private struct Decided {
        /// The current and the earlier signatures of the group.
        var stored: [String]
        var triage: Triage
        var hasFindings: Bool
    }

    private func decided(_ tenant: String?, _ now: Timestamp) throws(FleetError) -> [Decided] {
        guard try database.mayRead("zguard_triage") else { return [] }
        let owner = tenant ?? ShippedFinding.Sender.standardTenant
        let rows = try database.query(
            """
            SELECT tenant, signature, at, id, author, action, value, comment FROM zguard_triage
            WHERE tenant = $1 ORDER BY at, id
            """, [.text(owner)])
        let events = rows.compactMap { TriageEvent(columns: $0) }
        if events.isEmpty { return [] }
        let current = try current(owner)
        let groups = Dictionary(grouping: events) { current[$0.signature] ?? $0.signature }
        var former: [String: [String]] = [:]
        for (old, new) in current where groups[new] != nil { former[new, default: []].append(old) }
        var occurrences = try occurrences(
            of: groups.keys.flatMap { [$0] + (former[$0] ?? []) }.sorted(), current, owner,
            until: now.earlier(bySeconds: -Triage.clockTolerance))
        var decided: [Decided] = []
        for (signature, some) in groups {
            let stored = [signature] + (former[signature] ?? [])
            if let time = Triage.countedSince(some) {
                occurrences[signature, default: .init()].count = try count(of: stored, after: time, owner)
            }
            let seen = occurrences[signature] ?? Triage.Occurrences()
            decided.append(
                Decided(stored: stored, triage: Triage(some, seen, now: now), hasFindings: !seen.sightings.isEmpty))
        }
        return decided
    }

    /// Occurrences of a group after a time: the counts of later days, and the later findings of the same day.
    private func count(of stored: [String], after time: Timestamp, _ tenant: String) throws(FleetError) -> Int64 {
        let findings = database.rows(of: "zguard_findings", from: time.day, to: time.day, try features())
        let onDay = try count(of: stored, in: findings, tenant, "day = $1 AND at > \(time.milliseconds)", time.day)
        let days = database.rows(of: "zguard_days", from: time.day, to: nil, try features())
        return onDay.addingSaturated(try count(of: stored, in: days, tenant, "day > $1", time.day))
    }

    /// Occurrences of a group from a day on.
    private func count(of stored: [String], from day: String, _ tenant: String) throws(FleetError) -> Int64 {
        let days = database.rows(of: "zguard_days", from: day, to: nil, try features())
        return try count(of: stored, in: days, tenant, "day >= $1", day)
    }

    /// Occurrences of a group in those rows of `rows` that meet `condition`, where $1 is `day`.
    private func count(
        of stored: [String], in rows: String, _ tenant: String, _ condition: String, _ day: String
    ) throws(FleetError) -> Int64 {
        let signatures = stored.prefix(Self.mostParameters)
        let list = signatures.indices.map { "$\($0 + 3)" }.joined(separator: ", ")
        let sums = try database.query(
            """
            SELECT sum(occurrences) FROM \(rows) d WHERE \(condition) AND tenant = $2 AND signature IN (\(list))
            """, ([day, tenant] + signatures).map { .text($0) })
        return sums.first?.first?.integer ?? 0
    }

    /// Occurrences of a group on this day and later, for ``TriageEvent/Limit/occurrences(_:before:)``.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - day: the first day, such as "2026-11-20".
    ///   - tenant: name of the tenant; nil: the default one.
    /// - Returns: the number.
    /// - Throws: ``FleetError`` if the query fails.
    public func count(of signature: String, from day: String, tenant: String? = nil) throws(FleetError) -> Int64 {
        let stored = try stored([signature], tenant).keys.sorted()
        return try count(of: stored, from: day, tenant ?? ShippedFinding.Sender.standardTenant)
    }

    /// The group that has a signature now, or else the groups that had it earlier.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - tenant: name of the tenant; nil: the default one.
    /// - Returns: the groups, most occurrences first.
    /// - Throws: ``FleetError`` if the query fails.
    public func groups(signed signature: String, tenant: String? = nil) throws(FleetError) -> [Group] {
        var filter = FleetFilter()
        (filter.signature, filter.tenant) = (signature, tenant)
        let all = try groups(filter, limit: Self.mostRelated)
        let exact = all.filter { $0.signature == signature }
        return exact.isEmpty ? all : exact
    }

    /// Current signatures of groups, by earlier ones. Includes earlier signatures whose findings are gone. Leaves out
    /// signatures that several groups had.
    func current(_ tenant: String) throws(FleetError) -> [String: String] {
        guard try features().hasFormer else { return [:] }
        var current = try joins(tenant)
        let gone = try database.query(
            """
            SELECT f.former, min(f.signature) FROM zguard_former f
                JOIN zguard_totals n ON n.tenant = f.tenant AND n.signature = f.signature
            WHERE f.tenant = $1 AND NOT EXISTS (SELECT 1 FROM zguard_totals o WHERE o.tenant = f.tenant AND o.signature = f.former)
            GROUP BY f.former HAVING count(*) = 1
            """, [.text(tenant)])
        for row in gone { current[row[0].text ?? ""] = row[1].text ?? "" }
        return current
    }

    private static let mostParameters = 900

    private func occurrences(
        of stored: [String], _ current: [String: String], _ tenant: String, until latest: Timestamp
    ) throws(FleetError) -> [String: Triage.Occurrences] {
        var found: [String: Triage.Occurrences] = [:]
        // A wrong clock may have set last_at to the future, hiding the times of other machines: use first_at then.
        let last = "CASE WHEN last_at <= \(latest.milliseconds) THEN last_at ELSE first_at END"
        let table = try counts
        for start in stride(from: 0, to: stored.count, by: Self.mostParameters) {
            var question = Query()
            let owner = question.parameter(.text(tenant))
            let list = stored[start..<min(start + Self.mostParameters, stored.count)]
                .map { question.parameter(.text($0)) }.joined(separator: ", ")
            let rows = try database.query(
                """
                SELECT signature, version, max(\(last)) FROM \(table)
                WHERE findings > 0 AND tenant = \(owner) AND signature IN (\(list)) GROUP BY signature, version
                """, question.parameters)
            for row in rows {
                let signature = row[0].text ?? ""
                found[current[signature] ?? signature, default: .init()].sightings.append(
                    Triage.Sighting(version: row[1].text ?? "", last: Timestamp(milliseconds: row[2].integer)))
            }
        }
        return found
    }

    /// The number of groups in each state.
    ///
    /// - Parameters:
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - now: the current time.
    /// - Returns: numbers by state; a state without groups may be missing.
    /// - Throws: ``FleetError`` if the query fails.
    public func states(_ tenant: String? = nil, now: Timestamp = .now) throws(FleetError) -> [Triage.State: Int64] {
        var filter = FleetFilter()
        filter.tenant = tenant
        let all = try totals(filter).groups
        var numbers: [Triage.State: Int64] = [:]
        for group in try decided(tenant, now) where group.hasFindings && group.triage.state != .open {
            numbers[group.triage.state, default: 0] += 1
        }
        numbers[.open] = all - numbers.values.reduce(0, +)
        return numbers
    }

    /// Findings and occurrences of one kind, program and version.
    public struct Count: Hashable, Sendable {
        public var kind: String, program: String, version: String
        public var findings: Int64, occurrences: Int64
    }

    /// Counts findings by kind, program and version, the most frequent first.
    ///
    /// - Parameters:
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - most: maximum number of counts.
    /// - Returns: the counts.
    /// - Throws: ``FleetError`` if the query fails.
    public func counts(_ tenant: String? = nil, most: Int) throws(FleetError) -> [Count] {
        let table = try counts
        return try database.query(
            """
            SELECT g.kind, d.program, d.version, sum(d.findings), sum(d.occurrences) AS times FROM
                (SELECT signature, program, version, sum(findings) AS findings, sum(occurrences) AS occurrences FROM \(table)
                    WHERE tenant = $1 AND findings > 0 GROUP BY signature, program, version) AS d
                JOIN (SELECT signature, kind FROM zguard_groups WHERE tenant = $1) AS g ON g.signature = d.signature
            GROUP BY g.kind, d.program, d.version ORDER BY times DESC, 1, 2, 3 LIMIT \(most)
            """, [.text(tenant ?? ShippedFinding.Sender.standardTenant)]
        ).map { row in
            Count(
                kind: row[0].text ?? "", program: row[1].text ?? "", version: row[2].text ?? "",
                findings: row[3].integer, occurrences: row[4].integer)
        }
    }

    // MARK: Groups

    /// Lists groups of equal findings.
    ///
    /// - Parameters:
    ///   - filter: conditions.
    ///   - order: sort order.
    ///   - limit: maximum number of groups.
    ///   - offset: number of groups to skip.
    /// - Returns: the groups.
    /// - Throws: ``FleetError`` if the query fails.
    public func groups(
        _ filter: FleetFilter = FleetFilter(), order: Order = .often, limit: Int = 10_000, offset: Int = 0
    ) throws(FleetError) -> [Group] {
        try page(filter, order: order, limit: limit, offset: offset).groups
    }

    /// Numbers of groups, findings and occurrences.
    public typealias Totals = (groups: Int64, findings: Int64, occurrences: Int64)

    /// Lists groups of equal findings, and counts all that meet the conditions.
    ///
    /// - Parameters:
    ///   - filter: conditions.
    ///   - order: sort order.
    ///   - limit: maximum number of groups.
    ///   - offset: number of groups to skip.
    /// - Returns: the groups, and the numbers of all.
    /// - Throws: ``FleetError`` if the query fails.
    public func page(
        _ filter: FleetFilter, order: Order = .often, limit: Int, offset: Int = 0
    ) throws(FleetError) -> (groups: [Group], totals: Totals) {
        let question = try question(filter)
        let by =
            switch order {
            case .often: "occurrences DESC"
            case .last: "last_at DESC"
            case .new: "first_at DESC"
            }
        let rows = try database.query(
            """
            \(question.clause),
            s AS (SELECT a.*, count(*) OVER () AS all_groups, sum(a.findings) OVER () AS all_findings,
                    sum(a.occurrences) OVER () AS all_occurrences
                FROM a \(question.condition) ORDER BY a.\(by), a.signature LIMIT \(limit) OFFSET \(offset))
            SELECT s.signature, g.kind, g.headline, s.findings, s.occurrences, s.first_at, s.last_at, s.version_key,
                g.body, t.version, t.version_key, s.all_groups, s.all_findings, s.all_occurrences
            FROM s JOIN zguard_groups g ON g.tenant = \(question.tenant) AND g.signature = s.signature
                JOIN zguard_totals t ON t.tenant = \(question.tenant) AND t.signature = s.signature
            ORDER BY s.\(by), s.signature
            """, question.parameters)
        let former = question.former.isEmpty ? [:] : try formerVersions(filter.tenant)
        let groups = rows.map { row in
            var version = (key: row[10].text ?? "", name: row[9].text ?? "")
            if let old = former[row[0].text ?? ""], old.key < version.key { version = old }
            return Group(
                signature: row[0].text ?? "", kind: row[1].text ?? "", headline: row[2].text ?? "",
                findings: row[3].integer,
                occurrences: row[4].integer, first: Timestamp(milliseconds: row[5].integer),
                last: Timestamp(milliseconds: row[6].integer), version: version.name.isEmpty ? nil : version.name,
                line: row[8].text ?? "")
        }
        // A page beyond the last one has no row that could carry the totals.
        guard let row = rows.first else { return ([], try totals(filter)) }
        return (groups, (row[11].integer, row[12].integer, row[13].integer))
    }

    /// Counts groups, findings and occurrences.
    ///
    /// - Parameter filter: conditions.
    /// - Returns: numbers of groups, findings and occurrences.
    /// - Throws: ``FleetError`` if the query fails.
    public func totals(_ filter: FleetFilter) throws(FleetError) -> Totals {
        let question = try question(filter)
        let row = try database.query(
            """
            \(question.clause) SELECT count(*), sum(a.findings), sum(a.occurrences) FROM a \(question.condition)
            """, question.parameters)
        return (row[0][0].integer, row[0][1].integer, row[0][2].integer)
    }

    /// Counts the occurrences of groups by day.
    ///
    /// - Parameters:
    ///   - signatures: signatures of the groups.
    ///   - since: the first day, such as "2026-11-20".
    ///   - tenant: name of the tenant; nil: the default one.
    /// - Returns: occurrences by signature and day.
    /// - Throws: ``FleetError`` if the query fails.
    public func days(of signatures: [String], since: String, tenant: String? = nil) throws(FleetError) -> [String:
        [String:
        Int64]]
    {
        if signatures.isEmpty { return [:] }
        var question = Query()
        let owner = question.parameter(.text(tenant ?? ShippedFinding.Sender.standardTenant))
        let first = question.parameter(.text(since))
        let stored = try stored(signatures, tenant)
        let list = stored.keys.sorted().map { question.parameter(.text($0)) }.joined(separator: ", ")
        let table = database.rows(of: "zguard_days", from: since, to: nil, try features())
        let rows = try database.query(
            """
            SELECT signature, day, sum(occurrences) FROM \(table) d WHERE tenant = \(owner) AND day >= \(first)
                AND signature IN (\(list)) GROUP BY signature, day
            """, question.parameters)
        var days: [String: [String: Int64]] = [:]
        for row in rows {
            days[stored[row[0].text ?? ""] ?? "", default: [:]][row[1].text ?? "", default: 0] += row[2].integer
        }
        return days
    }

    /// Lists the machines on which a group was seen, most occurrences first.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - limit: maximum number of machines.
    /// - Returns: the machines, and their total number.
    /// - Throws: ``FleetError`` if the query fails.
    public func hosts(of signature: String, tenant: String? = nil, limit: Int = 50) throws(FleetError) -> (
        hosts: [(name: String, occurrences: Int64, last: Timestamp)], count: Int64
    ) {
        let (rest, key) = try condition(signature, tenant)
        let count = try database.query("SELECT count(DISTINCT host) FROM zguard_hosts WHERE \(rest)", key)
        let rows = try database.query(
            """
            SELECT host, sum(occurrences) AS times, max(last_at) FROM zguard_hosts WHERE \(rest)
            GROUP BY host ORDER BY times DESC, host LIMIT \(limit)
            """, key)
        return (
            rows.map { ($0[0].text ?? "", $0[1].integer, Timestamp(milliseconds: $0[2].integer)) }, count[0][0].integer
        )
    }

    /// Lists the versions in which a group was seen, oldest first, at most 100.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - tenant: name of the tenant; nil: the default one.
    /// - Returns: versions; the name is empty for findings without a version.
    /// - Throws: ``FleetError`` if the query fails.
    public func versions(of signature: String, tenant: String? = nil) throws(FleetError) -> [(
        name: String, occurrences: Int64, first: Timestamp, last: Timestamp
    )] {
        let (rest, key) = try condition(signature, tenant)
        let table = try counts
        let rows = try database.query(
            """
            SELECT version, sum(occurrences), min(first_at), max(last_at) FROM \(table)
            WHERE findings > 0 AND \(rest) GROUP BY version, version_key ORDER BY version_key LIMIT 100
            """, key)
        return rows.map {
            (
                $0[0].text ?? "", $0[1].integer, Timestamp(milliseconds: $0[2].integer),
                Timestamp(milliseconds: $0[3].integer)
            )
        }
    }

    /// The condition that a row belongs to a group, and its parameters.
    func condition(_ signature: String, _ tenant: String?) throws(FleetError) -> (String, [SQLValue]) {
        var question = Query()
        let owner = question.parameter(.text(tenant ?? ShippedFinding.Sender.standardTenant))
        let list = try stored([signature], tenant).keys.sorted().map { question.parameter(.text($0)) }
        return (
            "tenant = \(owner) AND signature IN (\(list.joined(separator: ", ")))", question.parameters
        )
    }
}

extension FleetReader.Group {
    /// One finding of the group, with the count and the times of the whole group; nil if its line cannot be decoded.
    public var finding: Finding? {
        guard var finding = Finding(jsonLine: line) else { return nil }
        finding.count = Int(clamping: occurrences)
        finding.signature = signature
        let (first, last) = (first.description, last.description)
        finding.firstSeen = finding.time == first ? nil : first
        finding.lastSeen = finding.time == last ? nil : last
        finding.origin?.version = version
        return finding
    }
}
