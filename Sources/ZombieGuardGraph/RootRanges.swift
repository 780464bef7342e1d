// Chooses the memory that is searched for roots, or for pointers to a block.

import CZombie
import ZombieGuard

/// The address ranges that are searched for roots: data of images that is or was writable, stacks, thread-local
/// storage, and all other readable memory that no file backs. Excludes the guarded heap and the runtime's own tables,
/// which refer to every block.
struct RootRanges {
    struct Part {
        var range: Range<UInt64>
        var mapping: Mapping
        /// Whether the range is the part of a stack that is in use.
        var isStack = false
    }

    private(set) var parts: [Part] = []
    var all: [Range<UInt64>] { parts.map(\.range) }

    /// Bytes below the stack pointer that leaf functions use.
    static let redZone: UInt64 = 128

    /// - Parameters:
    ///   - own: ranges of the runtime, which are excluded, except parts of stacks that are in use: the program's signal
    ///     handlers run on the runtime's stacks.
    ///   - heap: the areas of blocks, which are also in `own`.
    ///   - stackPointers: of all threads. A stack in a block is searched with the block.
    init(mappings: [Mapping], own: [Range<UInt64>], heap: [Range<UInt64>], stackPointers: [UInt64]) {
        let stackPointers = stackPointers.filter { pointer in !heap.contains { $0.contains(pointer) } }
        let excluded = own.sorted { $0.lowerBound < $1.lowerBound }
        for (index, mapping) in mappings.enumerated()
        where Self.mayHoldRoots(mapping) || Self.isRelocated(mapping, before: mappings[(index + 1)...].first) {
            // The part of a stack below the stack pointer is dead.
            let inside = stackPointers.filter { $0 >= mapping.start && $0 < mapping.end }
            guard let top = inside.min() else {
                parts += Self.subtract(excluded, from: mapping.start..<mapping.end).map {
                    Part(range: $0, mapping: mapping)
                }
                continue
            }
            parts.append(
                Part(range: max(mapping.start, top &- Self.redZone)..<mapping.end, mapping: mapping, isStack: true))
        }
    }

    private static func mayHoldRoots(_ mapping: Mapping) -> Bool {
        guard mapping.start < mapping.end, mapping.permissions.hasPrefix("r") else { return false }
        // In a core file, mappings of some files have no permissions, and are not searched. The core file lacks their
        // contents, too.
        let isWritable = mapping.permissions.dropFirst().hasPrefix("w")
        if mapping.path.isEmpty { return true }
        if mapping.path.hasPrefix("[") {
            return isWritable && !["[vvar]", "[vdso]", "[vsyscall]"].contains(mapping.path)
        }
        let isShared = mapping.permissions.hasSuffix("s")
        let isMemory = ["/memfd:", "/dev/zero", "/SYSV", "/dev/shm/"].contains { mapping.path.hasPrefix($0) }
        return isWritable && (!isShared || isMemory) && !mapping.path.hasPrefix("/memfd:zguard")
    }

    /// Whether the mapping is the part of an image's data that is read-only after relocation (PT_GNU_RELRO): the
    /// writable part of the same segment follows. In a static executable, libc keeps pointers to blocks there.
    private static func isRelocated(_ mapping: Mapping, before next: Mapping?) -> Bool {
        guard let next, mapping.permissions.hasPrefix("r--"), next.permissions.hasPrefix("rw-"),
            mapping.path.hasPrefix("/"), mapping.path == next.path, mapping.start < mapping.end
        else { return false }
        return mapping.end == next.start && mapping.fileOffset &+ (mapping.end - mapping.start) == next.fileOffset
    }

    /// The parts of a range outside of the excluded ranges, which are sorted and may overlap.
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

/// The memory of a process that may hold pointers, by kind.
struct SearchedMemory {
    /// Writable data of images.
    private(set) var images: [Range<UInt64>] = []
    /// Parts of stacks in use, with their mappings.
    private(set) var stacks: [(Range<UInt64>, Mapping)] = []
    /// Readable parts of the areas of blocks.
    private(set) var heap: [Range<UInt64>] = []
    /// All other readable memory that no file backs, with its mappings.
    private(set) var others: [(Range<UInt64>, Mapping)] = []

    /// - Parameters:
    ///   - stackPointers: of all threads.
    ///   - excluded: memory to leave out, except in those parts of stacks that are in use.
    init(_ source: HeapReader, stackPointers: [UInt64], excluded: Range<UInt64> = 0..<0) {
        let areas = source.heapAreas
        for mapping in source.mappings where mapping.start < mapping.end && mapping.permissions.hasPrefix("r") {
            heap += areas.map { (mapping.start..<mapping.end).clamped(to: $0) }.filter { !$0.isEmpty }
        }
        let roots = RootRanges(
            mappings: source.mappings, own: source.ownRanges + areas + [excluded], heap: areas,
            stackPointers: stackPointers)
        var modules = ProcessModules(mappings: source.mappings, memory: source.memory)
        for part in roots.parts {
            if part.isStack {
                stacks.append((part.range, part.mapping))
            } else if modules.variable(at: part.range.lowerBound) != nil {
                images.append(part.range)
            } else {
                others.append((part.range, part.mapping))
            }
        }
    }
}

extension HeapReader {
    /// The areas of blocks.
    var heapAreas: [Range<UInt64>] {
        let layout = statistics.heapLayout
        let areas = [
            (layout.slabs.start, layout.slabs.size), (layout.large.start, layout.large.size),
            (layout.isolated.start, layout.isolated.size), (layout.windows.start, layout.windows.size),
        ]
        return areas.compactMap { start, size in
            size == 0 || start.addingReportingOverflow(size).overflow ? nil : start..<start + size
        }
    }

    /// The runtime's heap, tables and image. If the runtime is part of a test bundle, its image is left out, because it
    /// cannot be distinguished from the rest of the bundle.
    var ownRanges: [Range<UInt64>] {
        let layout = statistics.heapLayout
        var ranges = memory.records(zg_layout_range.self, at: layout.ownRanges, count: Int(layout.ownRangeCount))
            .compactMap { $0.start < $0.end ? $0.start..<$0.end : nil }
        for mapping in mappings
        where mapping.path.hasSuffix(GuardedProcess.librarySuffix) && mapping.fileOffset == 0 {
            guard let image = try? ELFImage(read: { memory.read(at: mapping.start &+ $0, upTo: $1) }) else { continue }
            let loaded = image.segments.filter { $0.type == ELFImage.SegmentType.load }
            guard let first = loaded.first, let last = loaded.last else { continue }
            let size = (last.address &+ last.memorySize &- first.address &+ 4095) & ~4095
            if size < 1 << 30 { ranges.append(mapping.start..<mapping.start &+ size) }
        }
        return ranges
    }
}
