// Maps addresses to source lines with the line table of a unit.

import CDwarf

/// The address ranges of a line table, and the rows of the ranges that were looked up. A large unit has 100,000 rows,
/// so rows are expanded per sequence, on demand.
final class DwarfLines {
    struct Row {
        var address: UInt64
        var file: UInt64
        var line: Int
        var column: Int
    }

    /// A contiguous range of code with its own run of the line program.
    private struct Sequence {
        var start: UInt64
        var end: UInt64
        /// Offset of the sequence's opcodes.
        var program: Int
    }

    private let program: DwarfLineProgram
    private var sequences: [Sequence] = []
    private var files: DwarfLineFiles
    // Rows of the sequences that were looked up, by `Sequence.program`.
    private var rowsByProgram: [Int: [DwarfLineProgram.Row]] = [:]
    private var keptRows = 0

    private static let mostRows = 1 << 22

    /// Reads the table at an offset of .debug_line; nil if it is unreadable.
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
        if version == 5 { cursor.skip(2) } // address_size, segment_selector_size
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

    /// The bytes of the table at an offset; empty if the table is invalid.
    static func bytes(at offset: UInt64, in section: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var cursor = ByteCursor(section, at: offset)
        let length = cursor.number(UInt32.self)
        cursor.skip(UInt64(length))
        if cursor.failed { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(rebasing: section[Int(offset)..<cursor.offset])
    }

    // Ignores sequences that have no end or whose rows are not in address order: they are unreliable.
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

    /// The path of a file by its number, absolute if the unit has the compiler's working directory; nil if there is no
    /// such file.
    func path(_ file: UInt64) -> String? { files.path(file) }

    /// The row that covers an address and the rows before it in its sequence, nearest first, at most `count`; empty if
    /// no sequence covers the address.
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
