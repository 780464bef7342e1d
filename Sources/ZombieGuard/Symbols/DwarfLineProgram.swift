// Executes the line number program of a line table, which yields its rows.

import CDwarf

/// A line number program of .debug_line.
struct DwarfLineProgram {
    struct Row {
        var address: UInt64 = 0
        var line: UInt32 = 1
        var file: UInt64 = 1
        var column: UInt64 = 0
    }

    /// Amounts that a special opcode adds to the address and the line.
    private struct Special {
        var address: UInt64
        var line: Int64
    }

    /// The opcodes of all sequences.
    let instructions: ByteCursor
    private let firstSpecial: UInt8
    private let step: UInt64
    // Indexed by opcode. Precomputed for all 256 bytes, so that no row needs a division.
    private let specials: [Special]
    /// Number of operands of each standard opcode.
    private let lengths: [UInt8]

    /// Reads the opcode parameters of the header; nil if they are invalid. `header` starts at
    /// minimum_instruction_length and ends behind standard_opcode_lengths.
    init?(_ header: inout ByteCursor, version: UInt16, instructions: (ByteCursor) -> ByteCursor?) {
        step = UInt64(header.number(UInt8.self))
        if version >= 4 { header.skip(1) } // maximum_operations_per_instruction, used by VLIW processors only
        header.skip(1)
        let lineBase = Int64(header.number(Int8.self))
        let lineRange: UInt8 = header.number()
        let firstSpecial: UInt8 = header.number()
        var lengths: [UInt8] = [0]
        for _ in 1..<max(1, firstSpecial) { lengths.append(header.number()) }
        guard !header.failed, lineRange > 0, let program = instructions(header) else { return nil }
        (self.firstSpecial, self.lengths, self.instructions) = (firstSpecial, lengths, program)
        let step = step
        specials = (UInt8.min...UInt8.max).map { instruction in
            guard instruction >= firstSpecial else { return Special(address: 0, line: 0) }
            let (quotient, rest) = (instruction - firstSpecial).quotientAndRemainder(dividingBy: lineRange)
            return Special(address: UInt64(quotient) &* step, line: lineBase + Int64(rest))
        }
    }

    /// Executes opcodes from an offset on. Calls `row` for each row, `define` for each file that the program defines,
    /// and `end` at the end of each sequence, with the offset behind it. Continues with the next sequence if `end`
    /// returns true.
    @inline(__always)
    func run(
        from start: Int, row body: (Row) -> Void, end: (Row, Int) -> Bool, define: (inout ByteCursor) -> Void = { _ in }
    ) {
        var cursor = ByteCursor(instructions.bytes, at: UInt64(start), end: UInt64(instructions.end))
        var row = Row()
        specials.withUnsafeBufferPointer { specials in
            while !cursor.isAtEnd {
                let instruction: UInt8 = cursor.number()
                if instruction >= firstSpecial {
                    row.address &+= specials[Int(instruction)].address
                    row.line = UInt32(truncatingIfNeeded: Int64(row.line) &+ specials[Int(instruction)].line)
                    body(row)
                    continue
                }
                switch Int(instruction) {
                case 0:
                    let length = cursor.variableNumber()
                    guard length > 0, length <= UInt64(cursor.end) - cursor.position else { return }
                    var operand = ByteCursor(cursor.bytes, at: cursor.position, end: cursor.position + length)
                    cursor.skip(length)
                    switch Int(operand.number(UInt8.self)) {
                    case DW_LNE_end_sequence:
                        guard end(row, cursor.offset) else { return }
                        row = Row()
                    case DW_LNE_set_address:
                        row.address = operand.number()
                        if operand.failed { return }
                    case DW_LNE_define_file: define(&operand)
                    default: break
                    }
                case DW_LNS_copy: body(row)
                case DW_LNS_advance_pc: row.address &+= cursor.variableNumber() &* step
                case DW_LNS_advance_line:
                    row.line = UInt32(truncatingIfNeeded: Int64(row.line) &+ cursor.signedNumber())
                case DW_LNS_set_file: row.file = cursor.variableNumber()
                case DW_LNS_set_column: row.column = cursor.variableNumber()
                case DW_LNS_const_add_pc: row.address &+= specials[255].address
                case DW_LNS_fixed_advance_pc: row.address &+= UInt64(cursor.number(UInt16.self))
                default:
                    // Unknown opcodes, and known ones that do not change the row: skip the operands.
                    for _ in 0..<lengths[Int(instruction)] { _ = cursor.variableNumber() }
                }
            }
        }
    }
}
