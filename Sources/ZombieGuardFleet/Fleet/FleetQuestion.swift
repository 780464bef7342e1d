// Turns a filter into SQL: the tables whose counts are added up, and the conditions on their rows and on groups.

import ZombieGuard

/// An SQL query that adds up counts by group.
struct FleetQuestion {
    /// A table of counts. Its rows, with the alias `d`, must meet these conditions and those of ``rows``.
    struct Table {
        var name: String
        var conditions: [String] = []
        /// Whether a group has several rows.
        var hasSeveral = true
    }

    private(set) var parameters: [SQLValue] = []
    var tables = [Table(name: "zguard_totals", hasSeveral: false)]
    /// Conditions on the rows `d` of each table.
    var rows: [String] = []
    /// Conditions on the signature that a group has now, such as "IN ('…')".
    var signatures: [String] = []
    /// The common table expression `j`, which maps earlier signatures to current ones; empty if there are none.
    var former = ""
    /// Parameters that select one machine's counts: the machine's name, and a time at or after which the machine must
    /// have seen the group; nil: any time.
    var host: (name: String, since: String?)?
    /// The parameter with the tenant.
    var tenant = ""

    init(tenant name: String?) {
        tenant = parameter(.text(name ?? ShippedFinding.Sender.standardTenant))
        rows = ["d.tenant = \(tenant)"]
    }

    mutating func parameter(_ value: SQLValue) -> String {
        parameters.append(value)
        return "$\(parameters.count)"
    }

    /// A WITH clause that defines `a`: signature, findings, occurrences, first_at, last_at and version_key of each
    /// group.
    var clause: String {
        let parts = tables.map { table in
            let conditions = (rows + table.conditions).joined(separator: " AND ")
            if !table.hasSeveral {
                return """
                    SELECT d.signature, d.findings, d.occurrences, d.first_at, d.last_at, d.version_key
                    FROM \(table.name) d WHERE \(conditions)
                    """
            }
            return """
                SELECT d.signature AS signature, \(Self.sums("d")) FROM \(table.name) d WHERE \(conditions) GROUP BY d.signature
                """
        }
        var text = parts.joined(separator: "\nUNION ALL ")
        if tables.count > 1 || !former.isEmpty {
            let signature = former.isEmpty ? "p.signature" : "coalesce(j.signature, p.signature)"
            let join = former.isEmpty ? "" : " LEFT JOIN j ON j.former = p.signature"
            text =
                "SELECT \(signature) AS signature, \(Self.sums("p")) FROM (\(text)) AS p\(join) GROUP BY \(signature)"
        }
        if let host {
            // Counts of one machine are in zguard_hosts.
            let since = host.since.map { " AND h.last_at >= \($0)" } ?? ""
            text = """
                SELECT h.signature, h.findings, h.occurrences, s.first_at, h.last_at, s.version_key FROM (\(text)) AS s
                JOIN zguard_hosts h ON h.tenant = \(tenant) AND h.signature = s.signature AND h.host = \(host.name)\(since)
                """
        }
        return "WITH \(former.isEmpty ? "" : "j AS (\(former)), ")a AS (\(text))"
    }

    /// The conditions on groups, with WHERE in front.
    var condition: String {
        signatures.isEmpty ? "" : "WHERE " + signatures.map { "a.signature \($0)" }.joined(separator: " AND ")
    }

    private static func sums(_ row: String) -> String {
        """
        sum(\(row).findings) AS findings, sum(\(row).occurrences) AS occurrences, min(\(row).first_at) AS first_at,
            max(\(row).last_at) AS last_at, min(\(row).version_key) AS version_key
        """
    }
}

extension FleetReader {
    /// The query for a filter.
    func question(_ filter: FleetFilter) throws(FleetError) -> FleetQuestion {
        var question = FleetQuestion(tenant: filter.tenant)
        let tenant = question.tenant
        try choosePeriod(filter, &question)
        // Do not map earlier signatures for one machine: its counts in zguard_hosts are joined by stored signature.
        if filter.host == nil, try !joins(filter.tenant).isEmpty { question.former = Self.joined(tenant) }
        if let signature = filter.signature {
            let list = try related(signature, filter.tenant).map { question.parameter(.text($0)) }
            question.rows.append("d.signature IN (\(list.joined(separator: ", ")))")
        }
        if let program = filter.program {
            let whole = question.parameter(.text(program))
            let end = question.parameter(.text("/" + program))
            let length = question.parameter(.integer(Int64(program.unicodeScalars.count + 1)))
            question.rows.append(
                "(d.program = \(whole) OR substr(d.program, length(d.program) - CAST(\(length) AS integer) + 1) = \(end))"
            )
        }
        if let version = filter.version { question.rows.append("d.version = \(question.parameter(.text(version)))") }
        if let kind = filter.kind {
            let value = question.parameter(.text(kind))
            question.rows.append(
                "d.signature IN (SELECT signature FROM zguard_groups WHERE tenant = \(tenant) AND kind = \(value))")
        }
        try addTexts(filter, &question)
        if let host = filter.host {
            let value = question.parameter(.text(host))
            question.rows.append(
                "d.signature IN (SELECT signature FROM zguard_hosts WHERE tenant = \(tenant) AND host = \(value))")
            question.host = (value, filter.since.map { question.parameter(.integer($0.milliseconds)) })
        }
        try addStates(filter, &question)
        if let version = filter.newSince {
            let value = question.parameter(.text(versionKey(version)))
            question.rows.append(
                """
                d.signature IN (SELECT signature FROM zguard_totals WHERE tenant = \(tenant) AND version_key >= \(value))
                """)
            if try features().hasFormer {
                question.rows += [
                    Self.noOlder("signature", "former", tenant, value),
                    Self.noOlder("former", "signature", tenant, value),
                ]
            }
        }
        return question
    }

