// What findings are kept in: a database that understands SQL. The statements are the same for all, but where a dialect is asked for.

/// A value of a row, or of a parameter.
enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)

    init(_ text: String?) { self = text.map { .text($0) } ?? .null }

    var text: String? {
        switch self {
        case .null: nil
        case .integer(let number): String(number)
        case .text(let text): text
        }
    }

    var integer: Int64 {
        switch self {
        case .null: 0
        case .integer(let number): number
        // Sums are numbers with any number of digits.
        case .text(let text): Int64(signedDigits: text) ?? Self.largest(text)
        }
    }

    // The nearest number that fits; 0 where the text is no number.
    private static func largest(_ text: String) -> Int64 {
        let isNegative = text.hasPrefix("-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0).drop { $0 == 0x30 }
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return 0 }
        return isNegative ? .min : .max
    }
}

/// A connection. Used by one thread at a time.
protocol Database: AnyObject {
    /// Several statements without parameters and results.
    func execute(_ script: String) throws(FleetError)
    /// One statement, with $1, $2 and so on for its parameters, each of which occurs.
    @discardableResult
    func query(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]]
    /// Makes tables where there are none.
    func prepare() throws(FleetError)
    /// Adds findings: each once, whoever else does the same, all or none of them. Returns how many were new.
    func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int
    /// Removes what was found before that day. Returns how many findings were removed, as far as that is known.
    func removeFindings(before day: String) throws(FleetError)
}

extension Database {
    func query(_ statement: String) throws(FleetError) -> [[SQLValue]] { try query(statement, []) }
}

/// What a shipped finding is in tables.
enum FleetTables {
    /// The columns of a finding, in the order of ``ShippedFinding/columns(versionKey:)``.
    static let columns = [
        "tenant", "signature", "day", "id", "at", "host", "program", "version", "version_key", "occurrences", "body",
    ]

    /// The tables that count, which overviews are made of. zguard_totals has a group's counts of all days together; when it was
    /// seen first, and the oldest version that had it, stay there when those findings are gone. `form` is what the database has to say
    /// of tables that are looked up by their keys alone.
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

    /// The table that counts by day.
    static func countingDays(_ name: String, day: String, form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS \(name) (
            tenant text NOT NULL, signature text NOT NULL, day \(day) NOT NULL, program text NOT NULL, version text NOT NULL,
            version_key text NOT NULL, findings bigint NOT NULL, occurrences bigint NOT NULL,
            first_at bigint NOT NULL, last_at bigint NOT NULL,
            PRIMARY KEY (tenant, signature, day, program, version))\(form);

        """
    }

    /// What the names of a day's tables, or of its partition, end in: "2026_11_21".
    static func suffix(of day: String) -> String { day.replacing("-", with: "_") }

    /// Whether it is the end of one.
    static func isDay(_ suffix: String) -> Bool {
        suffix.utf8.count == 10 && suffix.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x5f }
    }

    /// Whether a day has a table of its own: hostile times make none.
    static func isOwn(_ day: String, oldest: Int64) -> Bool {
        let now = Timestamp.now
        return day >= now.earlier(bySeconds: oldest * 86400).day && day <= now.earlier(bySeconds: -86400).day
    }
}
