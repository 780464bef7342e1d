// Reading reports that are whole, broken, huge, foreign or still growing.

import Foundation
import Testing

@testable import ZombieGuard

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
            "'stacks.free.Index 0.pc' is missing"
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
            let read = try entries(bytes: whole[..<length] + [0x0a] + whole + [0x0a])
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
    }

    @Test func bothEncodersWriteTheSame() throws {
        let finding = Finding.sample()
        let decoder = JSONDecoder()
        let encoded = try JSONEncoder().encode(finding)
        #expect(try decoder.decode(Finding.self, from: encoded) == finding)
        let one = try JSONSerialization.jsonObject(with: encoded) as? NSDictionary
        let other = try JSONSerialization.jsonObject(with: Data(finding.jsonLine.utf8)) as? NSDictionary
        #expect(one != nil && one == other)
    }
}
