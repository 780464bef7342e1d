// Tests how the line of a Python instruction is found.

import Testing

@testable import ZombieGuard

@Suite struct PythonLinesTests {
    // A co_linetable of CPython 3.11, and the result of co_lines() for it: (start, end, line).
    private static let table: [UInt8] = [
        0x80, 0x00, 0xe0, 0x08, 0x09, 0xe0, 0x08, 0x09, 0xd8, 0x08, 0x09, 0xf1, 0x03, 0x01, 0x09, 0x0a, 0xf0, 0x07,
        0x06,
        0x0c, 0x06, 0xf0, 0x0a, 0x00, 0x0a, 0x1a, 0xd0, 0x09, 0x19, 0x90, 0x53, 0xd0, 0x09, 0x19, 0xd1, 0x09, 0x19,
        0xd4,
        0x09, 0x19, 0xf0, 0x0b, 0x06, 0x0c, 0x06, 0xf0, 0x00, 0x06, 0x05, 0x06,
    ]

    @Test(
        arguments: [
            (0, 1), (2, 3), (4, 5), (6, 6), (8, 5), (10, 5), (12, 2), (14, 7), (20, 7), (24, 7), (34, 7), (36, 2),
            (38, 2),
        ])
    func lineOfInstruction(instruction: Int, line: Int) {
        #expect(PythonLines(first: 1, table: Self.table).line(of: instruction) == line)
    }

    @Test func behindTheTable() {
        #expect(PythonLines(first: 1, table: Self.table).line(of: 40) == nil)
        #expect(PythonLines(first: 1, table: []).line(of: 0) == nil)
    }

    @Test func withoutALine() {
        #expect(PythonLines(first: 9, table: [0xf8]).line(of: 0) == nil)
    }

    @Test func damagedTables() {
        // Unterminated varints, and line numbers that overflow.
        for byte: UInt8 in [0x7f, 0xf7, 0xff, 0x40, 0xef] {
            let table = [UInt8](repeating: byte, count: 300)
            for first in [1, .max] { _ = PythonLines(first: first, table: table).line(of: 100_000) }
        }
    }
}
