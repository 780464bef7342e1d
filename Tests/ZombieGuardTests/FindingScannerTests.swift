// The scanner gives the same findings as the decoder; digests and days of findings that are shipped.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct FindingScannerTests {
    /// Lines that are read without the decoder.
    private static let usual = [
        """
        {"schema":"zguard.finding/1","kind":"write-after-free","access":"write","confidence":"exact","address":"0x7f10",\
        "block":{"start":"0x7f00","size":48,"offset":-16,"state":"quarantined","language":"c++","alloc_thread":1,"free_thread":2,\
        "class_symbol":"4Cart","member_frame":{"pc":"0x10","module":"/bin/x","offset":"0x1"},"bases":["A","B"],\
        "next":[{"access":"call","member_frame":{"pc":"0xfFfF"},"confidence":"inferred"},{"access":"read","member":"total"}]},\
        "thread":{"id":1,"name":"main"},"stacks":{"access":[],"free":[{"pc":"0x55d0","module":"/bin/x","build_id":"ab01",\
        "offset":"0x5d0","function":"f()","file":"/s/f.c","line":3,"column":0,"inlined":true}],"alloc":[{"pc":"0x99","inlined":false}],\
        "previous":[{"pc":"0x1"}],"thrown":[{"pc":"0x2"}]},"history":[],"count":3,"pid":9,"program":"/bin/\\u00e4 \\"x\\" \\\\ \\/ \\n\\t","time":"2026-01-02T03:04:05.678Z",\
        "first_seen":"2026-01-01T00:00:00Z","last_seen":null,"signature":"","detail":{"offset":"16","new":"0x41"},\
        "origin":{"id":"00","host":"ä","version":null,"tenant":"t"}}
        """,
        " { \"schema\" : \"zguard.finding/1\" ,\t\"kind\":\"crash\" , \"stacks\" : { } , \"block\":null, \"count\": 0 } ",
    ]

    private func decoded(_ line: String) -> Finding? {
        try? JSONDecoder().decode(Finding.self, from: Data(line.utf8))
    }

    @Test func usualLinesNeedNoDecoder() throws {
        for var line in Self.usual {
            let finding = try #require(FindingScanner.finding(&line))
            #expect(finding == decoded(line))
        }
    }

    @Test(arguments: [
        "", "{}", "[]", "null", #"{"schema":"zguard.finding/1"}"#, #"{"schema":"zguard.finding/2","kind":"crash"}"#,
        #"{"schema":"zguard.finding/1","kind":"crash"}}"#, #"{"schema":"zguard.finding/1","kind":"crash","kind":"x"}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","later":1}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","count":1.5}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","count":1e3}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","count":01}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","count":9999999999999999999}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","program":"\ud83d\ude00"}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","address":"0x11112222333344445"}"#,
        #"{"schema":"zguard.finding/1","kind":"crash","code":6,"signal":"SIGABRT"}"#,
        #"{"schema":"zguard.finding/1","kind":"crash""#,
    ])
    func whatIsUnusualIsLeftToTheDecoder(line: String) {
        var line = line
        #expect(FindingScanner.finding(&line) == nil)
    }

    @Test func neverReadsAnythingElseThanTheDecoder() {
        var generator = SplitMix(state: 23)
        let signs = Array("\"\\{}[]:,0123456789.eE-+ntfu \t\u{1}ä".utf8)
        var read = 0
        for turn in 0..<20_000 {
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
            guard let finding = FindingScanner.finding(&line) else { continue }
            read += 1
            #expect(finding == decoded(line), "\(line)")
        }
        #expect(read > 500)
    }

    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9e37_79b9_7f4a_7c15
            var mixed = state
            mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            return mixed ^ mixed >> 31
        }
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
