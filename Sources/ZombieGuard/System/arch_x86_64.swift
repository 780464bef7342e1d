// The x86-64-specific part of zguard. Registers, instructions and layouts of a processor are named only in the
// arch_<cpu>.swift files.

#if arch(x86_64)
package enum Processor {
    /// The name of the processor in `uname -m`.
    package static let name = "x86_64"
    /// `e_machine` of ELF files (elf.h: EM_X86_64).
    package static let elfMachine: UInt16 = 62
    /// Offset of the stack pointer in `struct elf_prstatus` of a core file, in bytes.
    package static let stackPointerPlace = 264
    /// Bits of a pointer that hold a memory tag; none on x86-64.
    package static let tagBits: UInt64 = 0
    /// Debugger names of registers, with their values. `values` is ordered by DWARF number.
    package static func registers(_ values: [UInt64]) -> [String: Address] {
        let names = [
            "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
            "r15", "rip",
        ]
        return Dictionary(uniqueKeysWithValues: zip(names, values.map { Address($0) }))
    }
    /// After a call to an invalid address, replaces the registers by those of the caller. `registers` is ordered by
    /// DWARF number; `memory` reads a word. False if the caller cannot be determined.
    package static func undoCall(_ registers: inout [UInt64], memory: (UInt64) -> UInt64?) -> Bool {
        guard let word = memory(registers[7]) else { return false }
        registers[16] = word
        registers[7] &+= 8
        return true
    }
    /// Length in bytes of the longest call instruction that `call` decodes.
    package static let callBytes = 6

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
        if code[0] == 0xff, code[1] == 0x15 { return .imported } // call *table(%rip)
        guard code[1] == 0xe8 else { return nil }
        let distance = code[2..<6].reversed().reduce(Int32(0)) { $0 << 8 | Int32($1) }
        return .direct(address &+ 6 &+ UInt64(bitPattern: Int64(distance)))
    }
}
#endif
