// Verifies the quarantine of a guarded process from outside: reads the freed blocks and looks for bytes that changed.

import CZombie
import Glibc

/// A check of the freed blocks that a guarded process holds. Works on a busy, an idle and a stopped process, which does
/// not notice it.
public struct HeapCheck {
    /// Freed blocks whose contents were compared.
    public private(set) var verifiedBlocks = 0
    /// Bytes that were compared.
    public private(set) var verifiedBytes: UInt64 = 0

    private let statistics: Statistics
    private let memory: ProcessMemory
    private let depot: StackDepotReader
    private let filledAtMost: UInt64
    private var modules: ProcessModules

    /// How many times a changed block is read again before it is believed.
    private static let confirmations = 3
    private static let recordsAtOnce = 1 << 16
    private static let bytesAtOnce: UInt64 = 1 << 20

    public init(process: GuardedProcess) throws(ProcessError) {
        statistics = try process.statistics()
        guard statistics.layout.isKnown else { throw .otherVersion(process.processID, UInt32(ZG_STATS_VERSION)) }
        memory = try ProcessMemory(processID: process.processID)
        depot = StackDepotReader(memory: memory, layout: statistics.layout)
        modules = try ProcessModules(processID: process.processID, memory: memory)
        // What the page shows of the options may be cut off; what is left of the last one is then no option.
        let settings = OptionTable.parse(statistics.options).settings
        filledAtMost = UInt64(clamping: settings["fill_freed_bytes"] ?? Int64.max)
    }

    /// Verifies everything, handing out findings without names as they are made.
    public mutating func run(_ report: (Finding) -> Void) {
        for sizeClass in statistics.layout.classes { verify(sizeClass, report) }
        verifySpans(report)
    }

    // Blocks of a size class

    private mutating func verify(_ sizeClass: HeapLayout.SizeClass, _ report: (Finding) -> Void) {
        guard sizeClass.slotSize > 0 else { return }
        let stride = UInt64(MemoryLayout<zg_block>.stride)
        var first: UInt64 = 0
        while first < sizeClass.count {
            let count = Int(min(UInt64(Self.recordsAtOnce), sizeClass.count - first))
            let blocks = memory.records(zg_block.self, at: sizeClass.blocks &+ first * stride, count: count)
            verify(blocks, first: first, of: sizeClass, report)
            if blocks.count < count { return }
            first += UInt64(count)
        }
    }

    // Neighbouring slots are read with one call, as far as they are quarantined.
    private mutating func verify(
        _ blocks: [zg_block], first: UInt64, of sizeClass: HeapLayout.SizeClass, _ report: (Finding) -> Void
    ) {
        let most = max(1, Int(Self.bytesAtOnce / sizeClass.slotSize))
        let size = Int(sizeClass.slotSize)
        var index = 0
        while index < blocks.count {
            guard blocks[index].isQuarantined else {
                index += 1
                continue
            }
            var end = index + 1
            while end < blocks.count, end - index < most, blocks[end].isQuarantined { end += 1 }
            let start = sizeClass.slots &+ (first + UInt64(index)) * sizeClass.slotSize
            let contents = memory.read(at: start, upTo: (end - index) * size)
            let filled = Int(filledLength(sizeClass.slotSize))
            for (position, block) in blocks[index..<end].enumerated() {
                let range = (position * size)..<(position * size + filled)
                guard range.upperBound <= contents.count else { break }
                verifiedBlocks += 1
                verifiedBytes += UInt64(filled)
                guard changes(in: contents[range]) != nil else { continue }
                let slot = first + UInt64(index + position)
                let record = sizeClass.blocks &+ slot * UInt64(MemoryLayout<zg_block>.stride)
                let address = sizeClass.slots &+ slot * sizeClass.slotSize
                let requested = sizeClass.slotSize - min(block.slack, sizeClass.slotSize)
                if let finding = confirm(block, record, address, requested, contents: UInt64(filled)) {
                    report(finding)
                }
            }
            index = end
        }
    }

    // Large blocks

