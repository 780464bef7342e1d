// The record that `zguard alerts` keeps in a store: the groups it knows, its watches, and the messages sent.

import ZombieGuard

extension FleetTables {
    /// Creates the table of alerts. The kind of a row decides which columns are used: see ``AlertTable``.
    static let alerts = """
        CREATE TABLE IF NOT EXISTS zguard_alerts (
            tenant text NOT NULL, key text NOT NULL, kind text NOT NULL, serial bigint NOT NULL, state text NOT NULL,
            at bigint NOT NULL, tries bigint NOT NULL, way text NOT NULL, batch text NOT NULL, body text NOT NULL,
            PRIMARY KEY (tenant, key));
        CREATE INDEX IF NOT EXISTS zguard_alerts_by_kind ON zguard_alerts (tenant, kind, state, serial);
        """
}

/// The rows of one tenant in zguard_alerts, within a transaction that excludes all other watchers. A check searches the
/// store for new groups. An episode is a period in which a group is above the limit of a watch.
///
/// | kind | key | serial | state | at |
/// |---|---|---|---|---|
/// | group | signature of a group | number of the check that found it | | |
/// | watch | id of a watch | last check whose groups it has processed | | |
/// | over | watch and signature | number of the episode | above, below | when it was above the limit last |
/// | send | id of a message | when it was made | waiting, claimed, sent, dropped | when it is due |
struct AlertTable {
    struct Row: Hashable {
        var key: String
        var kind: Kind
        var serial: Int64 = 0
        var state = ""
        /// In milliseconds since 1970.
        var at: Int64 = 0
        var tries: Int64 = 0
        var way = ""
        /// Id of the combined message that includes this one; "" if it is sent alone.
        var batch = ""
        var body = ""
    }

    enum Kind: String { case group, watch, over, send }

    static let waiting = "waiting", claimed = "claimed", sent = "sent", dropped = "dropped"
    static let above = "above", below = "below"

    let database: any Database
    let tenant: String
    /// Keys of the rows that were written in this transaction.
    private(set) var written: Set<String> = []

    init(_ database: any Database, tenant: String) { (self.database, self.tenant) = (database, tenant) }

    private static let columns = "key, kind, serial, state, at, tries, way, batch, body"

    private func key(_ kind: Kind, _ name: String) -> String { "\(kind.rawValue) \(name)" }

    func row(_ kind: Kind, _ name: String) throws(FleetError) -> Row? {
        try rows("key = $2", [.text(key(kind, name))]).first
    }

    private func rows(_ condition: String, _ more: [SQLValue]) throws(FleetError) -> [Row] {
        try database.query(
            "SELECT \(Self.columns) FROM zguard_alerts WHERE tenant = $1 AND \(condition)", [.text(tenant)] + more
        ).compactMap { Row(columns: $0) }
    }

    /// Inserts a row, or updates the row with the same key.
    mutating func write(_ row: Row) throws(FleetError) {
        try database.query(
            """
            INSERT INTO zguard_alerts VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (tenant, key) DO UPDATE SET serial = excluded.serial, state = excluded.state, at = excluded.at,
                tries = excluded.tries, way = excluded.way, batch = excluded.batch, body = excluded.body
            """, [.text(tenant)] + row.columns)
        written.insert(row.key)
    }

    /// Adds a message, unless the table has it. With the default `state`, the message will be sent.
    mutating func add(_ id: String, way: AlertWay, body: String, state: String = waiting, now: Int64) throws(FleetError)
    {
        if try row(.send, id) != nil { return }
        try write(Row(key: key(.send, id), kind: .send, serial: now, state: state, at: 0, way: way.id, body: body))
    }

    /// Messages that were neither sent nor dropped, oldest first.
    func unsent() throws(FleetError) -> [Row] {
        try rows(
            "kind = 'send' AND state IN ('\(Self.waiting)', '\(Self.claimed)') ORDER BY serial, key", [])
    }

    // MARK: Watches

