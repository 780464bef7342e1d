// The table of a finding's keys: reads and writes what Foundation reads, and has the keys of the schema.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct FindingFieldsTests {
    private static let usual = [
        """
        {"schema":"zguard.finding/1","kind":"write-after-free","access":"write","confidence":"exact","address":"0x7f10",\
        "block":{"start":"0x7f00","size":48,"offset":-16,"state":"quarantined","language":"c++","alloc_thread":1,"free_thread":2,\
        "class_symbol":"4Cart","member_frame":{"pc":"0x10","module":"/bin/x","offset":"0x1"},"bases":["A","B"],\
        "next":[{"access":"call","member_frame":{"pc":"0xffff"},"confidence":"inferred"},{"access":"read","member":"total"}]},\
        "thread":{"id":1,"name":"main"},"stacks":{"access":[],"free":[{"pc":"0x55d0","module":"/bin/x","build_id":"ab01",\
        "offset":"0x5d0","function":"f()","file":"/s/f.c","line":3,"column":0,"inlined":true}],"alloc":[{"pc":"0x99","inlined":false}],\
        "previous":[{"pc":"0x1"}],"thrown":[{"pc":"0x2"}]},"history":[],"count":3,"pid":9,"program":"/bin/\\u00e4 \\"x\\" \\\\ \\/ \\n\\t","time":"2026-01-02T03:04:05.678Z",\
        "first_seen":"2026-01-01T00:00:00Z","last_seen":null,"signature":"","detail":{"offset":"16","new":"0x41"},\
        "origin":{"id":"00","host":"ä","version":null,"tenant":"t"}}
        """,
        " { \"schema\" : \"zguard.finding/1\" ,\t\"kind\":\"crash\" , \"stacks\" : { } , \"block\":null, \"count\": 0 } ",
        """
        {"schema":"zguard.finding/1","kind":"stall","signal":"SIGABRT","code":-6,"message":"m","registers":{"rip":"0x1"},\
        "annotations":{"k":"v"},"threads":[{"id":null,"tid":7,"faulted":true,"stack":[{"pc":"0x3"}]}],"duration_ms":250,\
        "occurrences":2,"samples":3,"freeze":true,"computing":false,"call":"poll","holder":{"tid":8,"stack":[]},\
        "sampled":[{"count":2,"stack":[{"pc":"0x4"}]}],"history":[{"event":"retain","strong":1,"thread":1,"stack":[]}],\
        "holders":[{"where":"field","class":"Shop.Feed","member":"listener","block":{"start":"0x1","size":8,"offset":0},\
        "stacks":{"alloc":[{"pc":"0x6"}]},"typed":true,"count":2},{"where":"global","symbol":"g","frame":{"pc":"0x5"},\
        "typed":false,"count":1},{"where":"stack","thread":{"id":2,"name":"w"}}],\
        "author":"1000","later":[{"a":[1.5e3,true,null]}]}
        """,
    ]

    private typealias Object = [String: Any]

    private func foundation(_ line: String) -> Object? {
        (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? Object
    }

    // Returns whether the finding has the values that Foundation has read.
    private func isEqual(_ finding: Finding, _ object: Object) -> Bool {
        func frames(_ value: Any?) -> [String] {
            (value as? [Object] ?? []).map { frame in
                let line = (frame["line"] as? NSNumber).map { "\($0.int64Value)" } ?? "-"
                let pc = (frame["pc"] as? String).flatMap { Address($0) }?.description ?? "?"
                return "\(pc) \((frame["function"] as? String).flatMap { $0.isEmpty ? nil : $0 } ?? "-") \(line)"
            }
        }
        func frames(of stack: [Finding.Frame]) -> [String] {
            stack.map { "\($0.pc) \($0.function ?? "-") \($0.line.map { "\($0)" } ?? "-")" }
        }
        let stacks = object["stacks"] as? Object ?? [:]
        let block = object["block"] as? Object
        return finding.kind.rawValue == object["kind"] as? String && finding.program == object["program"] as? String
            && finding.count == max(1, (object["count"] as? NSNumber)?.intValue ?? 1)
            && finding.processID == (object["pid"] as? NSNumber)?.intValue
            && frames(of: finding.stacks.access) == frames(stacks["access"])
            && frames(of: finding.stacks.free) == frames(stacks["free"])
            && frames(of: finding.stacks.alloc) == frames(stacks["alloc"])
            && finding.block?.start == (block?["start"] as? String).flatMap { Address($0) }
            && finding.block?.size == (block?["size"] as? NSNumber)?.uint64Value
            && finding.block?.offset == (block?["offset"] as? NSNumber)?.int64Value
            && finding.thread?.name == (object["thread"] as? Object)?["name"] as? String
            && finding.crash?.message == (object["code"] == nil ? nil : object["message"] as? String)
            && finding.stall?.call == (object["duration_ms"] == nil ? nil : object["call"] as? String)
            && finding.origin?.host == (object["origin"] as? Object)?["host"] as? String
    }

    @Test func wholeLinesAreReadLikeFoundation() throws {
        for line in Self.usual {
            let finding = try Finding(parsing: line)
            #expect(isEqual(finding, try #require(foundation(line))))
            #expect(try Finding(parsing: finding.jsonLine).jsonLine == finding.jsonLine)
        }
    }

    @Test func whatIsWrittenIsReadBack() throws {
        var finding = try Finding(parsing: Self.usual[2])
        #expect(finding.crash?.code == -6 && finding.stall?.holder?.threadID == 8 && finding.history.count == 1)
        #expect(try Finding(parsing: finding.jsonLine) == finding)
        finding = try Finding(parsing: Self.usual[0])
        #expect(finding.block?.next.count == 2 && finding.block?.bases == ["A", "B"])
        // The keys of raw findings are not written.
        finding.block?.next = []
        finding.block?.bases = []
        finding.block?.classSymbol = nil
        finding.block?.memberFrame = nil
        #expect(try Finding(parsing: finding.jsonLine) == finding)
    }

    /// Of randomly changed lines, the scanner accepts those that Foundation accepts. Findings have the values that
    /// Foundation reads.
    @Test func randomLinesAreReadLikeFoundation() {
        var generator = SeededGenerator(seed: 23)
        let signs = Array("\"\\{}[]:,0123456789.eE-+ntfu \t\u{1}ä".utf8)
        var (read, refused) = (0, 0)
        for turn in 0..<30_000 {
            var bytes = Array(Self.usual[turn % Self.usual.count].utf8)
            for _ in 0..<(1 + turn % 3) {
                let place = Int(generator.next() % UInt64(bytes.count))
                switch generator.next() % 4 {
                case 0: bytes.remove(at: place)
                case 1: bytes.insert(signs[Int(generator.next() % UInt64(signs.count))], at: place)
                case 2: bytes.swapAt(place, Int(generator.next() % UInt64(bytes.count)))
                default: bytes[place] = signs[Int(generator.next() % UInt64(signs.count))]
                }
            }
            var line = String(decoding: bytes, as: UTF8.self)
            let object = foundation(line)
            // Foundation accepts a comma at the end of an object or array, which RFC 8259 does not.
            let ends = line.replacing(" ", with: "")
            if !ends.contains(",}") && !ends.contains(",]") {
                let isObject = (try? JSONScanner.read(&line, WholeObject.read)) != nil
                #expect(isObject == (object != nil), "\(line)")
            }
            guard let finding = try? Finding(parsing: line) else {
                refused += 1
                continue
            }
            read += 1
            if let object { #expect(isEqual(finding, object), "\(line)") }
        }
        #expect(read > 3000 && refused > 3000)
    }

    /// An object of which all keys are skipped.
    private struct WholeObject: JSONObject {
        static let blank = WholeObject()
        static let fields = JSONFields<WholeObject>([])
    }

    // MARK: The schema

    private func compare<Root>(_ fields: JSONFields<Root>, _ schema: Object?, _ name: String) {
        let properties = schema?["properties"] as? Object ?? [:]
        let written = fields.all.filter { $0.write != nil }.map(\.key.description)
        #expect(Set(written) == Set(properties.keys), "keys of \(name)")
        let required = schema?["required"] as? [String] ?? []
        let needed = fields.all.filter(\.isNeeded).map(\.key.description)
        #expect(Set(needed).isSubset(of: required), "needed keys of \(name)")
        #expect(Set(required).isSubset(of: written), "required keys of \(name)")
    }

    @Test func tablesHaveTheKeysOfTheSchema() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("docs/finding.schema.json")
        let schema = try #require(JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? Object)
        let parts = try #require(schema["$defs"] as? Object)
        let properties = try #require(schema["properties"] as? Object)
        compare(Finding.allFields, schema, "finding")
        compare(Finding.Block.fields, parts["block"] as? Object, "block")
        compare(Finding.Thread.fields, parts["thread"] as? Object, "thread")
        compare(Finding.Stacks.fields, properties["stacks"] as? Object, "stacks")
        compare(Finding.Frame.fields, parts["frame"] as? Object, "frame")
        compare(Finding.ThreadStack.fields, parts["threadStack"] as? Object, "threadStack")
        compare(Finding.RefCountChange.fields, parts["countChange"] as? Object, "countChange")
        compare(Finding.Origin.fields, parts["origin"] as? Object, "origin")
        let sampled = (properties["sampled"] as? Object)?["items"] as? Object
        compare(Finding.Stall.Sampled.fields, sampled, "sampled")
        let holder = (properties["holders"] as? Object)?["items"] as? Object
        compare(Finding.Holder.fields, holder, "holder")
    }

    @Test func daysAreThoseOfTimes() {
        for day in stride(from: Int64(-106_751), to: 106_751, by: 13) {
            for second in [Int64(0), 86_399] {
                let time = Timestamp(rawValue: (day * 86400 + second) * 1_000_000_000)
                #expect(time.day == String(time.description.prefix(10)))
            }
        }
    }
}
