// The memory of a process at one moment: a copy by fork, and what a fork leaves out.

import CZombie
import ZombieGuard

/// Reads a copy of a process. The copy lacks windows (MADV_DONTFORK), and the running process keeps changing shared
/// memory. Both are therefore read while the process is stopped.
final class CopiedHeap: MemoryReader {
    /// A word of memory that the copy lacks, and its address.
    struct Word: BitwiseCopyable {
        var place: UInt64
        var word: UInt64
    }

    let process: ProcessCopy
    private let memory: ProcessMemory
    private let mappings: [Mapping]
    private let windows: HeapLayout.Windows
    // The blocks in windows, by address.
    private let starts = FlatArray<UInt64>()
    private let offsets = FlatArray<Int>()
    private var bytes: [UInt8] = []
    /// Words of other memory that the copy lacks, which may refer to blocks.
    let words = FlatArray<Word>()

    /// Limits on the memory that is read while the process is stopped. With more, the stop would be as long as without
    /// a copy.
    static let mostBytes: UInt64 = 256 << 20, mostBlocks = 200_000

    init(_ process: ProcessCopy, _ windows: HeapLayout.Windows) throws {
        self.process = process
        self.windows = windows
        memory = try ProcessMemory(processID: process.processID)
        mappings = try Mapping.all(of: process.processID)
    }

    /// Whether the read budget is spent: reads then return nothing.
    var isExhausted: Bool { memory.isExhausted }

    // MARK: What the copy has

    /// Whether the copy has a mapping's memory.
    ///
    /// - Parameters:
    ///   - mapping: a readable mapping of the process.
    ///   - original: the process's own memory.
    func has(_ mapping: Mapping, _ original: any MemoryReader) -> Bool {
        if mapping.permissions.hasSuffix("s") { return false }
        let behind = mappings.partitionPoint { $0.start > mapping.start }
        // A fork keeps mappings as they are, or leaves them out (MADV_DONTFORK).
        guard behind > 0, mappings[behind - 1].start <= mapping.start, mapping.end <= mappings[behind - 1].end else {
            return false
        }
        // MADV_WIPEONFORK: the copy has the mapping, without its pages.
        let range = mapping.start..<mapping.end
        return Self.isPopulated(range, memory) || !Self.isPopulated(range, original)
    }

    private static func isPopulated(_ range: Range<UInt64>, _ memory: any MemoryReader) -> Bool {
        var start = range.lowerBound
        var step: UInt64 = 1 << 20
        while start < range.upperBound {
            let count = min(step, range.upperBound - start)
            guard let parts = memory.parts(from: start, count: Int(count)) else { return true }
            if !parts.isEmpty { return true }
            start += count
            step = min(step * 2, 1 << 28)
        }
        return false
    }

    // MARK: Keeping what the copy lacks

    /// Stores the contents of a block in a window. Call in the order of addresses. Returns false if a limit is
    /// exceeded.
    func keep(blockAt start: UInt64, _ contents: UnsafeRawBufferPointer) -> Bool {
        guard starts.count < Self.mostBlocks, UInt64(bytes.count + contents.count) <= Self.mostBytes else {
            return false
        }
        starts.append(start)
        offsets.append(bytes.count)
        bytes.append(contentsOf: contents)
        return true
    }

    // MARK: Reading

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        if !windows.contains(address) { return memory.read(at: address, upTo: count) }
        guard let kept = kept(at: address) else { return [] }
        return Array(bytes[kept].prefix(count))
    }

    func read(at address: UInt64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        if !windows.contains(address) { return memory.read(at: address, into: buffer) }
        guard let kept = kept(at: address) else { return 0 }
        let count = min(kept.count, buffer.count)
        bytes.withUnsafeBytes {
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[kept.lowerBound..<kept.lowerBound + count]))
        }
        return count
    }

    func parts(from start: UInt64, count: Int) -> [Range<UInt64>]? {
        windows.contains(start) ? nil : memory.parts(from: start, count: count)
    }

    // The range in `bytes` that has the contents of a stored block from `address` on.
    private func kept(at address: UInt64) -> Range<Int>? {
        let behind = starts.elements.partitionPoint { $0 > address }
        guard behind > 0 else { return nil }
        let end = behind < offsets.count ? offsets.base[behind] : bytes.count
        let first = offsets.base[behind - 1] + Int(clamping: address - starts.base[behind - 1])
        return first < end ? first..<end : nil
    }
}
