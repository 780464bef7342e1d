// Reading reports that are complete, damaged, huge, foreign, or still growing.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import ZombieGuardFleet

@Suite struct FindingReaderTests {
    private let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func entries(_ text: String) throws -> [FindingReader.Entry] {
        try entries(bytes: Array(text.utf8))
    }

    private func entries(bytes: [UInt8]) throws -> [FindingReader.Entry] {
        var reader = try FindingReader(opening: try scratch.file("report", bytes))
        var entries: [FindingReader.Entry] = []
        while let entry = try reader.next() ?? reader.finish() { entries.append(entry) }
        return entries
    }

    private let raw = """
        {"schema":"zguard.finding/1","kind":"write-after-free","access":"write","confidence":"exact","address":"0x7f10",\
        "block":{"start":"0x7f00","size":48,"offset":16,"state":"quarantined","language":"unknown","alloc_thread":1,\
        "free_thread":2},"thread":{"id":1,"name":"main"},"stacks":{"access":[],"free":[{"pc":"0x55d0","module":"/bin/x",\
        "build_id":"ab01","offset":"0x5d0"}],"alloc":[{"pc":"0x99"}]},"detail":{"offset":"16","new":"0x41","odd":null},\
        "count":1,"pid":9,"program":"/bin/x","time":"2026-01-02T03:04:05.678Z","signature":"","later":{"a":[1]}}
        """

