// Tests of searches: the text of a search, names and parts of names, and the indices that a store's main queries use.

import Testing
import ZombieGuard

@testable import ZombieGuardFleet

@Suite struct SearchTests {
    private func filter(_ text: String) throws -> FleetFilter {
        var filter = FleetFilter()
        try FleetSearch.add(text, to: &filter, now: Timestamp("2026-11-20T12:00:00Z")!)
        return filter
    }

    @Test func termsAndWords() throws {
        let all = try filter(
            "cart class:Cart host:web-7 Version:1.10 since:7d until:2026-11-19 std::vector http://x kind:")
        #expect(all.words == ["cart", "std::vector", "http://x"])
        #expect(all.names == [FleetName(.class, "Cart")])
        #expect(all.host == "web-7" && all.version == "1.10" && all.kind == nil)
        #expect(all.since?.description == "2026-11-13T12:00:00Z")
        #expect(all.until?.day == "2026-11-19" && all.until! > Timestamp("2026-11-19T23:59:59Z")!)
        let quoted = try filter(#"function:"closure #1 in main" class:"Cart" "two words" member:"open"#)
        #expect(
            quoted.names == [
                FleetName(.function, "closure #1 in main", isWhole: true), FleetName(.class, "Cart", isWhole: true),
                FleetName(.member, "open", isWhole: true),
            ])
        #expect(quoted.words == ["two words"])
        #expect(throws: ValueError.self) { try filter("since:never") }
    }

    @Test func termsAreWrittenBack() throws {
        let text = FleetSearch.text(FleetSearch.text("cart", .kind, "crash"), .host, "two words")
        #expect(text == #"cart kind:crash host:"two words""#)
        let back = try filter(text)
        #expect(back.kind == "crash" && back.host == "two words" && back.words == ["cart"])
    }

    @Test(arguments: [
        ("Shop.Cart.add(_:)", ["Shop.Cart.add(_:)", "Cart.add(_:)", "add(_:)"]),
        (
            "std::vector<a::b>::push_back(x::y)",
            ["std::vector<a::b>::push_back(x::y)", "vector<a::b>::push_back(x::y)", "push_back(x::y)"]
        ),
        ("main", ["main"]), ("Type::operator->", ["Type::operator->", "operator->"]), ("", []), (".", ["."]),
        ("a.", ["a."]),
    ])
    func partsOfNames(_ name: String, _ parts: [String]) {
        #expect(FleetNames.parts(of: name).map(String.init) == parts)
    }

    @Test(arguments: [
        ("2026-11-23", "2026-11-23", "2026-11-30"), ("2026-11-29", "2026-11-23", "2026-11-30"),
        ("1970-01-05", "1970-01-05", "1970-01-12"), ("2024-02-29", "2024-02-26", "2024-03-04"),
    ])
    func weeks(_ day: String, _ monday: String, _ next: String) {
        #expect(FleetWeeks.monday(of: day) == monday)
        #expect(FleetWeeks.nextMonday(after: day) == next)
    }

    @Test func directoriesSearchAsDatabasesDo() throws {
        let finding = Self.finding(1)
        for (text, isFound) in [
            ("cart1", true), ("CART1 use", true), ("cart2", false), ("class:shop.cart", true), ("class:Cart", true),
            ("class:\"Cart\"", false), ("class:\"cart1\"", true), ("member:tot", true), ("function:use", true),
            ("function:se", false), ("function:total", false),
        ] {
            #expect(try filter(text).acceptsTexts(of: finding) == isFound, "\(text)")
            let store = try SQLiteFleet()
            _ = try store.insert([Self.shipped(finding)])
            #expect(try FleetReader(store).groups(filter(text)).count == (isFound ? 1 : 0), "\(text)")
        }
    }

    // MARK: Plans

    /// Returns the day `age + 1` days ago, which has a table of its own.
    private static func day(_ age: Int) -> String { Timestamp.now.earlier(bySeconds: Int64(age + 1) * 86400).day }

