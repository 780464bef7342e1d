// Tests of symbols that arrive after their findings: stored files, names for stored findings. Tests/Fleet/symbols.py
// tests these symbols with real programs in every kind of store.

import Glibc
import Testing
import ZombieGuard
import ZombieGuardCore

@testable import ZombieGuardFleet

@Suite struct SymbolsTests {
    private let tenant = ShippedFinding.Sender.standardTenant

    // MARK: Findings

    /// Returns a finding without names. Its access is at `offset` in a stripped library.
    private func raw(_ offset: UInt64, number: Int, version: String = "1.0", day: Int = 10) throws -> ShippedFinding {
        let line = """
            {"schema":"zguard.finding/1","kind":"use-after-free","access":"read","confidence":"exact","address":"0x\(number)",\
            "stacks":{"access":[{"pc":"0x7f00","module":"/usr/lib/libshop.so.1","build_id":"abcdef01","offset":"0x\(String(offset, radix: 16))"}],\
            "free":[],"alloc":[]},"count":\(number),"pid":\(number),"program":"/bin/shop","time":"2026-11-\(day)T10:00:00Z",\
            "origin":{"host":"h\(number % 2)","version":"\(version)"}}
            """
        let finding = try #require(Finding(jsonLine: line))
        return try #require(
            ShippedFinding(
                finding, text: line, source: "h/f", line: number, written: Timestamp("2026-11-20")!,
                sender: ShippedFinding.Sender(host: "h")))
    }

    /// Returns a namer that names the library's frames by their offsets, as a symbolicator would.
    private func namer(_ names: [UInt64: String]) -> FindingNamer {
        FindingNamer { finding in
            var named = finding
            for index in named.stacks.access.indices {
                named.stacks.access[index].function = names[named.stacks.access[index].offset?.rawValue ?? 0]
            }
            if named.stacks != finding.stacks { named.renewSignature() }
            return named
        }
    }

    private func apply(_ names: [UInt64: String], to database: SQLiteFleet) throws -> Renaming.Result {
        let renaming = Renaming(database, tenant: tenant, namer: namer(names))
        try renaming.run()
        return renaming.result
    }

    private func numbers(_ database: SQLiteFleet, _ table: String) throws -> [String: Int64] {
        let rows = try database.query("SELECT signature, sum(findings) FROM \(table) GROUP BY signature")
        return Dictionary(uniqueKeysWithValues: rows.map { ($0[0].text ?? "", $0[1].integer) })
    }

    private func expectConsistent(_ database: SQLiteFleet, _ count: Int64) throws {
        let totals = try numbers(database, "zguard_totals")
        #expect(totals.values.reduce(0, +) == count)
        #expect(try numbers(database, "zguard_days") == totals && numbers(database, "zguard_hosts") == totals)
        let rows = try database.query(
            "SELECT signature, count(*) FROM zguard_findings WHERE occurrences > 0 GROUP BY signature")
        #expect(Dictionary(uniqueKeysWithValues: rows.map { ($0[0].text ?? "", $0[1].integer) }) == totals)
        #expect(
            try Set(database.query("SELECT signature FROM zguard_groups").map { $0[0].text ?? "" }) == Set(totals.keys))
    }

    @Test func bugsOfOneSignatureComeApart() throws {
        let database = try SQLiteFleet()
        let findings = try (1...6).map { try raw($0 % 3 == 0 ? 0x20 : 0x10, number: $0) }
        _ = try database.insert(findings)
        let old = try #require(numbers(database, "zguard_totals").keys.first)
        #expect(try numbers(database, "zguard_totals") == [old: 6])
        let result = try apply([0x10: "shop::add", 0x20: "shop::drop"], to: database)
        #expect(result.findings == 6 && result.before == [old] && result.after.count == 2)
        #expect(result.apart[old] == result.after)
        #expect(try numbers(database, "zguard_totals").values.sorted() == [2, 4])
        try expectConsistent(database, 6)
        // The findings are sent again with the old signature, and named again: nothing changes.
        #expect(try database.insert(findings) == 0)
        #expect(try apply([0x10: "shop::add", 0x20: "shop::drop"], to: database).findings == 0)
        try expectConsistent(database, 6)
        // The old signature leads to both new groups, frames keep their addresses, and searches find the names.
        let reader = FleetReader(database)
        #expect(try Set(reader.groups(signed: old).map(\.signature)) == result.after)
        var filter = FleetFilter()
        filter.words = ["shop::drop"]
        let found = try reader.groups(filter)
        #expect(found.count == 1 && found[0].findings == 2 && found[0].occurrences == 9)
        let frame = try #require(Finding(jsonLine: found[0].line)?.stacks.access.first)
        #expect(frame.offset == Address(0x20) && frame.buildID == "abcdef01" && frame.function == "shop::drop")
    }

    @Test func whatGetsNoNameStays() throws {
        let database = try SQLiteFleet()
        _ = try database.insert((1...4).map { try raw($0 % 2 == 0 ? 0x20 : 0x10, number: $0, version: "1.\($0)") })
        let old = try #require(numbers(database, "zguard_totals").keys.first)
        let result = try apply([0x20: "shop::drop"], to: database)
        let new = try #require(result.after.first)
        #expect(try numbers(database, "zguard_totals") == [old: 2, new: 2])
        try expectConsistent(database, 4)
        // The old group does not show a finding that has moved to the new group.
        let rows = try database.query("SELECT body FROM zguard_groups WHERE signature = $1", [.text(old)])
        #expect(rows.first?.first?.text?.contains("shop::drop") == false)
    }

    @Test func findingsWithNamesTakeThoseWithout() throws {
        let database = try SQLiteFleet()
        let names: [UInt64: String] = [0x10: "shop::add"]
        let rest = try raw(0x10, number: 1, version: "1.1")
        let named = try #require(namer(names).named(raw(0x10, number: 2).finding, signature: rest.signature))
        let line = named.jsonLine
        let first = try #require(
            ShippedFinding(
                named, text: line, source: "h/f", line: 1, written: Timestamp("2026-11-20")!,
                sender: ShippedFinding.Sender(host: "h")))
        _ = try database.insert([rest])
        let event = TriageEvent(.mute(until: nil), of: rest.signature, by: "anna")
        try database.add([event])
        let result = try apply(names, to: database)
        let signature = try #require(result.after.first)
        #expect(try FleetReader(database).triage()[signature]?.state == .muted)
        // A late finding without names is shown in the same group before it is named.
        _ = try database.insert([raw(0x10, number: 3, version: "0.9")])
        let group = try #require(try FleetReader(database).groups().first)
        #expect(group.signature == signature && group.findings == 2 && group.version == "0.9")
        _ = try apply(names, to: database)
        #expect(try numbers(database, "zguard_totals") == [signature: 2])
        #expect(try FleetReader(database).groups().first?.version == "0.9")
        #expect(first.formers.map(\.former).contains(rest.signature))
    }

    @Test func theOldestVersionStaysThoughItsFindingsArePruned() throws {
        let database = try SQLiteFleet()
        _ = try database.insert([
            raw(0x10, number: 1, version: "1.0", day: 10), raw(0x10, number: 2, version: "1.1", day: 20),
        ])
        try database.removeFindings(before: "2026-11-15")
        let result = try apply([0x10: "shop::add"], to: database)
        #expect(result.findings == 1)
        let group = try #require(try FleetReader(database).groups().first)
        #expect(group.version == "1.0" && group.first.day == "2026-11-10" && group.findings == 1)
        #expect(try numbers(database, "zguard_hosts") == [group.signature: 1])
        var filter = FleetFilter()
        filter.newSince = "1.1"
        #expect(try FleetReader(database).groups(filter).isEmpty)
    }

    @Test func countsOfAnEarlierVersionAreSubtracted() throws {
        let database = try SQLiteFleet()
        _ = try database.insert((1...4).map { try raw(0x10, number: $0) })
        let table = try database.findingsTable(of: "2026-11-10").replacing("zguard_findings", with: "zguard_days")
        if table != "zguard_days_other" {
            try database.execute("INSERT INTO zguard_days_other SELECT * FROM \(table); DELETE FROM \(table)")
        }
        _ = try database.insert((5...8).map { try raw($0 < 7 ? 0x10 : 0x20, number: $0) })
        #expect(try apply([0x10: "shop::add"], to: database).findings == 6)
        try expectConsistent(database, 8)
        #expect(try apply([0x20: "shop::drop"], to: database).findings == 2)
        try expectConsistent(database, 8)
    }

    @Test func groupsThatShowAFindingWithoutStacksAreNamed() throws {
        let database = try SQLiteFleet()
        _ = try database.insert([raw(0x10, number: 1).thinned])
        _ = try database.insert([raw(0x10, number: 2)])
        #expect(try apply([0x10: "shop::add"], to: database).findings == 1)
        try expectConsistent(database, 2)
    }

    // MARK: Files

    private func file(_ bytes: [UInt8]) throws -> Descriptor {
        let file = try UnnamedFile.make()
        try file.write(bytes: bytes)
        return file
    }

    private func entry(_ id: String, _ bytes: [UInt8], hasDebugInformation: Bool = true) -> SymbolStore.Entry {
        SymbolStore.Entry(
            buildID: id, kind: "debug", name: "a b\u{1b}.debug", size: Int64(bytes.count),
            hasDebugInformation: hasDebugInformation, time: Timestamp("2026-11-20")!)
    }

    private func expectKept(_ keeper: any SymbolKeeper, _ other: any SymbolKeeper) throws {
        // This file needs more than one database row, because random bytes cannot be compressed.
        let large = (0..<1_300_000).map { _ in UInt8.random(in: 0...255) }
        let small: [UInt8] = Array("other".utf8)
        #expect(try keeper.version() == nil && keeper.entries().isEmpty && keeper.open(.debug, buildID: "ab") == nil)
        try keeper.add(file(large), entry("ab", large))
        let version = try keeper.version()
        #expect(version != nil)
        #expect(try keeper.open(.debug, buildID: "ab")?.read(at: 0, upTo: 2_000_000) == large)
        #expect(keeper.open(.executable, buildID: "ab") == nil && keeper.open(.debug, buildID: "abcd") == nil)
        #expect(try keeper.has(file(large), as: entry("ab", large)) && !keeper.has(file(small), as: entry("ab", large)))
        #expect(other.open(.debug, buildID: "ab") == nil)
        #expect(try other.entries().isEmpty)
        try keeper.add(file(small), entry("ab", small, hasDebugInformation: false))
        #expect(try keeper.entries().map(\.size) == [5] && keeper.version() != version)
        #expect(try keeper.open(.debug, buildID: "ab")?.read(at: 0, upTo: 10) == small)
        try keeper.remove(keeper.entries())
        #expect(try keeper.entries().isEmpty && keeper.version() == nil)
    }

    @Test func databasesKeepFiles() throws {
        let database = try SQLiteFleet()
        try expectKept(SymbolTable(database, tenant: "red"), SymbolTable(database, tenant: "blue"))
    }

    @Test func directoriesKeepFiles() throws {
        var template = Array("/tmp/zguard-symbols-test-XXXXXX".utf8CString)
        let path = try String(cString: #require(mkdtemp(&template)))
        defer { _ = try? #require(system("rm -r '\(path)'") == 0) }
        try expectKept(
            SymbolDirectory(path, tenant: "red", toWrite: true), SymbolDirectory(path, tenant: "blue", toWrite: true))
    }

    @Test func damagedRowsNameNothing() throws {
        let database = try SQLiteFleet()
        let keeper = SymbolTable(database, tenant: "red")
        let bytes = (0..<1_300_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }
        try keeper.add(file(bytes), entry("ab", bytes))
        try database.execute("UPDATE zguard_symbol_parts SET content = x'1f8b0800' WHERE part = 0")
        #expect(keeper.open(.debug, buildID: "ab") == nil)
        try keeper.add(file(bytes), entry("ab", bytes))
        try database.execute("UPDATE zguard_symbols SET size = 100")
        #expect(keeper.open(.debug, buildID: "ab") == nil)
    }

    @Test func onlyFilesWithSymbolsAreTaken() throws {
        #expect(throws: SymbolUpload.Refusal.self) { try SymbolUpload("/etc/passwd") }
        #expect(throws: SymbolUpload.Refusal.self) { try SymbolUpload("/dev/null") }
        #expect(throws: SymbolUpload.Refusal.self) { try SymbolUpload("/tmp") }
        #expect(SymbolUpload.files(below: "/etc/passwd") == nil)
    }
}
