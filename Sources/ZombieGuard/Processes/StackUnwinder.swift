// Unwinds stacks of stopped threads and of core files with libunwind.

import CUnwind

/// Unwinds stacks in another program's memory with libunwind, which is loaded on first use.
package final class StackUnwinder {
    /// Why stacks cannot be unwound here; nil if they can.
    package static var obstacle: String? { zg_unwind_obstacle().map { String(cString: $0) } }

    static let allKnown = UInt64.max
    static let mostFrames = 256

    private let memory: any MemoryReader
    private var modules: ProcessModules

    package init(mappings: [Mapping], memory: any MemoryReader) {
        self.memory = memory
        modules = ProcessModules(mappings: mappings, memory: memory)
    }

    /// Unwinds the stack that begins with these registers, innermost frame first. Without libunwind, returns the
    /// innermost frame only. `registers` are indexed by DWARF number, the program counter by `ZG_THREAD_PC`; `known`
    /// has a bit for each valid register. `isInCall`: the program counter is the return address of a call in progress.
    package func stack(
        from registers: [UInt64], known: UInt64 = StackUnwinder.allKnown, isInCall: Bool = false
    ) -> [Finding.Frame] {
        frames(from: registers, known: known, isInCall: isInCall).map(\.frame)
    }

    /// Unwinds like ``stack(from:known:isInCall:)``, and returns the stack pointer of each frame as well. A frame's
    /// part of the stack ends at the stack pointer of the next frame.
    package func frames(
        from registers: [UInt64], known: UInt64 = StackUnwinder.allKnown, isInCall: Bool = false
    ) -> [(frame: Finding.Frame, stackPointer: UInt64)] {
        var registers = registers
        registers += [UInt64](repeating: 0, count: max(0, Int(ZG_THREAD_REGISTERS) - registers.count))
        var source = zg_unwind_source()
        source.context = Unmanaged.passUnretained(self).toOpaque()
        source.read = { context, address, to, count in
            guard let context, let to else { return 0 }
            let unwinder = Unmanaged<StackUnwinder>.fromOpaque(context).takeUnretainedValue()
            let bytes = unwinder.memory.read(at: address, upTo: count).prefix(count)
            bytes.withUnsafeBytes { to.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(to), byteCount: $0.count) }
            return bytes.count
        }
        source.find = { context, pc, start, end, table in
            guard let context, let start, let end, let table else { return false }
            let unwinder = Unmanaged<StackUnwinder>.fromOpaque(context).takeUnretainedValue()
            guard let mapping = unwinder.modules.mapping(at: pc),
                let place = unwinder.modules.image(at: pc)?.unwindTable
            else { return false }
            (start.pointee, end.pointee, table.pointee) = (mapping.start, mapping.end, place)
            return true
        }
        var places = [UInt64](repeating: 0, count: Self.mostFrames)
        var areExact = [Bool](repeating: false, count: Self.mostFrames)
        var stackPointers = places
        let count = Int(
            zg_unwind_stack(
                &source, &registers, known, &places, &areExact, &stackPointers, Int32(Self.mostFrames)))
        if count > 0, isInCall { areExact[0] = false }
        if count == 0 {
            let pc = registers[Int(ZG_THREAD_PC)]
            return [
                (isInCall ? modules.frame(returningTo: pc) : modules.frame(at: pc), registers[Int(ZG_THREAD_SP)])
            ]
        }
        return (0..<count).map { index in
            (
                areExact[index] ? modules.frame(at: places[index]) : modules.frame(returningTo: places[index]),
                stackPointers[index]
            )
        }
    }
}