    /// SQL condition on a row `d`: the row's group was not seen in a version before `version` under a related
    /// signature. If `own` is "signature", the related signatures are the row's earlier ones; if `own` is "former", its
    /// successors.
    private static func noOlder(
        _ own: String, _ other: String, _ tenant: String, _ version: String
    ) -> String {
        """
        NOT EXISTS (SELECT 1 FROM zguard_former f JOIN zguard_totals o ON o.tenant = f.tenant AND o.signature = f.\(other)
            WHERE f.tenant = \(tenant) AND f.\(own) = d.signature AND o.version_key < \(version))
        """
    }

    /// Chooses the tables of counts. Without a period: the totals, or weeks if the filter names a program or version.
    /// With a period: weeks, and days for the partial weeks at its ends. A database without zguard_weeks has only
    /// totals and days.
    private func choosePeriod(_ filter: FleetFilter, _ question: inout FleetQuestion) throws(FleetError) {
        if filter.since == nil, filter.until == nil {
            if filter.program != nil || filter.version != nil {
                question.tables = [.init(name: try counts)]
            }
            return
        }
        let (first, last) = (filter.since?.day, filter.until?.day)
        if let since = filter.since {
            question.rows.append("d.last_at >= \(question.parameter(.integer(since.milliseconds)))")
        }
        if let until = filter.until {
            question.rows.append("d.first_at <= \(question.parameter(.integer(until.milliseconds)))")
        }
        let features = try features()
        func days(from first: String?, to last: String?) -> FleetQuestion.Table {
            var conditions: [String] = []
            if let first { conditions.append("d.day >= \(question.parameter(.text(first)))") }
            if let last { conditions.append("d.day <= \(question.parameter(.text(last)))") }
            let rows = database.rows(of: "zguard_days", from: first, to: last, features)
            return .init(name: rows, conditions: conditions)
        }
        // The whole weeks of the period begin with Monday `begin`, and end before Monday `end`.
        let begin = first.map { FleetWeeks.monday(of: $0) == $0 ? $0 : FleetWeeks.nextMonday(after: $0) }
        let end = last.map { FleetWeeks.monday(of: $0) }
        guard features.hasWeeks, begin == nil || end == nil || begin! < end! else {
            question.tables = [days(from: first, to: last)]
            return
        }
        var weeks = FleetQuestion.Table(name: FleetWeeks.table)
        if let begin { weeks.conditions.append("d.week >= \(question.parameter(.text(begin)))") }
        if let end { weeks.conditions.append("d.week < \(question.parameter(.text(end)))") }
        question.tables = [weeks]
        if first != begin { question.tables.append(days(from: first, to: begin.map(FleetWeeks.dayBefore))) }
        if end != nil { question.tables.append(days(from: end, to: last)) }
    }

    /// The table of counts by group, program and version.
    var counts: String {
        get throws(FleetError) { try features().hasWeeks ? FleetWeeks.table : "zguard_days" }
    }

    private func addTexts(_ filter: FleetFilter, _ question: inout FleetQuestion) throws(FleetError) {
        let tenant = question.tenant
        var words = filter.words
        for name in filter.names {
            if try !features().hasNames {
                words.append(name.text)
                continue
            }
            let first = question.parameter(.text(name.key))
            let condition =
                name.isWhole
                ? "name = \(first)" : "name >= \(first) AND name < \(question.parameter(.text(name.end)))"
            question.rows.append(
                "d.signature IN (SELECT signature FROM zguard_names WHERE tenant = \(tenant) AND \(condition))")
        }
        for word in words {
            let value = question.parameter(.text("%" + Self.escaped(word.lowercased()) + "%"))
            question.rows.append(
                """
                d.signature IN (SELECT signature FROM zguard_groups
                    WHERE tenant = \(tenant) AND lower(words) LIKE \(value) ESCAPE '!')
                """)
        }
    }

    private static func escaped(_ word: String) -> String {
        ["!", "%", "_"].reduce(word) { $0.replacing($1, with: "!" + $1) }
    }

    private static let mostListed = 40_000

    private func addStates(_ filter: FleetFilter, _ question: inout FleetQuestion) throws(FleetError) {
        if filter.states.isEmpty { return }
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
        // Use literals, because databases limit the number of parameters.
        if !list.isEmpty {
            let literals = list.sorted().map { "'\($0)'" }.joined(separator: ", ")
            question.signatures.append("\(isOpen ? "NOT " : "")IN (\(literals))")
        } else if !isOpen {
            question.signatures.append("IS NULL")
        }
    }
}