    private static func finding(_ number: Int) -> Finding {
        let line = """
            {"schema":"zguard.finding/1","kind":"use-after-free","access":"read","confidence":"exact","address":"0x7f0000000010",\
            "block":{"start":"0x7f0000000000","size":48,"offset":16,"state":"quarantined","language":"swift","class":"Shop.Cart\(number)","member":"total"},\
            "stacks":{"access":[{"pc":"0x400041","function":"Shop.use\(number)(_:)"}],"free":[],"alloc":[]},"count":1,"pid":\(number),\
            "program":"/srv/shop","time":"\(day(number % 40))T10:00:00Z","origin":{"host":"web-\(number % 3)","version":"1.\(number % 4)"}}
            """
        return Finding(jsonLine: line)!
    }

    private static func shipped(_ finding: Finding) -> ShippedFinding {
        ShippedFinding(
            finding, text: finding.jsonLine, source: "x/y", line: 1, written: .now, sender: .init(host: "web-1"))!
    }

    /// A database that records all queries and their plans.
    private final class Planned: Database {
        let store: SQLiteFleet
        var statements: [String] = []
        var plans: [String] = []

        init(_ store: SQLiteFleet) { self.store = store }

        func query(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]] {
            if statement.hasPrefix("SELECT") || statement.hasPrefix("WITH") {
                statements.append(statement)
                plans += try store.query("EXPLAIN QUERY PLAN " + statement, parameters).compactMap { $0.last?.text }
            }
            return try store.query(statement, parameters)
        }

