// The arm64-specific part of zguard. Registers, instructions and layouts of a processor are named only in the
// arch_<cpu>.swift files.

#if arch(arm64)
package enum Processor {
    /// The name of the processor in `uname -m`.
    package static let name = "aarch64"
    /// `e_machine` of ELF files (elf.h: EM_AARCH64).
    package static let elfMachine: UInt16 = 183
    /// Offset of the stack pointer in `struct elf_prstatus` of a core file, in bytes.
    package static let stackPointerPlace = 360
    /// Bits of a pointer that hold a memory tag (MTE).
    package static let tagBits: UInt64 = 0x0f00_0000_0000_0000
    /// Debugger names of registers, with their values. `values` is ordered by DWARF number.
    package static func registers(_ values: [UInt64]) -> [String: Address] {
        let names = (0...30).map { "x\($0)" } + ["sp", "pc"]
        return Dictionary(uniqueKeysWithValues: zip(names, values.map { Address($0) }))
    }
    /// After a call to an invalid address, replaces the registers by those of the caller. `registers` is ordered by
    /// DWARF number; `memory` reads a word. False if the caller cannot be determined.
    package static func undoCall(_ registers: inout [UInt64], memory: (UInt64) -> UInt64?) -> Bool {
        registers[32] = registers[30]
        return registers[30] != 0
    }
    /// Length in bytes of the longest call instruction that `call` decodes.
    package static let callBytes = 4

    package enum Call: Equatable {
        case direct(UInt64)
        case imported
    }

    /// Decodes the call instruction at the end of `code`; nil if there is none.
    ///
    /// - Parameters:
    ///   - code: `callBytes` bytes.
    ///   - address: address of the first byte of `code`.
    package static func call(_ code: [UInt8], at address: UInt64) -> Call? {
        let instruction = code.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard instruction >> 26 == 0b100101 else { return nil } // bl
        let distance = Int64(Int32(bitPattern: instruction << 6) >> 6) * 4
        return .direct(address &+ UInt64(bitPattern: distance))
    }
}
#endif
