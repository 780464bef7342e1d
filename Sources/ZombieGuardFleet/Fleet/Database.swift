// Interface to the SQL databases that keep findings. SQLite and PostgreSQL share most statements.

import ZombieGuard

/// A value in a row, or of a parameter.
enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])

    init(_ text: String?) { self = text.map { .text($0) } ?? .null }

    var text: String? {
        switch self {
        case .null: nil
        case .integer(let number): String(number)
        case .text(let text): text
        case .bytes: nil
        }
    }

    var integer: Int64 {
        switch self {
        case .null: 0
        case .integer(let number): number
        // PostgreSQL's sum(bigint) is numeric, with any number of digits.
        case .text(let text): Int64(signedDigits: text) ?? Self.largest(text)
        case .bytes: 0
        }
    }

    // Saturates a number that does not fit; 0 if the text is not a number.
    private static func largest(_ text: String) -> Int64 {
        let isNegative = text.hasPrefix("-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0).drop { $0 == 0x30 }
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return 0 }
        return isNegative ? .min : .max
    }
}

/// A connection to a database. Used by one thread at a time.
protocol Database: AnyObject {
    /// Executes several statements without parameters or results.
    func execute(_ script: String) throws(FleetError)
    /// Executes one statement. Its parameters are $1, $2 and so on; each of them must occur.
    @discardableResult
    func query(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]]
    /// Creates missing tables.
    func prepare() throws(FleetError)
    /// Whether there is a table with this name that this connection may read.
    func mayRead(_ table: String) throws(FleetError) -> Bool
    /// Whether the database has decisions about groups that this connection may not read.
    var hidesTriage: Bool { get throws(FleetError) }
    /// Inserts all findings or none. Each finding is stored once, even if other processes insert the same finding.
    /// Returns the number of new findings.
    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int
    /// Inserts names of groups. `columns` are arrays of tenants, names and signatures, of equal length. Existing names
    /// stay.
    func insertNames(_ columns: [[String]]) throws(FleetError)
    /// Optional tables that this connection may read.
    func features() throws(FleetError) -> FleetFeatures
    /// A table or subquery with those rows of zguard_findings or zguard_days that are in a range of days. It may
    /// include rows of other days, so the query needs a condition on `day`, too.
    func rows(of table: String, from first: String?, to last: String?, _ features: FleetFeatures) -> String
    /// Inserts findings within a transaction, like ``insert(_:)``.
    func insertWithin(_ findings: [ShippedFinding]) throws(FleetError) -> Int
    /// Adds pairs of an earlier and the current signature of a bug, within a transaction.
    func insert(_ formers: [FormerSignature]) throws(FleetError)
    /// Runs, in a transaction, statements that change the counts of groups. No other connection changes counts
    /// meanwhile.
    func changeCounts<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result
    /// Name of the table that has the findings of a day, for reading and updates.
    func findingsTable(of day: String) throws(FleetError) -> String
    /// Name of the table that has the counts of a group on a day, for updates. Call within ``changeCounts(_:)``.
    func daysTable(of day: String, _ tenant: String, _ signature: String) throws(FleetError) -> String
    /// Replaces the bodies of stored findings. An empty body marks a finding that has moved to another signature, and
    /// sets its occurrences to 0. Returns the rows that had not moved before.
    func replaceBodies(_ rows: [StoredFinding]) throws(FleetError) -> [StoredFinding]
    /// Runs statements in a transaction.
    func inTransaction<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result
    /// Creates the tables of symbols if they are missing.
    func prepareSymbols() throws(FleetError)
    /// Removes findings of days before `day`.
    func removeFindings(before day: String) throws(FleetError)
}

extension Database {
    func query(_ statement: String) throws(FleetError) -> [[SQLValue]] { try query(statement, []) }
}

/// Optional tables, which databases of the first versions lack. Tables that may not be read count as missing.
struct FleetFeatures: Sendable {
    /// The table zguard_former of earlier signatures.
    var hasFormer = false
    /// The table zguard_weeks, and the triggers that update it.
    var hasWeeks = false
    /// The table zguard_names.
    var hasNames = false
    /// In SQLite, the suffixes of the tables by day; empty in a database of an earlier version without such tables.
    var suffixes: [String] = []
}

/// Tables that hold shipped findings and their counts.
enum FleetTables {
    /// The columns of zguard_findings, in the order of ``ShippedFinding/columns(versionKey:)``.
    static let columns = [
        "tenant", "signature", "day", "id", "at", "host", "program", "version", "version_key", "occurrences", "body",
    ]

    /// The tables with the counts that lists of groups show. zguard_totals has a group's counts over all days. When
    /// findings are removed, the time of their group's first occurrence and the oldest version with the bug remain.
    /// `form` is the dialect's clause for tables that are accessed by primary key only (SQLite: WITHOUT ROWID).
    static func counting(form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_hosts (
            tenant text NOT NULL, signature text NOT NULL, host text NOT NULL, findings bigint NOT NULL,
            occurrences bigint NOT NULL, last_at bigint NOT NULL, PRIMARY KEY (tenant, signature, host))\(form);
        CREATE INDEX IF NOT EXISTS zguard_hosts_by_host ON zguard_hosts (tenant, host);
        CREATE TABLE IF NOT EXISTS zguard_groups (
            tenant text NOT NULL, signature text NOT NULL, kind text NOT NULL, headline text NOT NULL, words text NOT NULL,
            body text NOT NULL, PRIMARY KEY (tenant, signature));
        CREATE TABLE IF NOT EXISTS zguard_totals (
            tenant text NOT NULL, signature text NOT NULL, findings bigint NOT NULL, occurrences bigint NOT NULL,
            first_at bigint NOT NULL, last_at bigint NOT NULL, version text NOT NULL, version_key text NOT NULL,
            PRIMARY KEY (tenant, signature))\(form);
        """
    }

    /// The table of earlier signatures of groups, which earlier versions of zguard computed, or which findings had
    /// before they got names.
    static func formerSignatures(form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_former (
            tenant text NOT NULL, former text NOT NULL, signature text NOT NULL,
            PRIMARY KEY (tenant, former, signature))\(form);
        CREATE INDEX IF NOT EXISTS zguard_former_by_signature ON zguard_former (tenant, signature);
        """
    }

    /// The table with counts by day.
    static func countingDays(_ name: String, day: String, form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS \(name) (
            tenant text NOT NULL, signature text NOT NULL, day \(day) NOT NULL, program text NOT NULL, version text NOT NULL,
            version_key text NOT NULL, findings bigint NOT NULL, occurrences bigint NOT NULL,
            first_at bigint NOT NULL, last_at bigint NOT NULL,
            PRIMARY KEY (tenant, signature, day, program, version))\(form);

        """
    }

    /// The suffix of the names of a day's tables or partition: "2026_11_21".
    static func suffix(of day: String) -> String { day.replacing("-", with: "_") }

    /// Whether a text has the form of a day's suffix.
    static func isDay(_ suffix: String) -> Bool {
        suffix.utf8.count == 10 && suffix.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x5f }
    }

    /// Whether a day gets its own table or partition. All other days share one, so that forged times cannot create
    /// tables.
    static func isOwn(_ day: String, oldest: Int64) -> Bool {
        let now = Timestamp.now
        return day >= now.earlier(bySeconds: oldest * 86400).day && day <= now.earlier(bySeconds: -86400).day
    }
}
