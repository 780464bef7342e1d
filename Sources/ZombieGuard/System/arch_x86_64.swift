// What zguard knows about x86-64. Each arch_<cpu>.swift says the same of another processor; nothing else names a register,
// an instruction or a layout that is a processor's own.

#if arch(x86_64)
package enum Processor {
    /// As `uname -m` says it.
    package static let name = "x86_64"
    /// `e_machine` of its ELF files (elf.h: EM_X86_64).
    package static let elfMachine: UInt16 = 62
    /// Where `struct elf_prstatus` of a core file has the stack pointer, in bytes.
    package static let stackPointerPlace = 264
    /// Bits of a pointer that are no part of the address: memory tags.
    package static let tagBits: UInt64 = 0
    /// Registers by the names that debuggers have for them, of those by DWARF number.
    package static func registers(_ values: [UInt64]) -> [String: Address] {
        let names = [
            "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
            "r15", "rip",
        ]
        return Dictionary(uniqueKeysWithValues: zip(names, values.map { Address($0) }))
    }
    /// Makes the registers, by DWARF number, those of a caller whose call has led to where no code is; `memory` reads a word. False where
    /// nothing tells the caller.
    package static func undoCall(_ registers: inout [UInt64], memory: (UInt64) -> UInt64?) -> Bool {
        guard let word = memory(registers[7]) else { return false }
        registers[16] = word
        registers[7] &+= 8
        return true
    }
    /// Bytes of the longest call instruction that `call` understands.
    package static let callBytes = 6

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
        if code[0] == 0xff, code[1] == 0x15 { return .imported } // call *table(%rip)
        guard code[1] == 0xe8 else { return nil }
        let distance = code[2..<6].reversed().reduce(Int32(0)) { $0 << 8 | Int32($1) }
        return .direct(address &+ 6 &+ UInt64(bitPattern: Int64(distance)))
    }
}
#endif
