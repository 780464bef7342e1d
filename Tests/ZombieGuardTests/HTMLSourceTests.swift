// Source excerpts: the files that are read, and how their lines are shown.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HTMLSourceTests {
    @Test func linesAroundALine() throws {
        let scratch = try Scratch()
        let path = try scratch.file("a.c", "one\r\ntwo\n\tthree\nfour\nfive".utf8)
        let sources = SourceExcerpts()
        #expect(
            sources.excerpt(of: path, by: .own, line: 3)
                == SourceExcerpt(first: 1, marked: 3, lines: ["one", "two", "    three", "four", "five"]))
        #expect(
            sources.excerpt(of: path, by: .own, line: 1, context: 1)
                == SourceExcerpt(first: 1, marked: 1, lines: ["one", "two"]))
        #expect(sources.excerpt(of: path, by: .own, line: 5, context: 0)?.lines == ["five"])
        #expect(sources.excerpt(of: path, by: .own, line: 5, context: .max)?.lines.count == 5)
        for line in [0, -1, 6, .max, .min] { #expect(sources.excerpt(of: path, by: .own, line: line) == nil) }
        // The file is read only once: later changes do not matter.
        try FileManager.default.removeItem(atPath: path)
        #expect(sources.excerpt(of: path, by: .own, line: 4)?.marked == 4)
        #expect(SourceExcerpts().excerpt(of: path, by: .own, line: 4) == nil)
    }

    @Test func strangeLinesAreMadeHarmless() throws {
        let scratch = try Scratch()
        let long = String(repeating: "x", count: 100_000)
        let path = try scratch.file("a.swift", "a\tb\u{1b}[31m\u{202e}\n\(long)\n".utf8 + [0xff, 0xfe, 0x41, 0x0a])
        let lines = try #require(SourceExcerpts().excerpt(of: path, by: .own, line: 2, context: 1)).lines
        #expect(lines[0] == "a   b\\u{1b}[31m\\u{202e}")
        #expect(lines[1] == String(repeating: "x", count: SourceExcerpts.longestLine) + "…")
        #expect(lines[2] == "\u{fffd}\u{fffd}A")
    }

    @Test func onlyRegularFilesOfSourceCodeAreRead() throws {
        let scratch = try Scratch()
        let sources = SourceExcerpts()
        let text = "line\n".utf8
        #expect(sources.excerpt(of: try scratch.file("a.C", text), by: .own, line: 1) != nil)
        for name in ["key", "id_rsa.pem", ".c", "a.c.bak", "notes.txt", "config.php", ".env"] {
            #expect(sources.excerpt(of: try scratch.file(name, text), by: .own, line: 1) == nil, "\(name)")
        }
        #expect(sources.excerpt(of: try scratch.file("zero.c", [0x61, 0, 0x0a]), by: .own, line: 1) == nil)
        #expect(sources.excerpt(of: try scratch.file("empty.c", []), by: .own, line: 1) == nil)
        #expect(
            sources.excerpt(of: try scratch.file("secret.c", text, mode: 0o200), by: .own, line: 1) == nil
                || getuid() == 0)

        let fifo = "\(scratch.path)/fifo.c"
        try #require(mkfifo(fifo, 0o600) == 0)
        #expect(sources.excerpt(of: fifo, by: .own, line: 1) == nil) // does not block on the FIFO
        let directory = "\(scratch.path)/folder.c"
        try #require(mkdir(directory, 0o700) == 0)
        #expect(sources.excerpt(of: directory, by: .own, line: 1) == nil)
        let device = "\(scratch.path)/device.c"
        try #require(symlink("/dev/zero", device) == 0)
        #expect(sources.excerpt(of: device, by: .own, line: 1) == nil)
        let large = "\(scratch.path)/large.c"
        let file = try Descriptor(opening: large, flags: O_CREAT | O_WRONLY, mode: 0o600)
        try #require(ftruncate(file.number, off_t(SourceExcerpts.largestFile + 1)) == 0)
        #expect(sources.excerpt(of: large, by: .own, line: 1) == nil)
        #expect(sources.excerpt(of: "../a.c", by: .own, line: 1) == nil)
    }

    @Test func fileThatIsNewerThanTheProgramSaysSo() throws {
        let scratch = try Scratch()
        let source = try scratch.file("a.c", "line\n".utf8)
        let program = try scratch.file("program", "x".utf8)
        func date(_ path: String, _ seconds: Int) throws {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: Double(seconds))], ofItemAtPath: path)
        }
        let frame = Finding.Frame(pc: Address(1), module: program, function: "f", file: source, line: 1)
        try date(source, 1000)
        try date(program, 2000)
        #expect(SourceExcerpts().excerpt(for: frame, by: .own)?.isNewerThanProgram == false)
        try date(source, 3000)
        #expect(SourceExcerpts().excerpt(for: frame, by: .own)?.isNewerThanProgram == true)
        var elsewhere = frame
        elsewhere.module = "/nowhere"
        #expect(SourceExcerpts().excerpt(for: elsewhere, by: .own)?.isNewerThanProgram == false)
        elsewhere.line = nil
        #expect(SourceExcerpts().excerpt(for: elsewhere, by: .own) == nil)
    }
}
