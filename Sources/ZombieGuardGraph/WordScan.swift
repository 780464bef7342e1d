// Finds the words of a process's memory that point to some blocks.

import ZombieGuard

/// What a scan looks for.
protocol PointerTarget {
    /// Whether an address, without tags, points to a target.
    func contains(_ address: UInt64) -> Bool
}

/// One block.
struct BlockTarget: PointerTarget {
    let start: UInt64
    let size: UInt64

    @inline(__always)
    func contains(_ address: UInt64) -> Bool { address &- start < size }
}

/// Blocks in a table.
struct TableTarget: PointerTarget {
    let blocks: BlockTable

    @inline(__always)
    func contains(_ address: UInt64) -> Bool {
        let block = blocks.block(at: address)
        return block != BlockTable.none && address &- blocks.starts.base[Int(block)] < blocks.size(of: block)
    }
}

/// Reads memory in pieces of 1 MiB, and collects the aligned words that point to a target. Only the lower 48 bits of a
/// word count: the bits above are tags (``HeapSnapshot``).
final class WordScan<Target: PointerTarget> {
    struct Hit {
        /// Address of the word.
        var place: UInt64
        /// The address in the word, without tags.
        var address: UInt64
    }

    private let memory: any MemoryReader
    private let target: Target
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceBytes, alignment: 16)
    /// Time of ``monotonicNanoseconds()`` at which the scan ends.
    private let deadline: UInt64
    private let most: Int
    /// Whether the scan ended before all memory was read.
    private(set) var isCut = false
    /// Number of all words so far that point to a target, whether or not they are in `hits`.
    private(set) var found = 0
    private(set) var hits: [Hit] = []

    private static var pieceBytes: Int { 1 << 20 }
    private static var addressBits: UInt64 { 0xffff_ffff_ffff }

    /// - Parameters:
    ///   - deadline: time of ``monotonicNanoseconds()``.
    ///   - most: maximum number of hits to store; further hits are only counted.
    init(_ memory: any MemoryReader, _ target: Target, deadline: UInt64, most: Int) {
        self.memory = memory
        self.target = target
        self.deadline = deadline
        self.most = most
    }

    deinit { buffer.deallocate() }

    /// Returns and removes the hits so far, which then do not count for the limit.
    func takeHits() -> [Hit] {
        defer { hits = [] }
        return hits
    }

    /// Scans a range, of which only pages with memory are read.
    func scan(_ range: Range<UInt64>) {
        var start = (range.lowerBound &+ 7) & ~7
        while start < range.upperBound, !isCut {
            let wanted = Int(min(range.upperBound - start, 1 << 32))
            let parts = memory.parts(from: start, count: wanted) ?? [start..<start &+ UInt64(wanted)]
            for part in parts where !isCut { scan(part: part) }
            start = start &+ UInt64(wanted)
        }
    }

    private func scan(part: Range<UInt64>) {
        var next = part.lowerBound
        while next < part.upperBound {
            if monotonicNanoseconds() > deadline {
                isCut = true
                return
            }
            let bytes = Int(min(UInt64(Self.pieceBytes), part.upperBound - next))
            let read = memory.read(at: next, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<bytes]))
            find(in: UnsafeRawBufferPointer(rebasing: buffer[..<read]), at: next)
            // Skip an unreadable page.
            next = read == bytes ? next &+ UInt64(bytes) : (next &+ UInt64(read)) / 4096 &* 4096 &+ 4096
        }
    }

    private func find(in bytes: UnsafeRawBufferPointer, at start: UInt64) {
        guard let base = bytes.baseAddress else { return }
        let target = target
        for index in 0..<bytes.count / 8 {
            let address = base.loadUnaligned(fromByteOffset: index &* 8, as: UInt64.self) & Self.addressBits
            if !target.contains(address) { continue }
            found += 1
            if hits.count < most { hits.append(Hit(place: start &+ UInt64(index) &* 8, address: address)) }
        }
    }
}