        func execute(_ script: String) throws(FleetError) { try store.execute(script) }
        func prepare() throws(FleetError) { try store.prepare() }
        func mayRead(_ table: String) throws(FleetError) -> Bool { try store.mayRead(table) }
        var hidesTriage: Bool { get throws(FleetError) { store.hidesTriage } }
        func insert(_ findings: [ShippedFinding]) throws(FleetError) -> Int { try store.insert(findings) }
        func insertNames(_ columns: [[String]]) throws(FleetError) { try store.insertNames(columns) }
        func features() throws(FleetError) -> FleetFeatures { try store.features() }
        func rows(of table: String, from first: String?, to last: String?, _ features: FleetFeatures) -> String {
            store.rows(of: table, from: first, to: last, features)
        }
        func removeFindings(before day: String) throws(FleetError) { try store.removeFindings(before: day) }
        func insertWithin(_ findings: [ShippedFinding]) throws(FleetError) -> Int { try store.insertWithin(findings) }
        func insert(_ formers: [FormerSignature]) throws(FleetError) { try store.insert(formers) }
        func changeCounts<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
            try store.changeCounts(work)
        }
        func findingsTable(of day: String) throws(FleetError) -> String { try store.findingsTable(of: day) }
        func daysTable(of day: String, _ tenant: String, _ signature: String) throws(FleetError) -> String {
            try store.daysTable(of: day, tenant, signature)
        }
        func replaceBodies(_ rows: [StoredFinding]) throws(FleetError) -> [StoredFinding] {
            try store.replaceBodies(rows)
        }
        func inTransaction<Result>(_ work: () throws(FleetError) -> Result) throws(FleetError) -> Result {
            try store.inTransaction(work)
        }
        func prepareSymbols() throws(FleetError) { try store.prepareSymbols() }
    }

    private static func planned(_ ask: (FleetReader) throws -> Void) throws -> Planned {
        let store = try SQLiteFleet()
        _ = try store.insert((1...200).map { shipped(finding($0)) })
        let database = Planned(store)
        try ask(FleetReader(database))
        return database
    }

    @Test func overviewsReadNoFindingsAndNoDays() throws {
        for text in ["", "host:web-1", "program:shop", "version:1.1", "class:Cart", "kind:crash", "new:1.2", "cart"] {
            let asked = try Self.planned { _ = try $0.page(filter(text), limit: 10) }.statements
            let large = asked.filter { $0.contains("zguard_findings") || $0.contains("zguard_days") }
            #expect(large.isEmpty, "\(text): \(large)")
        }
    }

    @Test func periodsReadWeeksAndFewDays() throws {
        let (first, last) = (Self.day(36), Self.day(3))
        let asked = try Self.planned { _ = try $0.page(filter("since:\(first) until:\(last)"), limit: 10) }.statements
        let all = asked.joined(separator: "\n")
        let weeks = (FleetWeeks.nextMonday(after: first), FleetWeeks.monday(of: last))
        #expect(all.contains("zguard_weeks d"))
        for age in 0..<40 {
            let day = Self.day(age)
            let isRead = all.contains("zguard_days_\(FleetTables.suffix(of: day))")
            if day > last || day < first || day >= weeks.0 && day < weeks.1 { #expect(!isRead, "\(day): \(all)") }
        }
    }

    @Test func namesAndHostsAreFoundByIndex() throws {
        for (text, part) in [
            ("class:Cart", "zguard_names USING PRIMARY KEY (tenant=? AND name>? AND name<?)"),
            ("class:\"Cart1\"", "zguard_names USING PRIMARY KEY (tenant=? AND name=?)"),
            ("host:web-1", "INDEX zguard_hosts_by_host (tenant=? AND host=?)"),
            ("kind:crash", "INDEX zguard_groups_by_kind (tenant=? AND kind=?)"),
        ] {
            let plans = try Self.planned { _ = try $0.page(filter(text), limit: 10) }.plans
            #expect(plans.contains { $0.contains(part) }, "\(text): \(plans)")
        }
    }

    @Test func pagesOfFindingsReadOneGroup() throws {
        let signature = Self.shipped(Self.finding(7)).signature
        let plans = try Self.planned { reader in
            #expect(try reader.findings(of: signature, limit: 10).count == 1)
            #expect(try reader.findings(of: signature, limit: 10, offset: 1).isEmpty)
            _ = try reader.versions(of: signature)
            _ = try reader.hosts(of: signature)
            _ = try reader.days(of: [signature], since: Self.day(30))
            _ = try reader.days(of: signature, since: Self.day(30))
        }.plans
        // SQLite's plans name the tables of a view or a union: no query scans a whole table.
        let tables = plans.filter { plan in
            ["zguard_days_", "zguard_findings_", "zguard_weeks"].contains { plan.contains($0) }
        }
        #expect(tables.count > 40 && tables.allSatisfy { $0.hasPrefix("SEARCH") }, "\(tables)")
    }

    @Test func weeksFollowTheDays() throws {
        let store = try SQLiteFleet()
        let findings = (1...60).map { Self.shipped(Self.finding($0)) }
        for start in stride(from: 0, to: 60, by: 7) {
            _ = try store.insert(Array(findings[start..<min(60, start + 7)]))
        }
        func differences() throws -> [[SQLValue]] {
            let week = "date(day, '-6 days', 'weekday 1')"
            return try store.query(
                """
                SELECT * FROM (SELECT tenant, signature, program, version, \(week), version_key, sum(findings), sum(occurrences)
                    FROM zguard_days GROUP BY 1, 2, 3, 4, 5)
                EXCEPT SELECT tenant, signature, program, version, week, version_key, findings, occurrences FROM zguard_weeks
                """)
        }
        func sums(_ table: String) throws -> Int64 {
            try store.query("SELECT sum(findings) FROM \(table)").first?.first?.integer ?? 0
        }
        #expect(try differences().isEmpty && sums("zguard_weeks") == 60)
        for age in [30, 20, 17, 12, 5] {
            try store.removeFindings(before: Self.day(age))
            #expect(try differences().isEmpty && sums("zguard_weeks") == sums("zguard_totals"))
        }
        #expect(try sums("zguard_weeks") > 0 && sums("zguard_weeks") < 60)
        // A shipper of an earlier version drops a day and recreates the views.
        let day = try #require(
            store.query("SELECT min(substr(name, 13)) FROM sqlite_master WHERE name GLOB 'zguard_days_2???_??_??'")
                .first?.first?.text)
        let count = try sums("zguard_weeks")
        try store.execute("DROP TABLE zguard_days_\(day); DROP TABLE zguard_findings_\(day)")
        try store.removeFindings(before: "2000-01-01")
        #expect(try sums("zguard_weeks") == count && sums("zguard_days") < count && !store.features().hasWeeks)
        try store.prepare()
        #expect(try differences().isEmpty && sums("zguard_weeks") == sums("zguard_days") && store.features().hasWeeks)
    }
}