    /// A process that may not read the clock writes the first second of 1970. A process whose clock is not set writes a
    /// later time of 1970.
    @Test(arguments: ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "1970-03-02T04:00:00Z"])
    func timeThatNoClockToldIsNone(_ time: String) throws {
        let plain =
            #"{"schema":"zguard.finding/1","kind":"leak","access":"none","confidence":"exact","stacks":{},"count":1,"#
        for line in [raw.replacing("2026-01-02T03:04:05.678Z", with: time), plain + #""time":"\#(time)"}"#] {
            guard case .finding(let finding, _)? = try entries(line + "\n").first else {
                Issue.record("no finding: \(line)")
                continue
            }
            #expect(finding.time == nil)
            let sender = ShippedFinding.Sender(host: "h")
            let written = try #require(Timestamp("2026-05-06T07:08:09Z"))
            let shipped = try #require(
                ShippedFinding(finding, text: line, source: "h/report", line: 1, written: written, sender: sender))
            #expect(shipped.day == "2026-05-06" && shipped.finding.lastSeen == "2026-05-06T07:08:09Z")
            // A reader of the shipped line gets the same id and day.
            let again = try #require(Finding(jsonLine: shipped.line))
            let later = try #require(
                ShippedFinding(again, text: shipped.line, source: "i/r", line: 7, written: .now, sender: sender))
            #expect(later.day == shipped.day && later.id == shipped.id)
            #expect(later.finding.lastSeen == shipped.finding.lastSeen)
        }
    }

    @Test func rawFindingIsReadWhole() throws {
        let finding = Finding(
            kind: .writeAfterFree, access: .write, address: Address(0x7f10),
            block: Finding.Block(
                start: Address(0x7f00), size: 48, offset: 16, state: "quarantined", language: "unknown",
                allocatingThread: 1, freeingThread: 2),
            thread: Finding.Thread(id: 1, name: "main"),
            stacks: Finding.Stacks(
                free: [
                    Finding.Frame(pc: Address(0x55d0), module: "/bin/x", buildID: "ab01", offset: Address(0x5d0))
                ], alloc: [Finding.Frame(pc: Address(0x99))]),
            processID: 9, program: "/bin/x", time: "2026-01-02T03:04:05.678Z", detail: ["offset": "16", "new": "0x41"])
        #expect(try entries(raw + "\n") == [.finding(finding, line: 1)])
    }

    @Test func missingBlockAndStacksAreFine() throws {
        let read = try entries(#"{"schema":"zguard.finding/1","kind":"null-access","block":null}"# + "\n")
        #expect(read == [.finding(Finding(kind: .nullAccess), line: 1)])
    }

    @Test func lastLineMayLackItsLineFeed() throws {
        guard case .finding(_, line: 1)? = try entries(raw).first else { return #expect(Bool(false), "no finding") }
    }

    static let broken: [(line: String, reason: String)] = [
        ("nonsense", "not a finding"),
        ("[1,2]", "not a finding"),
        (#"{"kind":"double-free"}"#, "no schema"),
        (
            #"{"schema":"zguard.finding/9","kind":5}"#,
            "schema 'zguard.finding/9' is not known to this version of zguard"
        ),
        (#"{"schema":"x\u001b[2J"}"#, #"schema 'x\u{1b}[2J' is not known to this version of zguard"#),
        (#"{"schema":"zguard.finding/1"}"#, "'kind' is missing"),
        (#"{"schema":"zguard.finding/1","kind":"x","count":"y"}"#, "'count' has a value of the wrong type"),
        (#"{"schema":"zguard.finding/1","kind":"x","address":"12"}"#, "'address' has a value of the wrong type"),
        (
            #"{"schema":"zguard.finding/1","kind":"x","stacks":{"free":[{"module":"m"}]}}"#,
            "'stacks.free[0].pc' is missing"
        ),
        (#"{"schema":"zguard.finding/1","kind":"x","pid":99999999999999999999}"#, "a value is out of range"),
    ]

    @Test(arguments: broken) func brokenLineIsSkippedAndNamed(row: (line: String, reason: String)) throws {
        let read = try entries("\n\(row.line)\n\(raw)\n")
        #expect(read.count == 2)
        #expect(read.first == .skipped(line: 2, reason: row.reason))
    }

    @Test func everyCutIsSkippedAndTheNextLineRead() throws {
        let whole = Array(raw.utf8)
        for length in stride(from: 1, to: whole.count, by: 7) {
            let cut: [UInt8] = whole[..<length] + [0x0a]
            let read = try entries(bytes: cut + whole + [0x0a])
            #expect(read.count == 2, "cut at \(length)")
            guard case .skipped(line: 1, _)? = read.first, case .finding(_, line: 2)? = read.last else {
                return #expect(Bool(false), "cut at \(length): \(read)")
            }
        }
    }

    @Test func cutOffEndIsSaidToBeCutOff() throws {
        #expect(try entries(String(raw.dropLast(10))) == [.skipped(line: 1, reason: "cut off")])
    }

    @Test func bytesThatAreNotUTF8AreReplaced() throws {
        let bytes =
            Array(#"{"schema":"zguard.finding/1","kind":"x","program":"/tmp/"#.utf8) + [0xff] + Array("\"}\n".utf8)
        guard case .finding(let finding, line: 1)? = try entries(bytes: bytes).first else {
            return #expect(Bool(false), "no finding")
        }
        #expect(finding.program == "/tmp/\u{fffd}")
    }

    static let odd: [(line: String, reason: String)] = [
        (String(repeating: "[", count: 100_000), "not a finding"),
        (
            #"{"schema":"zguard.finding/1","kind":"x","later":"# + String(repeating: "[", count: 100_000),
            "not a finding"
        ),
        (#"{"schema":"zguard.finding/1","kind":"x","count":9223372036854775808}"#, "a value is out of range"),
        (#"{"schema":"zguard.finding/1","kind":"x","count":1e999}"#, "a value is out of range"),
        (#"{"schema":"zguard.finding/1","kind":"x","count":1.5}"#, "a value is out of range"),
        (#"{"schema":"zguard.finding/1","kind":"x\u0000"#, "not a finding"),
        (#"{"schema":"zguard.finding/1""# + "\u{0}}", "it contains a NUL byte"),
        (#"{"schema":"zguard.finding/1","kind":"x","detail":{"a":"\ud800"}}"#, "not a finding"),
        (#"{"schema":"zguard.finding/1","kind":"x","count":01}"#, "not a finding"),
        (#"{"schema":"zguard.finding/1","kind":"x",}"#, "not a finding"),
        (#"{"schema":"zguard.finding/1","kind":"x","count":5.}"#, "not a finding"),
        (#"{"schema":"zguard.finding/1","kind":"x","code":6}"#, "'signal' is missing"),
        (#"{"schema":"zguard.finding/1","kind":"x","block":{"start":"0x1"}}"#, "'block.size' is missing"),
        (
            #"{"schema":"zguard.finding/1","kind":"x","registers":{"rip":5},"code":1}"#,
            "'registers.rip' has a value of the wrong type"
        ),
        (#"{"schema":5}"#, "not a finding"), (#"{"schema":null}"#, "no schema"), ("null", "not a finding"),
        ("\u{7f}ELF\u{2}", "not a finding"),
        (#"{"schema":"zguard.finding/1","kind":"x","block":{"start":"0x1","size":-1}}"#, "a value is out of range"),
        (
            #"{"schema":"zguard.finding/1","kind":"x","stacks":{"access":[{"pc":"0x1ffffffffffffffff"}]}}"#,
            "'stacks.access[0].pc' has a value of the wrong type"
        ),
    ]

    @Test(arguments: odd) func oddLineIsSkippedAndNamed(row: (line: String, reason: String)) throws {
        let read = try entries("\(row.line)\n\(raw)\n")
        #expect(read.count == 2)
        #expect(read.first == .skipped(line: 1, reason: row.reason))
    }

    private func finding(_ rest: String) throws -> Finding? {
        guard
            case .finding(let finding, line: 1)? = try entries(
                #"{"schema":"zguard.finding/1","kind":"x""# + rest + "}\n"
            ).first
        else {
            return nil
        }
        return finding
    }

    @Test func countsAreWhatCanBeCounted() throws {
        #expect(try finding(#","count":-5"#)?.count == 1)
        #expect(try finding(#","count":0"#)?.count == 1)
        #expect(try finding(#","count":9223372036854775807"#)?.count == .max)
    }

    @Test func detailsNeedNotBeTexts() throws {
        let detail = try finding(#","detail":{"a":"b","n":-5,"f":1.5,"t":true,"no":null,"list":[1],"map":{"x":"y"}}"#)?
            .detail
        #expect(detail == ["a": "b", "n": "-5", "f": "1.5", "t": "true"])
    }

    @Test func textsMayHaveAllEscapes() throws {
        let read = try finding(#","program":"\u0041\ud83d\ude00\b\f\n\r\t\/","detail":{"a \"b\"":"\\"}"#)
        #expect(read?.program == "A😀\u{8}\u{c}\n\r\t/" && read?.detail == ["a \"b\"": "\\"])
    }

    @Test func numbersMayHaveExponents() throws {
        #expect(try finding(#","count":1e3,"pid":20.0"#)?.count == 1000)
        #expect(try finding(#","block":{"start":"0x1","size":18446744073709551615}"#)?.block?.size == .max)
    }

    @Test func aKeyThatStandsTwiceHasOneOfItsValues() throws {
        let count = try finding(#","count":3,"count":4"#)?.count
        #expect(count == 3 || count == 4)
    }

    @Test func lineEndsAndMarksOfOtherSystemsAreRead() throws {
        #expect(try entries("\u{feff}\(raw)\r\n\r\n\(raw)\r\n").count == 2)
        #expect(try entries("\u{feff}\(raw)\r\n").first == entries(raw).first)
        let wide = Array("\u{feff}\(raw)\n".utf16)
        for bytes in [
            wide.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }, wide.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] },
        ] {
            #expect(try entries(bytes: bytes).first == .skipped(line: 1, reason: "UTF-16; reports must be UTF-8"))
        }
    }

    @Test func linesOfTheTimelineAreNoGarbage() throws {
        let sample = #"{"schema":"zguard.timeline/1","time":"2026-01-02T03:04:05.678Z","pid":7,"live_bytes":5}"#
        let read = try entries("\(sample)\n\(raw)\n{\"schema\":\"zguard.timeline/1\"}\n\(sample)")
        let expected = try #require(TimelineSample(jsonLine: sample))
        #expect(
            read.count == 4 && read.first == .timeline(expected, line: 1) && read.last == .timeline(expected, line: 4))
        #expect(read[2] == .skipped(line: 3, reason: "not a sample of the heap"))
    }

    @Test func thousandsOfFramesAreRead() throws {
        let frames = repeatElement(#"{"pc":"0x1"}"#, count: 80_000).joined(separator: ",")
        #expect(try finding(#","stacks":{"alloc":[\#(frames)]}"#)?.stacks.alloc.count == 80_000)
    }

    @Test func hugeLineIsSkippedWithoutBeingKept() throws {
        let huge = [UInt8](repeating: 0x61, count: LineReader.longestLine * 3)
        let read = try entries(bytes: huge + [0x0a] + Array(raw.utf8))
        #expect(read.count == 2)
        #expect(read.first == .skipped(line: 1, reason: "longer than \(LineReader.longestLine) bytes"))
    }

    @Test func manyFindingsAreReadInOrder() throws {
        let line = #"{"schema":"zguard.finding/1","kind":"double-free","pid":"#
        let text = (0..<5000).map { "\(line)\($0)}\n" }.joined()
        let processes = try entries(text).map { entry -> Int? in
            if case .finding(let finding, _) = entry { finding.processID } else { nil }
        }
        #expect(processes == (0..<5000).map { $0 })
    }

    @Test func growingFileIsFollowed() throws {
        let path = try scratch.file("growing", [])
        var reader = try FindingReader(opening: path)
        let writer = try Descriptor(opening: path, flags: O_WRONLY | O_APPEND)
        #expect(try reader.next() == nil)
        try writer.write(String(raw.prefix(40)))
        #expect(try reader.next() == nil)
        try writer.write(String(raw.dropFirst(40)) + "\n")
        guard case .finding(_, line: 1)? = try reader.next() else { return #expect(Bool(false), "no finding") }
        #expect(try reader.next() == nil)
        #expect(reader.finish() == nil)
    }

    @Test func unreadableFilesAreErrors() throws {
        #expect(throws: SystemError(number: ENOENT)) { try FindingReader(opening: scratch.path + "/none") }
        #expect(throws: SystemError(number: EISDIR)) { try FindingReader(opening: scratch.path) }
    }

    @Test func writtenFindingIsReadBackEqual() throws {
        var finding = Finding.sample()
        finding.detail = ["what": "a \"quoted\"\nline \u{1b}[31m \u{7f}"]
        finding.signature = finding.computeSignature()
        #expect(try entries(finding.jsonLine + "\n") == [.finding(finding, line: 1)])
        #expect(!finding.jsonLine.utf8.contains { $0 < 0x20 || $0 == 0x7f })
        finding.detail = ["what": "\u{202e}gnp.\u{2028} \u{9b}31m \u{e0041} Größe 漢字"]
        #expect(try entries(finding.jsonLine + "\n") == [.finding(finding, line: 1)])
        #expect(visible(finding.jsonLine) == finding.jsonLine && finding.jsonLine.contains("Größe 漢字"))
    }
}
