// Compressed reports that are damaged, truncated, or made to exhaust memory.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct ReportStoreGzipTests {
    private let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func gzip(_ bytes: some Sequence<UInt8>) throws -> [UInt8] {
        let source = try Descriptor(opening: scratch.file("source", bytes))
        let path = try scratch.file("target", [])
        try GzipWriter.compress(source, to: Descriptor(opening: path, flags: O_WRONLY | O_TRUNC))
        return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private func read(_ compressed: [UInt8], mostBytes: UInt64 = GzipSource.mostBytes) throws -> ([UInt8], String?) {
        let source = GzipSource(file: try Descriptor(opening: scratch.file("in", compressed)), mostBytes: mostBytes)
        var all: [UInt8] = []
        while true {
            let part = try source.read(upTo: 1000)
            #expect(part.count <= 1000)
            if part.isEmpty { break }
            all += part
        }
        #expect(try source.read(upTo: 1000).isEmpty)
        return (all, source.problem)
    }

    @Test(arguments: [0, 1, 999, 65536, 65537, 3_000_000]) func roundTrip(count: Int) throws {
        var state: UInt64 = 1
        let bytes = (0..<count).map { index -> UInt8 in
            state = state &* 6_364_136_223_846_793_005 &+ 1
            return index.isMultiple(of: 3) ? UInt8(state >> 56) : 0x20
        }
        let (result, problem) = try read(gzip(bytes))
        #expect(result == bytes && problem == nil)
    }

    @Test func gunzipReadsIt() throws {
        let text = String(repeating: "a line\n", count: 100_000)
        let path = try scratch.file("x.gz", gzip(text.utf8))
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "gzip -dc \(path) | cksum; gzip -t \(path)"]
        process.standardOutput = pipe
        try process.run()
        let output = String(decoding: try #require(try pipe.fileHandleForReading.readToEnd()), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0 && output.contains(" \(text.utf8.count)\n"))
    }

    @Test func severalMembers() throws {
        let one = try gzip("one\n".utf8)
        let two = try gzip("two\n".utf8)
        let none = try gzip([])
        let (result, problem) = try read(one + none + two + none)
        #expect(result == Array("one\ntwo\n".utf8) && problem == nil)
    }

    @Test func cutOffAnywhere() throws {
        let text = Array((0..<2000).flatMap { "line \($0 * 7919)\n".utf8 })
        let whole = try gzip(text)
        for count in stride(from: 2, to: whole.count, by: 37) {
            let (result, problem) = try read(Array(whole[..<count]))
            #expect(text.starts(with: result) && problem == "its compressed data is cut off", "\(count)")
        }
    }

    @Test func damagedAnywhere() throws {
        let text = Array((0..<2000).flatMap { "line \($0 * 7919)\n".utf8 })
        let whole = try gzip(text)
        // The checksum does not cover the header's flags, time and system: skip the header.
        for position in stride(from: 10, to: whole.count, by: 41) {
            var damaged = whole
            damaged[position] ^= 0x55
            let (result, problem) = try read(damaged)
            #expect(problem != nil && result.count <= 1 << 25, "\(position)")
        }
        #expect(try read(whole + Array("garbage behind it".utf8)).1 == "its compressed data is damaged")
        #expect(try read([0x1f, 0x8b]).1 == "its compressed data is cut off")
        #expect(try read([0x1f, 0x8b, 0xff, 0xff, 0xff]).1 == "its compressed data is damaged")
    }

    @Test func bombIsStopped() throws {
        let zeroes = try gzip([UInt8](repeating: 0, count: 20_000_000))
        #expect(zeroes.count < 30_000)
        let (result, problem) = try read(zeroes, mostBytes: 1_000_000)
        #expect(result.count == 1_000_000 && problem == "it holds more than 1000000 bytes, and no more are read")
        #expect(try read(gzip([UInt8](repeating: 1, count: 1000)), mostBytes: 1000).1 == nil)
        let bomb = try read(zeroes + zeroes + zeroes, mostBytes: 50_000_000)
        #expect(bomb.0.count == 50_000_000 && bomb.1 != nil)
    }

    @Test func linesOfABombAreNotKept() throws {
        let line = Finding.sample().jsonLine
        let bytes =
            Array((line + "\n").utf8) + [UInt8](repeating: 0x20, count: 30_000_000) + Array(("\n" + line + "\n").utf8)
        var reader = FindingReader(file: try Descriptor(opening: scratch.file("in.jsonl.gz", gzip(bytes))))
        var entries: [FindingReader.Entry] = []
        while let entry = try reader.next() ?? reader.finish() { entries.append(entry) }
        #expect(
            entries.count == 3 && entries[1] == .skipped(line: 2, reason: "longer than \(LineReader.longestLine) bytes")
        )
        #expect(reader.problem == nil)
    }

    @Test func contentsDecideNotTheName() throws {
        let line = Finding.sample().jsonLine + "\n"
        for (name, bytes) in [("plain.gz", Array(line.utf8)), ("compressed.jsonl", try gzip(line.utf8))] {
            var reader = try FindingReader(opening: scratch.file(name, bytes))
            guard case .finding? = try reader.next() else {
                Issue.record("\(name) is not read")
                return
            }
        }
        var empty = try FindingReader(opening: scratch.file("empty.gz", []))
        #expect(try empty.next() == nil && empty.problem == nil)
    }
}
