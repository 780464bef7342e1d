// Keeps zguard_weeks, the counts of zguard_days by week. Triggers of the database update it in a shipper's transaction.

import ZombieGuard

/// The table zguard_weeks. It has the sums of zguard_days for each group, program, version and week, and a third as
/// many rows. Triggers update it, so that it stays correct when shippers of earlier versions write.
enum FleetWeeks {
    static let table = "zguard_weeks"
    static let key = "tenant, signature, program, version, week"

    /// SQL that creates the table, in one of the two dialects.
    ///
    /// - Parameters:
    ///   - name: name of the table, with its schema in PostgreSQL.
    ///   - day: type of a day.
    ///   - form: dialect's clause for tables that are accessed by primary key only.
    static func creation(_ name: String = table, day: String, key text: String = "text", form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS \(name) (
            tenant text NOT NULL, signature text NOT NULL, program text NOT NULL, version text NOT NULL, week \(day) NOT NULL,
            version_key \(text) NOT NULL, findings bigint NOT NULL, occurrences bigint NOT NULL,
            first_at bigint NOT NULL, last_at bigint NOT NULL, PRIMARY KEY (\(key)))\(form);
        """
    }

    /// SQL that adds up rows of days by week, and adds the sums to the table.
    ///
    /// - Parameters:
    ///   - rows: source of rows with the columns of zguard_days.
    ///   - name: name of the table.
    ///   - week: expression for the Monday of the week that `day` is in.
    ///   - least: the dialect's function for the smaller of two values; `most` for the larger one.
    static func addition(
        of rows: String, to name: String = table, week: String, least: String, most: String
    ) -> String {
        // Take the least version_key: other versions of zguard may have stored another key for the same version.
        addition(
            selected: """
                SELECT tenant, signature, program, version, \(week), min(version_key), sum(findings), sum(occurrences),
                    min(first_at), max(last_at) FROM \(rows) WHERE true GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
                """, to: name, least: least, most: most)
    }

    /// SQL that adds rows to the table. `selected` is a SELECT or VALUES with the table's columns.
    static func addition(selected: String, to name: String = table, least: String, most: String) -> String {
        """
        INSERT INTO \(name) \(selected)
        ON CONFLICT (\(key)) DO UPDATE SET findings = \(table).findings + excluded.findings,
            occurrences = \(table).occurrences + excluded.occurrences,
            first_at = \(least)(\(table).first_at, excluded.first_at), last_at = \(most)(\(table).last_at, excluded.last_at)
        """
    }

    /// The Monday of the week that a day is in; the day itself if it is not a date.
    static func monday(of day: String) -> String {
        guard let time = Timestamp(day) else { return day }
        return time.earlier(bySeconds: weekday(of: time) * 86400).day
    }

    /// The Monday after the week that a day is in.
    static func nextMonday(after day: String) -> String {
        guard let time = Timestamp(monday(of: day)) else { return day }
        return time.earlier(bySeconds: -7 * 86400).day
    }

    static func dayBefore(_ day: String) -> String { Timestamp(day)?.earlier(bySeconds: 86400).day ?? day }

    // Days since Monday; the first of January 1970 was a Thursday.
    private static func weekday(of time: Timestamp) -> Int64 {
        let day = (Double(time.milliseconds) / 86_400_000).rounded(.down)
        let weekday = (Int64(day) + 3) % 7
        return weekday < 0 ? weekday + 7 : weekday
    }
}

// MARK: SQLite

extension SQLiteFleet {
    private static func week(_ day: String = "day") -> String {
        "coalesce(date(\(day), '-6 days', 'weekday 1'), \(day))"
    }

    /// Triggers on the counts of a day. An update removes the old row's counts and adds those of the new row, because
    /// it may change the row's key.
    static func triggers(_ suffix: String) -> String {
        let table = "zguard_days_\(suffix)"
        let addition = FleetWeeks.addition(
            selected: """
                VALUES (new.tenant, new.signature, new.program, new.version, \(week("new.day")), new.version_key, new.findings,
                    new.occurrences, new.first_at, new.last_at)
                """, least: "min", most: "max")
        let removal = """
            UPDATE zguard_weeks SET findings = findings - old.findings, occurrences = occurrences - old.occurrences
            WHERE tenant = old.tenant AND signature = old.signature AND program = old.program AND version = old.version
                AND week = \(week("old.day"))
            """
        let sweep = """
            DELETE FROM zguard_weeks WHERE tenant = old.tenant AND signature = old.signature AND program = old.program
                AND version = old.version AND week = \(week("old.day")) AND findings <= 0
            """
        return """
            CREATE TRIGGER IF NOT EXISTS \(table)_added AFTER INSERT ON \(table) BEGIN \(addition); END;
            CREATE TRIGGER IF NOT EXISTS \(table)_changed AFTER UPDATE ON \(table) BEGIN \(removal); \(addition); \(sweep); END;
            CREATE TRIGGER IF NOT EXISTS \(table)_removed AFTER DELETE ON \(table) BEGIN \(removal); \(sweep); END;
            INSERT INTO \(counted) VALUES ('\(suffix)') ON CONFLICT DO NOTHING;

            """
    }

    /// The table of the days that zguard_weeks includes, as suffixes of table names.
    static let counted = "zguard_counted_days"

    /// Whether zguard_weeks counts exactly the days that have tables. Shippers of earlier versions create tables
    /// without triggers, and drop tables, which fires no trigger.
    func countsWeeks(_ suffixes: [String]) throws(FleetError) -> Bool {
        let rows = try query(
            """
            SELECT name FROM sqlite_master WHERE name IN ('\(FleetWeeks.table)', '\(Self.counted)')
                OR type = 'trigger' AND name GLOB 'zguard_days_*_added'
            """, [])
        let names = Set(rows.compactMap { $0.first?.text })
        guard names.isSuperset(of: [FleetWeeks.table, Self.counted] + suffixes.map { "zguard_days_\($0)_added" }) else {
            return false
        }
        return try Set(query("SELECT suffix FROM \(Self.counted)").compactMap { $0.first?.text }) == Set(suffixes)
    }

    /// Fills zguard_weeks from the tables of days, unless triggers have counted all days. Call in a transaction.
    func prepareWeeks(_ suffixes: [String]) throws(FleetError) {
        if try countsWeeks(suffixes) { return }
        try execute(
            FleetWeeks.creation(day: "text", form: " WITHOUT ROWID") + "DELETE FROM zguard_weeks;"
                + "CREATE TABLE IF NOT EXISTS \(Self.counted) (suffix text PRIMARY KEY); DELETE FROM \(Self.counted)")
        for suffix in suffixes {
            try execute(FleetWeeks.addition(of: "zguard_days_\(suffix)", week: Self.week(), least: "min", most: "max"))
            try execute(Self.triggers(suffix))
        }
    }

    /// Recounts the week of a day and deletes the counts of earlier weeks, after all days before `day` were removed:
    /// dropped tables fire no triggers.
    func recountWeek(of day: String, _ suffixes: [String]) throws(FleetError) {
        let (first, end) = (FleetWeeks.monday(of: day), FleetWeeks.nextMonday(after: day))
        try query("DELETE FROM zguard_weeks WHERE week < $1", [.text(end)])
        for suffix in suffixes {
            if FleetTables.isDay(suffix),
                suffix < FleetTables.suffix(of: first) || suffix >= FleetTables.suffix(of: end)
            {
                continue
            }
            let rows = "(SELECT * FROM zguard_days_\(suffix) WHERE day < $1)"
            try query(FleetWeeks.addition(of: rows, week: Self.week(), least: "min", most: "max"), [.text(end)])
        }
    }
}

// MARK: PostgreSQL

extension PostgresFleet {
    private static let trigger = "zguard_days_added"

    /// Creates the table and its triggers, if this role may. Running shippers wait until the weeks are counted.
    func prepareWeeks() throws(FleetError) {
        if try !query(Self.hasTrigger, []).isEmpty { return }
        guard
            let schema = try query(
                "SELECT quote_ident(relnamespace::regnamespace::text) FROM pg_class WHERE oid = to_regclass('zguard_days')",
                []
            ).first?.first?.text
        else { return }
        do throws(FleetError) {
            try locked { Self.weeks(schema) }
        } catch {
            if error.isTemporary { throw error }
        }
    }

    static let hasTrigger = """
        SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass('zguard_days') AND tgname = '\(trigger)' AND tgenabled <> 'D'
        """

    /// The trigger function has the rights of its owner, because a shipper may lack the right to write to zguard_weeks.
    /// When the function runs, the shipper holds row locks of its groups in zguard_totals, taken in that table's order.
    /// These locks serialize shippers of one group, so that none of them has to wait for a row lock in zguard_weeks.
    private static func weeks(_ schema: String) -> String {
        let table = "\(schema).zguard_weeks"
        let week = "date_trunc('week', day::timestamp)::date"
        func addition(_ rows: String) -> String {
            FleetWeeks.addition(of: rows, to: table, week: week, least: "least", most: "greatest")
        }
        let columns = "tenant, signature, program, version, day, version_key"
        let changes = """
            (SELECT \(columns), findings, occurrences, first_at, last_at FROM added
            UNION ALL SELECT \(columns), -findings, -occurrences, first_at, last_at FROM removed) AS c
            """
        func trigger(_ event: String, _ tables: String) -> String {
            """
            CREATE TRIGGER \(event == "INSERT" ? Self.trigger : "zguard_days_\(event.lowercased())")
                AFTER \(event) ON \(schema).zguard_days REFERENCING \(tables)
                FOR EACH STATEMENT EXECUTE FUNCTION \(schema).zguard_count_weeks();
            """
        }
        return """
            \(FleetWeeks.creation(table, day: "date", key: "text COLLATE \"C\""))
            CREATE OR REPLACE FUNCTION \(schema).zguard_count_weeks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
                SET search_path = pg_catalog, pg_temp AS $zguard$
            BEGIN
                IF TG_OP = 'INSERT' THEN
                    \(addition("added"));
                ELSIF TG_OP = 'UPDATE' THEN
                    \(addition(changes));
                ELSE
                    UPDATE \(table) w SET findings = w.findings - r.findings, occurrences = w.occurrences - r.occurrences
                    FROM (SELECT tenant, signature, program, version, \(week) AS week, sum(findings) AS findings,
                        sum(occurrences) AS occurrences FROM removed GROUP BY 1, 2, 3, 4, 5) r
                    WHERE w.tenant = r.tenant AND w.signature = r.signature AND w.program = r.program
                        AND w.version = r.version AND w.week = r.week;
                    DELETE FROM \(table) w USING removed r WHERE w.tenant = r.tenant AND w.signature = r.signature
                        AND w.findings <= 0;
                END IF;
                RETURN NULL;
            END
            $zguard$;
            REVOKE EXECUTE ON FUNCTION \(schema).zguard_count_weeks() FROM PUBLIC;
            DROP TRIGGER IF EXISTS zguard_days_update ON \(schema).zguard_days;
            DROP TRIGGER IF EXISTS zguard_days_delete ON \(schema).zguard_days;
            DROP TRIGGER IF EXISTS \(Self.trigger) ON \(schema).zguard_days;
            \(trigger("UPDATE", "NEW TABLE AS added OLD TABLE AS removed"))
            \(trigger("DELETE", "OLD TABLE AS removed"))
            \(trigger("INSERT", "NEW TABLE AS added"))
            CREATE INDEX IF NOT EXISTS zguard_days_by_day ON \(schema).zguard_days (tenant, day);
            CREATE INDEX IF NOT EXISTS zguard_groups_by_kind ON \(schema).zguard_groups (tenant, kind, signature);
            DELETE FROM \(table);
            \(addition("\(schema).zguard_days"));
            ANALYZE \(table);
            """
    }
}