    private mutating func verifySpans(_ report: (Finding) -> Void) {
        let stride = UInt64(MemoryLayout<zg_span>.stride)
        let count = Int(min(statistics.layout.spanCount, 1 << 24))
        let spans = memory.records(zg_span.self, at: statistics.layout.spans, count: count)
        for (index, span) in spans.enumerated() where span.block.isQuarantined {
            guard let change = firstChange(of: span) else { continue }
            // The record begins with the block's own.
            let record = statistics.layout.spans &+ UInt64(index) * stride
            let finding = confirm(span.block, record, span.start &+ change.offset, span.size, contents: change.length)
            guard var finding else { continue }
            let offset = (finding.block?.offset ?? 0) + Int64(change.offset)
            finding.block?.start = Address(span.start)
            finding.block?.offset = offset
            finding.detail["offset"] = String(offset)
            report(finding)
        }
    }

    private mutating func firstChange(of span: zg_span) -> (offset: UInt64, length: UInt64)? {
        let filled = filledLength(span.size)
        var offset: UInt64 = 0
        while offset < filled {
            let length = min(Self.bytesAtOnce, filled - offset)
            let contents = memory.read(at: span.start &+ offset, upTo: Int(length))
            verifiedBytes += UInt64(contents.count)
            if changes(in: contents[...]) != nil { return (offset, length) }
            guard contents.count == Int(length) else { return nil }
            offset += length
        }
        verifiedBlocks += 1
        return nil
    }

    // What is common to both

    // The runtime fills and verifies whole vectors of 16 bytes.
    private func filledLength(_ size: UInt64) -> UInt64 { min(size, filledAtMost) & ~15 }

    private func changes(in contents: ArraySlice<UInt8>) -> ClosedRange<Int>? {
        let fill = UInt8(ZG_FILL_FREED)
        let firstChanged = contents.withUnsafeBytes { $0.firstIndex { $0 != fill } }
        guard let firstChanged, let last = contents.lastIndex(where: { $0 != fill }) else { return nil }
        return firstChanged...(last - contents.startIndex)
    }

    // The program goes on meanwhile: it may have reused the block between the reading of its record and of its contents.
    // So the record must be the same before and after, and the change must stay.
    private mutating func confirm(
        _ block: zg_block, _ record: UInt64, _ address: UInt64, _ size: UInt64, contents length: UInt64
    ) -> Finding? {
        var seen: (range: ClosedRange<Int>, value: UInt8)?
        for round in 0..<Self.confirmations {
            if round > 0 { usleep(1000) }
            let contents = memory.read(at: address, upTo: Int(length))
            guard let now = memory.records(zg_block.self, at: record, count: 1).first, now.isSame(as: block),
                let range = changes(in: contents[...])
            else { return nil }
            seen = (range, contents[range.lowerBound])
        }
        guard let (range, value) = seen else { return nil }
        return Finding(
            kind: .writeAfterFree, access: .write, address: Address(address &+ UInt64(range.lowerBound)),
            block: Finding.Block(
                start: Address(address), size: size, offset: Int64(range.lowerBound), state: "quarantined",
                allocatingThread: thread(block.alloc_thread), freeingThread: thread(block.free_thread)),
            stacks: Finding.Stacks(free: frames(of: block.free_stack), alloc: frames(of: block.alloc_stack)),
            processID: statistics.processID, program: statistics.program, time: currentTime(),
            detail: [
                "offset": String(range.lowerBound), "length": String(range.count),
                "old": "\(Address(UInt64(ZG_FILL_FREED)))", "new": "\(Address(UInt64(value)))", "found_by": "check",
            ])
    }

    // Thread numbers end at 65535, which stands for every later one.
    private func thread(_ number: UInt16) -> Int? { number == 0 || number == .max ? nil : Int(number) }

    private mutating func frames(of stack: UInt32) -> [Finding.Frame] {
        depot.returnAddresses(of: stack).map { modules.frame(returningTo: $0) }
    }
}

/// The time as reports write it: ISO 8601, UTC.
func currentTime() -> String {
    var seconds = time(nil)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    func digits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let date = "\(parts.tm_year + 1900)-\(digits(parts.tm_mon + 1))-\(digits(parts.tm_mday))"
    return "\(date)T\(digits(parts.tm_hour)):\(digits(parts.tm_min)):\(digits(parts.tm_sec))Z"
}
