// What zguard knows about arm64. Each arch_<cpu>.swift says the same of another processor; nothing else names a register,
// an instruction or a layout that is a processor's own.

#if arch(arm64)
package enum Processor {
    /// As `uname -m` says it.
    package static let name = "aarch64"
    /// `e_machine` of its ELF files (elf.h: EM_AARCH64).
    package static let elfMachine: UInt16 = 183
    /// Where `struct elf_prstatus` of a core file has the stack pointer, in bytes.
    package static let stackPointerPlace = 360
    /// Bits of a pointer that are no part of the address: memory tags.
    package static let tagBits: UInt64 = 0x0f00_0000_0000_0000
    /// Registers by the names that debuggers have for them, of those by DWARF number.
    package static func registers(_ values: [UInt64]) -> [String: Address] {
        let names = (0...30).map { "x\($0)" } + ["sp", "pc"]
        return Dictionary(uniqueKeysWithValues: zip(names, values.map { Address($0) }))
    }
    /// Makes the registers, by DWARF number, those of a caller whose call has led to where no code is; `memory` reads a word. False where
    /// nothing tells the caller.
    package static func undoCall(_ registers: inout [UInt64], memory: (UInt64) -> UInt64?) -> Bool {
        registers[32] = registers[30]
        return registers[30] != 0
    }
    /// Bytes of the longest call instruction that `call` understands.
    package static let callBytes = 4

    package enum Call: Equatable {
        case direct(UInt64)
        case imported
    }

    /// What the call at the end of `code` calls; nil where none stands there.
    ///
    /// - Parameters:
    ///   - code: `callBytes` bytes.
    ///   - address: of the first of them.
    package static func call(_ code: [UInt8], at address: UInt64) -> Call? {
        let instruction = code.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard instruction >> 26 == 0b100101 else { return nil } // bl
        let distance = Int64(Int32(bitPattern: instruction << 6) >> 6) * 4
        return .direct(address &+ UInt64(bitPattern: distance))
    }
}
#endif
