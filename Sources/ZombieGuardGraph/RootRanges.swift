// Chooses the memory that is searched for roots.

import ZombieGuard

/// The address ranges from which blocks are reached: writable data of images, stacks, thread-local storage, and all
/// other readable memory that no file backs. Without the guarded heap and the runtime's own tables, which name every
/// block.
struct RootRanges {
    private(set) var all: [Range<UInt64>] = []

    /// Bytes below the stack pointer that leaf functions use.
    private static let redZone: UInt64 = 128

    /// - Parameters:
    ///   - own: ranges of the runtime. Of its stacks the part in use is searched all the same, because the program's
    ///     signal handlers run there.
    ///   - heap: the areas of blocks among them.
    ///   - stackPointers: of all threads. A stack in a block is searched with the block.
    init(mappings: [Mapping], own: [Range<UInt64>], heap: [Range<UInt64>], stackPointers: [UInt64]) {
        let stackPointers = stackPointers.filter { pointer in !heap.contains { $0.contains(pointer) } }
        let excluded = own.sorted { $0.lowerBound < $1.lowerBound }
        for mapping in mappings where Self.mayHoldRoots(mapping) {
            // The part of a stack below the stack pointer is dead.
            let inside = stackPointers.filter { $0 >= mapping.start && $0 < mapping.end }
            guard let top = inside.min() else {
                all += Self.subtract(excluded, from: mapping.start..<mapping.end)
                continue
            }
            all.append(max(mapping.start, top &- Self.redZone)..<mapping.end)
        }
    }

    private static func mayHoldRoots(_ mapping: Mapping) -> Bool {
        guard mapping.start < mapping.end, mapping.permissions.hasPrefix("r") else { return false }
        // A core file knows no permissions of some files; the core file has no contents of them either.
        let isWritable = mapping.permissions.dropFirst().hasPrefix("w")
        if mapping.path.isEmpty { return true }
        if mapping.path.hasPrefix("[") {
            return isWritable && !["[vvar]", "[vdso]", "[vsyscall]"].contains(mapping.path)
        }
        let isShared = mapping.permissions.hasSuffix("s")
        let isMemory = ["/memfd:", "/dev/zero", "/SYSV", "/dev/shm/"].contains { mapping.path.hasPrefix($0) }
        return isWritable && (!isShared || isMemory) && !mapping.path.hasPrefix("/memfd:zguard")
    }

    /// The parts of a range outside of others, which are sorted and may overlap.
    static func subtract(_ excluded: [Range<UInt64>], from range: Range<UInt64>) -> [Range<UInt64>] {
        var rest: [Range<UInt64>] = []
        var start = range.lowerBound
        for other in excluded where other.lowerBound < range.upperBound && other.upperBound > start {
            if other.lowerBound > start { rest.append(start..<other.lowerBound) }
            start = max(start, other.upperBound)
            if start >= range.upperBound { break }
        }
        if start < range.upperBound { rest.append(start..<range.upperBound) }
        return rest
    }
}
