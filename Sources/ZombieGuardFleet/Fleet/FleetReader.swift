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
        /// Latest first occurrence first.
        case new
    }

    let database: any Database
    /// Whether the database has the table of earlier signatures; nil until the first query.
    private var hasFormer: Bool?

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

    /// The conditions of an SQL query, and its parameters.
    private struct Query {
        var conditions: [String] = []
        var parameters: [SQLValue] = []
        /// Table with the counts: zguard_days for a filter with a time or a program, otherwise zguard_totals.
        var table = "zguard_totals"
        /// Common table expressions, each with a comma behind it.
        var prefix = ""
        /// The table with the counts, and the column with the signature of a row's group.
        var source: String { prefix.isEmpty ? "\(table) d" : "\(table) d LEFT JOIN j ON j.former = d.signature" }
        var group: String { prefix.isEmpty ? "d.signature" : "coalesce(j.signature, d.signature)" }

        mutating func parameter(_ value: SQLValue) -> String {
            parameters.append(value)
            return "$\(parameters.count)"
        }
    }

    /// Groups that earlier versions of zguard have stored under another signature, for one tenant: pairs of that
    /// signature and the signature that the group has now. Left out if several groups had the earlier signature, and if
    /// the kinds differ: a sender may claim any earlier signature.
    private static func joined(_ tenant: String) -> String {
        """
        SELECT f.former AS former, min(f.signature) AS signature FROM zguard_former f
            JOIN zguard_totals o ON o.tenant = f.tenant AND o.signature = f.former
            JOIN zguard_totals n ON n.tenant = f.tenant AND n.signature = f.signature
            JOIN zguard_groups a ON a.tenant = f.tenant AND a.signature = f.former
            JOIN zguard_groups b ON b.tenant = f.tenant AND b.signature = f.signature AND b.kind = a.kind
        WHERE f.tenant = \(tenant) GROUP BY f.former HAVING count(*) = 1
        """
    }

    private func knowsFormer() throws(FleetError) -> Bool {
        if let hasFormer { return hasFormer }
        let known = try database.mayRead("zguard_former")
        hasFormer = known
        return known
    }

    /// The signatures under which the findings of a group are stored; `signature` may be an earlier one.
    private func stored(_ signatures: [String], _ tenant: String?) throws(FleetError) -> [String: String] {
        var stored = Dictionary(signatures.map { ($0, $0) }, uniquingKeysWith: { first, _ in first })
        guard try knowsFormer(), !signatures.isEmpty else { return stored }
        var question = Query()
        let owner = question.parameter(.text(tenant ?? ShippedFinding.Sender.standardTenant))
        let list = signatures.map { question.parameter(.text($0)) }.joined(separator: ", ")
        let rows = try database.query(
            "WITH j AS (\(Self.joined(owner))) SELECT former, signature FROM j WHERE signature IN (\(list))",
            question.parameters)
        for row in rows { stored[row[0].text ?? ""] = row[1].text }
        return stored
    }

    /// The oldest versions of the program in which the groups were stored under their earlier signatures.
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

    /// All signatures of the groups that have or had this one.
    private func related(_ signature: String, _ tenant: String?) throws(FleetError) -> [String] {
        guard try knowsFormer() else { return [signature] }
        let owner = tenant ?? ShippedFinding.Sender.standardTenant
        let rows = try database.query(
            "SELECT signature FROM zguard_former WHERE tenant = $1 AND former = $2 LIMIT \(Self.mostRelated)",
            [.text(owner), .text(signature)])
        return try stored([signature] + rows.compactMap { $0.first?.text }, tenant).keys.sorted()
    }

    private static let mostRelated = 100

    private func question(_ filter: FleetFilter) throws(FleetError) -> (Query, tenant: String) {
        var question = Query()
        let tenant = question.parameter(.text(filter.tenant ?? ShippedFinding.Sender.standardTenant))
        question.conditions = ["d.tenant = \(tenant)"]
        if filter.since != nil || filter.program != nil { question.table = "zguard_days" }
        if let since = filter.since {
            question.conditions.append("d.day >= \(question.parameter(.text(since.day)))")
            question.conditions.append("d.last_at >= \(question.parameter(.integer(since.milliseconds)))")
        }
        let knowsFormer = try knowsFormer()
        // The counts of one machine are not joined.
        if knowsFormer, filter.host == nil { question.prefix = "j AS (\(Self.joined(tenant))), " }
        if let signature = filter.signature {
            let list = try related(signature, filter.tenant).map { question.parameter(.text($0)) }
            question.conditions.append("d.signature IN (\(list.joined(separator: ", ")))")
        }
        if let program = filter.program {
            let whole = question.parameter(.text(program))
            let end = question.parameter(.text("/" + program))
            let length = question.parameter(.integer(Int64(program.unicodeScalars.count + 1)))
            question.conditions.append(
                "(d.program = \(whole) OR substr(d.program, length(d.program) - CAST(\(length) AS integer) + 1) = \(end))"
            )
        }
        if let kind = filter.kind {
            let value = question.parameter(.text(kind))
            question.conditions.append(
                "d.signature IN (SELECT signature FROM zguard_groups WHERE tenant = \(tenant) AND kind = \(value))")
        }
        for word in filter.words {
            let value = question.parameter(.text("%" + Self.escaped(word.lowercased()) + "%"))
            question.conditions.append(
                """
                d.signature IN (SELECT signature FROM zguard_groups
                    WHERE tenant = \(tenant) AND lower(words) LIKE \(value) ESCAPE '!')
                """)
        }
        if let host = filter.host {
            let value = question.parameter(.text(host))
            question.conditions.append(
                "d.signature IN (SELECT signature FROM zguard_hosts WHERE tenant = \(tenant) AND host = \(value))")
        }
        if !filter.states.isEmpty {
            // A group without a decision is open.
            var triage = filter.triage ?? [:]
            if filter.triage == nil { triage = try self.triage(filter.tenant) }
            let isOpen = filter.states.contains(.open)
            let list = triage.keys.filter {
                filter.states.contains(triage[$0]!.state) != isOpen && ShippedFinding.isDigits($0, count: 16)
            }
            if list.count > Self.mostListed {
                throw FleetError("more than \(Self.mostListed) groups are muted or resolved")
            }
            // Literals: databases limit the number of parameters.
            if !list.isEmpty {
                let literals = list.sorted().map { "'\($0)'" }.joined(separator: ", ")
                question.conditions.append("\(question.group) \(isOpen ? "NOT " : "")IN (\(literals))")
            } else if !isOpen {
                question.conditions.append("1 = 0")
            }
        }
        if let version = filter.newSince {
            let value = question.parameter(.text(versionKey(version)))
            question.conditions.append(
                """
                d.signature IN (SELECT signature FROM zguard_totals WHERE tenant = \(tenant) AND version_key >= \(value))
                """)
            if knowsFormer {
                question.conditions.append(
                    """
                    NOT EXISTS (SELECT 1 FROM zguard_former f JOIN zguard_totals o ON o.tenant = f.tenant AND o.signature = f.former
                        WHERE f.tenant = \(tenant) AND f.signature = d.signature AND o.version_key < \(value))
                    """)
            }
        }
        return (question, tenant)
    }

    private static func escaped(_ word: String) -> String {
        ["!", "%", "_"].reduce(word) { $0.replacing($1, with: "!" + $1) }
    }

    // MARK: Triage

    private static let mostListed = 40_000

    /// The states of the groups about which something was decided or said.
    ///
    /// - Parameters:
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - now: the current time.
    /// - Returns: states by signature. A group that had other signatures earlier is there under each of them.
    /// - Throws: ``FleetError`` if the query fails.
    public func triage(_ tenant: String? = nil, now: Timestamp = .now) throws(FleetError) -> [String: Triage] {
        var states: [String: Triage] = [:]
        for group in try decided(tenant, now) {
            for signature in group.stored { states[signature] = group.triage }
        }
        return states
    }

    /// Whether there are decisions that may not be read: all groups are open then.
    public var hidesTriage: Bool {
        get throws(FleetError) { try database.hidesTriage }
    }

    /// Throws ``FleetError`` if there are decisions that may not be read: without them, the states are unknown.
    public func requireTriage() throws(FleetError) {
        if try hidesTriage { throw FleetError("what was decided about the findings may not be read") }
    }

    /// A group about which something was decided or said.
    private struct Decided {
        /// The signature that it has now, and those that it had earlier.
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
            of: groups.keys.flatMap { [$0] + (former[$0] ?? []) }.sorted(), current, owner)
        var decided: [Decided] = []
        for (signature, some) in groups {
            let stored = [signature] + (former[signature] ?? [])
            if let day = Triage.countedDay(some) {
                occurrences[signature, default: .init()].count = try count(of: stored, from: day, owner)
            }
            let seen = occurrences[signature] ?? Triage.Occurrences()
            decided.append(
                Decided(stored: stored, triage: Triage(some, seen, now: now), hasFindings: !seen.sightings.isEmpty))
        }
        return decided
    }

    /// Occurrences of a group from a day on.
    private func count(of stored: [String], from day: String, _ tenant: String) throws(FleetError) -> Int64 {
        var question = Query()
        let owner = question.parameter(.text(tenant))
        let first = question.parameter(.text(day))
        let list = stored.prefix(Self.mostParameters).map { question.parameter(.text($0)) }.joined(separator: ", ")
        let rows = try database.query(
            """
            SELECT sum(occurrences) FROM zguard_days WHERE tenant = \(owner) AND day >= \(first) AND signature IN (\(list))
            """, question.parameters)
        return rows.first?.first?.integer ?? 0
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

    /// The groups that have a signature, or had it earlier: if one has it now, that one alone.
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

    /// The signatures that groups have now, by those that they had earlier. The findings with the earlier one may be
    /// gone. Left out if several groups had it.
    func current(_ tenant: String) throws(FleetError) -> [String: String] {
        guard try knowsFormer() else { return [:] }
        var current: [String: String] = [:]
        for row in try database.query(
            "WITH j AS (\(Self.joined("$1"))) SELECT former, signature FROM j", [.text(tenant)])
        {
            current[row[0].text ?? ""] = row[1].text ?? ""
        }
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
        of stored: [String], _ current: [String: String], _ tenant: String
    ) throws(FleetError) -> [String: Triage.Occurrences] {
        var found: [String: Triage.Occurrences] = [:]
        for start in stride(from: 0, to: stored.count, by: Self.mostParameters) {
            var question = Query()
            let owner = question.parameter(.text(tenant))
            let list = stored[start..<min(start + Self.mostParameters, stored.count)]
                .map { question.parameter(.text($0)) }.joined(separator: ", ")
            let rows = try database.query(
                """
                SELECT signature, version, max(last_at) FROM zguard_days
                WHERE tenant = \(owner) AND signature IN (\(list)) GROUP BY signature, version
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
        try database.query(
            """
            SELECT g.kind, d.program, d.version, sum(d.findings), sum(d.occurrences) AS times FROM zguard_days d
                JOIN zguard_groups g ON g.tenant = d.tenant AND g.signature = d.signature
            WHERE d.tenant = $1 GROUP BY g.kind, d.program, d.version ORDER BY times DESC, 1, 2, 3 LIMIT \(most)
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
        var (question, tenant) = try question(filter)
        // Counts of one machine are in zguard_hosts.
        let sums: String
        if let host = filter.host {
            let value = question.parameter(.text(host))
            sums = """
                SELECT d.signature, max(h.findings) AS findings, max(h.occurrences) AS occurrences, min(d.first_at) AS first_at,
                    max(h.last_at) AS last_at, min(d.version_key) AS version_key
                FROM \(question.table) d JOIN zguard_hosts h ON h.tenant = d.tenant AND h.signature = d.signature AND h.host = \(value)
                """
            if let since = filter.since {
                question.conditions.append("h.last_at >= \(question.parameter(.integer(since.milliseconds)))")
            }
        } else {
            sums = """
                SELECT \(question.group) AS signature, sum(d.findings) AS findings, sum(d.occurrences) AS occurrences,
                    min(d.first_at) AS first_at, max(d.last_at) AS last_at, min(d.version_key) AS version_key
                FROM \(question.source)
                """
        }
        let by =
            switch order {
            case .often: "occurrences DESC"
            case .last: "last_at DESC"
            case .new: "first_at DESC"
            }
        let rows = try database.query(
            """
            WITH \(question.prefix)s AS (\(sums) WHERE \(question.conditions.joined(separator: " AND ")) GROUP BY \(question.group)
                ORDER BY \(by), 1 LIMIT \(limit) OFFSET \(offset))
            SELECT s.signature, g.kind, g.headline, s.findings, s.occurrences, s.first_at, s.last_at, s.version_key,
                g.body, t.version, t.version_key
            FROM s JOIN zguard_groups g ON g.tenant = \(tenant) AND g.signature = s.signature
                JOIN zguard_totals t ON t.tenant = \(tenant) AND t.signature = s.signature ORDER BY s.\(by), s.signature
            """, question.parameters)
        let former = question.prefix.isEmpty ? [:] : try formerVersions(filter.tenant)
        return rows.map { row in
            var version = (key: row[10].text ?? "", name: row[9].text ?? "")
            if let old = former[row[0].text ?? ""], old.key < version.key { version = old }
            return Group(
                signature: row[0].text ?? "", kind: row[1].text ?? "", headline: row[2].text ?? "",
                findings: row[3].integer,
                occurrences: row[4].integer, first: Timestamp(milliseconds: row[5].integer),
                last: Timestamp(milliseconds: row[6].integer), version: version.name.isEmpty ? nil : version.name,
                line: row[8].text ?? "")
        }
    }

    /// Counts groups, findings and occurrences.
    ///
    /// - Parameter filter: conditions.
    /// - Returns: numbers of groups, findings and occurrences.
    /// - Throws: ``FleetError`` if the query fails.
    public func totals(_ filter: FleetFilter) throws(FleetError) -> (groups: Int64, findings: Int64, occurrences: Int64)
    {
        let (question, _) = try question(filter)
        let with = question.prefix.isEmpty ? "" : "WITH \(question.prefix.dropLast(2)) "
        let row = try database.query(
            """
            \(with)SELECT count(*), sum(f), sum(o) FROM (SELECT sum(d.findings) AS f, sum(d.occurrences) AS o FROM \(question.source)
                WHERE \(question.conditions.joined(separator: " AND ")) GROUP BY \(question.group)) AS t
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
        let rows = try database.query(
            """
            SELECT signature, day, sum(occurrences) FROM zguard_days WHERE tenant = \(owner) AND day >= \(first)
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
        let rows = try database.query(
            """
            SELECT version, sum(occurrences), min(first_at), max(last_at) FROM zguard_days
            WHERE \(rest) GROUP BY version, version_key ORDER BY version_key LIMIT 100
            """, key)
        return rows.map {
            (
                $0[0].text ?? "", $0[1].integer, Timestamp(milliseconds: $0[2].integer),
                Timestamp(milliseconds: $0[3].integer)
            )
        }
    }

    /// The condition that a row belongs to a group, and its parameters.
    private func condition(_ signature: String, _ tenant: String?) throws(FleetError) -> (String, [SQLValue]) {
        var question = Query()
        let owner = question.parameter(.text(tenant ?? ShippedFinding.Sender.standardTenant))
        let list = try stored([signature], tenant).keys.sorted().map { question.parameter(.text($0)) }
        return (
            "tenant = \(owner) AND signature IN (\(list.joined(separator: ", ")))", question.parameters
        )
    }

    /// The latest findings of a group as lines of JSON, newest day first.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - limit: maximum number of findings.
    ///   - offset: number of findings to skip.
    /// - Returns: the lines.
    /// - Throws: ``FleetError`` if the query fails.
    public func lines(
        of signature: String, tenant: String? = nil, limit: Int = 1, offset: Int = 0
    ) throws(FleetError) -> [String] {
        let (rest, key) = try condition(signature, tenant)
        let rows = try database.query(
            "SELECT body FROM zguard_findings WHERE \(rest) ORDER BY day DESC, id LIMIT \(limit) OFFSET \(offset)", key)
        return rows.compactMap { $0.first?.text }
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