    /// The last check whose groups a watch has processed; nil if the watch has not begun.
    func seen(by watch: AlertWatch) throws(FleetError) -> Int64? { try row(.watch, watch.id)?.serial }

    mutating func setSeen(by watch: AlertWatch, _ look: Int64) throws(FleetError) {
        try write(Row(key: key(.watch, watch.id), kind: .watch, serial: look))
    }

    /// The episodes of a watch by signature. If the signature of a group has changed, the group's running episode moves
    /// to the current signature.
    mutating func episodes(of watch: AlertWatch, _ current: [String: String]) throws(FleetError) -> [String: Row] {
        let start = key(.over, watch.id) + " "
        var episodes: [String: Row] = [:]
        for row in try rows("kind = 'over' AND substr(key, 1, \(start.utf8.count)) = $2", [.text(start)]) {
            episodes[String(row.key.dropFirst(start.count))] = row
        }
        for (former, var old) in episodes where old.state == Self.above {
            guard let signature = current[former] else { continue }
            var new = episodes[signature] ?? Row(key: start + signature, kind: .over)
            (new.serial, new.state, new.at) = (max(new.serial, old.serial), Self.above, max(new.at, old.at))
            old.state = Self.below
            for row in [new, old] { try write(row) }
            (episodes[signature], episodes[former]) = (new, old)
        }
        return episodes
    }

    mutating func setEpisode(
        of watch: AlertWatch, _ signature: String, number: Int64, isAbove: Bool, at: Int64
    ) throws(FleetError) {
        try write(
            Row(
                key: key(.over, "\(watch.id) \(signature)"), kind: .over, serial: number,
                state: isAbove ? Self.above : Self.below, at: at))
    }

    // MARK: Groups

    /// Adds the groups that the store has and this table does not.
    ///
    /// - Returns: the number of this check if it found new groups, whose rows have this number; otherwise the number of
    ///   the last check that found groups.
    mutating func enterGroups() throws(FleetError) -> Int64 {
        let last = try database.query(
            "SELECT coalesce(max(serial), 0) FROM zguard_alerts WHERE tenant = $1 AND kind = 'group' AND state = ''",
            [.text(tenant)])
        let look = min(max(0, last.first?.first?.integer ?? 0), 1 << 60) + 1
        try database.query(
            """
            INSERT INTO zguard_alerts
            SELECT t.tenant, 'group ' || t.signature, 'group', CAST($2 AS bigint), '', 0, 0, '', '', ''
            FROM zguard_totals t WHERE t.tenant = $1 AND NOT EXISTS (
                SELECT 1 FROM zguard_alerts a WHERE a.tenant = t.tenant AND a.key = 'group ' || t.signature)
            """, [.text(tenant), .integer(look)])
        let new = try groups(after: look - 1)
        for signature in new { written.insert(key(.group, signature)) }
        return new.isEmpty ? look - 1 : look
    }

    /// Signatures of the groups that were found after check `look`.
    func groups(after look: Int64) throws(FleetError) -> [String] {
        try database.query(
            """
            SELECT substr(key, \("group ".utf8.count + 1)) FROM zguard_alerts
            WHERE tenant = $1 AND kind = 'group' AND state = '' AND serial > $2 ORDER BY serial, key
            """, [.text(tenant), .integer(look)]
        ).compactMap { $0.first?.text }
    }

