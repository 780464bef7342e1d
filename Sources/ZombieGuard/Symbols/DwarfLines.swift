// The line table of a unit: which address came from which line.

import CDwarf

/// Where the code of a line table lies, and the rows of what was asked for. A large unit has a hundred thousand rows, of
/// which only those beside an address are kept.
final class DwarfLines {
    struct Row {
        var address: UInt64
        var file: UInt64
        var line: Int
        var column: Int
    }

    /// Code that lies together, by address.
    private struct Sequence {
        var start: UInt64
        var end: UInt64
        /// Where its instructions begin.
        var program: Int
    }

    private let program: DwarfLineProgram
    private var sequences: [Sequence] = []
    private var files: DwarfLineFiles
    // Rows of sequences, by where their instructions begin.
    private var rowsByProgram: [Int: [DwarfLineProgram.Row]] = [:]
    private var keptRows = 0

    private static let mostRows = 1 << 22

    /// Reads the table that begins at an offset of .debug_line; nil where there is none that can be read.
    init?(_ unit: DwarfUnit, at offset: UInt64) {
        let section = unit.file.lines
        var cursor = ByteCursor(section, at: offset)
        var length = UInt64(cursor.number(UInt32.self))
        var offsetSize: UInt8 = 4
        if length == 0xffff_ffff {
            length = cursor.number()
            offsetSize = 8
        }
        guard !cursor.failed, length <= UInt64(section.count) - cursor.position else { return nil }
        cursor = ByteCursor(section, at: cursor.position, end: cursor.position + length)
        let version: UInt16 = cursor.number()
        guard (2...5).contains(version) else { return nil }
        if version == 5 { cursor.skip(2) } // sizes of addresses and segments
        let headerLength = cursor.number(bytes: Int(offsetSize))
        let (start, overflow) = cursor.position.addingReportingOverflow(headerLength)
        guard !overflow, start <= UInt64(cursor.end) else { return nil }
        let end = UInt64(cursor.end)
        let program = DwarfLineProgram(&cursor, version: version) { _ in ByteCursor(section, at: start, end: end) }
        guard let program else { return nil }
        self.program = program
        files = DwarfLineFiles(
            unit, ByteCursor(section, at: cursor.position, end: start),
            DwarfEncoding(version: version, addressSize: 8, offsetSize: offsetSize))
        ELFFile.fetch(UnsafeRawBufferPointer(rebasing: section[Int(start)..<Int(end)]))
        findSequences()
    }

    /// The bytes of the table at an offset; empty where there is none.
    static func bytes(at offset: UInt64, in section: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var cursor = ByteCursor(section, at: offset)
        let length = cursor.number(UInt32.self)
        cursor.skip(UInt64(length))
        if cursor.failed { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(rebasing: section[Int(offset)..<cursor.offset])
    }

    // Without its end, or with rows in disorder, a sequence says nothing for certain.
    private func findSequences() {
        var found: [Sequence] = []
        var first: UInt64?
        var last: UInt64 = 0
        var isOrdered = true
        var start = program.instructions.offset
        program.run(from: start) { row in
            if first == nil { first = row.address } else if row.address < last { isOrdered = false }
            last = row.address
        } end: { row, next in
            if let first, isOrdered, DwarfUnit.isLive(first), first < row.address, last <= row.address {
                found.append(Sequence(start: first, end: row.address, program: start))
            }
            (first, isOrdered, start) = (nil, true, next)
            return true
        } define: {
            files.define(&$0)
        }
        sequences = found.sorted { $0.end < $1.end }
    }

    private func rows(of sequence: Sequence) -> [DwarfLineProgram.Row] {
        if let known = rowsByProgram[sequence.program] { return known }
        var rows: [DwarfLineProgram.Row] = []
        program.run(from: sequence.program) { row in
            if rows.count < Self.mostRows { rows.append(row) }
        } end: { _, _ in
            false
        }
        if keptRows > Self.mostRows { (rowsByProgram, keptRows) = ([:], 0) }
        rowsByProgram[sequence.program] = rows
        keptRows += rows.count
        return rows
    }

    /// The path of a file by its number, made complete as far as the unit says; nil where there is none.
    func path(_ file: UInt64) -> String? { files.path(file) }

    /// The row that says where an address comes from, and those before it in its sequence, `count` at most, the nearest
    /// first; empty where there is none.
    func rows(before address: UInt64, count: Int) -> [Row] {
        var index = partition(sequences.count) { sequences[$0].end > address }
        while index < sequences.count, sequences[index].start > address { index += 1 }
        guard index < sequences.count else { return [] }
        let rows = rows(of: sequences[index])
        return rows[..<partition(rows.count) { rows[$0].address > address }].suffix(count).reversed().map { row in
            Row(
                address: row.address, file: row.file, line: Int(row.line), column: Int(clamping: row.column))
        }
    }
}
