// Queries the single findings of a group, page by page, and their counts by version and time.

import ZombieGuard

extension FleetReader {
    /// A finding as it is stored.
    public struct Stored: Hashable, Sendable {
        /// The line of JSON.
        public var line: String
        /// Time of the last occurrence.
        public var time: Timestamp
        /// Name of the machine.
        public var host: String
        /// The program's version; empty if unknown.
        public var version: String
    }

    /// The findings of a group, the latest first. The counts by day tell which days a page covers, so that only
    /// findings of these days are read.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - tenant: name of the tenant; nil: the default one.
    ///   - limit: maximum number of findings.
    ///   - offset: number of findings to skip.
    /// - Returns: the findings.
    /// - Throws: ``FleetError`` if the query fails.
    public func findings(
        of signature: String, tenant: String? = nil, limit: Int, offset: Int = 0
    ) throws(FleetError) -> [Stored] {
        let (rest, key) = try condition(signature, tenant)
        let days = try database.query(
            "SELECT day, sum(findings) FROM zguard_days WHERE \(rest) GROUP BY day ORDER BY day DESC", key)
        var found: [Stored] = []
        var skipped = offset
        for row in days where found.count < limit {
            let (day, count) = (row[0].text ?? "", Int(clamping: row[1].integer))
            if count <= skipped {
                skipped -= count
                continue
            }
            found += try findings(rest, key, day: day, limit: limit - found.count, offset: skipped)
            skipped = 0
        }
        return found
    }

    private func findings(
        _ rest: String, _ key: [SQLValue], day: String, limit: Int, offset: Int
    ) throws(FleetError) -> [Stored] {
        let table = database.rows(of: "zguard_findings", from: day, to: day, try features())
        let condition = "\(rest) AND day = $\(key.count + 1)"
        // Sort only ids, not bodies. A row with 0 occurrences is a finding that has moved to another signature.
        let rows = try database.query(
            """
            SELECT body, at, host, version FROM \(table) f WHERE \(condition) AND occurrences > 0 AND id IN
                (SELECT id FROM \(table) g WHERE \(condition) AND occurrences > 0
                ORDER BY at DESC, id LIMIT \(limit) OFFSET \(offset))
            ORDER BY at DESC, id
            """, key + [.text(day)])
        return rows.map {
            Stored(
                line: $0[0].text ?? "", time: Timestamp(milliseconds: $0[1].integer), host: $0[2].text ?? "",
                version: $0[3].text ?? "")
        }
    }

    /// Occurrences in a version on the day `column`, or in the week that begins on that day.
    public struct Heat: Hashable, Sendable {
        public var column: String
        public var version: String
        public var versionKey: String
        public var occurrences: Int64
    }

    /// Occurrences by version and week.
    ///
    /// - Parameters:
    ///   - filter: conditions; its period and machine are ignored.
    ///   - first: the Monday of the first week.
    /// - Returns: counts; nil if the database has no counts of weeks.
    /// - Throws: ``FleetError`` if the query fails.
    public func weeks(_ filter: FleetFilter, since first: String) throws(FleetError) -> [Heat]? {
        guard try features().hasWeeks else { return nil }
        var filter = filter
        (filter.since, filter.until, filter.host) = (nil, nil, nil)
        var question = try question(filter)
        let week = question.parameter(.text(first))
        let conditions =
            question.rows + question.signatures.map { "d.signature \($0)" } + ["d.week >= \(week)", "d.findings > 0"]
        return try heat(
            """
            SELECT d.week, d.version, min(d.version_key), sum(d.occurrences) FROM zguard_weeks d
            WHERE \(conditions.joined(separator: " AND ")) GROUP BY d.week, d.version
            """, question.parameters)
    }

    /// Occurrences of a group by version and day.
    ///
    /// - Parameters:
    ///   - signature: signature of the group.
    ///   - first: the first day.
    ///   - tenant: name of the tenant; nil: the default one.
    /// - Returns: counts.
    /// - Throws: ``FleetError`` if the query fails.
    public func days(
        of signature: String, since first: String, tenant: String? = nil
    ) throws(FleetError) -> [Heat] {
        let (rest, key) = try condition(signature, tenant)
        let table = database.rows(of: "zguard_days", from: first, to: nil, try features())
        return try heat(
            """
            SELECT day, version, min(version_key), sum(occurrences) FROM \(table) d
            WHERE \(rest) AND day >= $\(key.count + 1) GROUP BY day, version
            """, key + [.text(first)])
    }

    private func heat(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [Heat] {
        try database.query(statement, parameters).map {
            Heat(
                column: $0[0].text ?? "", version: $0[1].text ?? "", versionKey: $0[2].text ?? "",
                occurrences: $0[3].integer)
        }
    }
}