    /// Returns the signatures whose group was already known under another signature: an earlier one that no other group
    /// had, or a later one that the store records as its successor.
    ///
    /// - Parameters:
    ///   - signatures: signatures of groups.
    ///   - earlier: earlier signatures of groups, without signatures that several groups had.
    ///   - look: the last check by which the group must have been known.
    func known(
        _ signatures: [String], _ earlier: [String: [String]], until look: Int64
    ) throws(FleetError) -> Set<String> {
        guard try database.mayRead("zguard_former") else { return [] }
        let owner: [SQLValue] = [.text(tenant), .integer(look)]
        let successors = try database.chunked(signatures, owner) { list in
            """
            SELECT DISTINCT f.former FROM zguard_former f
                JOIN zguard_alerts a ON a.tenant = f.tenant AND a.key = 'group ' || f.signature
            WHERE f.tenant = $1 AND a.serial <= $2 AND f.former IN (\(list))
            """
        }
        let keys = signatures.flatMap { earlier[$0] ?? [] }.map { key(.group, $0) }
        let formers = try database.chunked(keys, owner) { list in
            "SELECT key FROM zguard_alerts WHERE tenant = $1 AND serial <= $2 AND key IN (\(list))"
        }
        let known = Set((successors + formers).compactMap { $0.first?.text })
        return Set(
            signatures.filter { signature in
                known.contains(signature)
                    || earlier[signature]?.contains { known.contains(key(.group, $0)) } ?? false
            })
    }

    // MARK: The log of a directory

    /// The rows that this transaction has written.
    func changes() throws(FleetError) -> [[String]] {
        let rows = try database.chunked(written.sorted(), [.text(tenant)]) { list in
            "SELECT \(Self.columns) FROM zguard_alerts WHERE tenant = $1 AND key IN (\(list))"
        }
        return rows.map { [tenant] + $0.map { $0.text ?? "" } }
    }

    /// The rows of all tenants, in the form of ``changes()``.
    static func all(in database: any Database) throws(FleetError) -> [[String]] {
        try database.query("SELECT tenant, \(columns) FROM zguard_alerts ORDER BY tenant, key").map { row in
            row.map { $0.text ?? "" }
        }
    }

    /// Replays a row of ``changes()``; ignores malformed rows.
    static func replay(_ columns: [String], into database: any Database) throws(FleetError) {
        guard columns.count == 10, let row = Row(columns: columns.dropFirst().map { .text($0) }) else { return }
        var table = AlertTable(database, tenant: columns[0])
        try table.write(row)
    }
}

extension AlertTable.Row {
    fileprivate init?(columns: [SQLValue]) {
        guard columns.count == 9, let kind = AlertTable.Kind(rawValue: columns[1].text ?? "") else { return nil }
        // Clamp numbers, so that calculations cannot overflow: other writers of the store may have written any value.
        func number(_ place: Int) -> Int64 { min(max(0, columns[place].integer), 1 << 60) }
        self.init(
            key: columns[0].text ?? "", kind: kind, serial: number(2), state: columns[3].text ?? "", at: number(4),
            tries: number(5), way: columns[6].text ?? "", batch: columns[7].text ?? "", body: columns[8].text ?? "")
    }

    fileprivate var columns: [SQLValue] {
        [
            .text(key), .text(kind.rawValue), .integer(serial), .text(state), .integer(at), .integer(tries), .text(way),
            .text(batch), .text(body),
        ]
    }

    /// Whether a watcher is sending the message.
    func isClaimed(_ now: Timestamp) -> Bool { state == AlertTable.claimed && at > now.milliseconds }

    /// The key without the kind.
    var name: String { String(key.dropFirst(kind.rawValue.count + 1)) }
}

extension Database {
    /// Runs a query about a list of texts, in parts, because databases limit the number of parameters.
    ///
    /// - Parameters:
    ///   - texts: the list.
    ///   - first: the parameters before the list.
    ///   - question: returns the statement for a part; its argument is the part's placeholders, such as "$3, $4".
    func chunked(
        _ texts: [String], _ first: [SQLValue], _ question: (String) -> String
    ) throws(FleetError) -> [[SQLValue]] {
        var rows: [[SQLValue]] = []
        for start in stride(from: 0, to: texts.count, by: 512) {
            var part = Array(texts[start..<min(start + 512, texts.count)])
            // Pad to a power of two, so that a connection keeps only few prepared statements.
            while part.count & (part.count - 1) != 0 { part.append(part[0]) }
            let list = part.indices.map { "$\($0 + first.count + 1)" }.joined(separator: ", ")
            rows += try query(question(list), first + part.map { .text($0) })
        }
        return rows
    }
}
