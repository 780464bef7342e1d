// Verifies the heap of a guarded process from outside: reads freed blocks and the red zones of live isolated blocks,
// and reports bytes that changed.

import CZombie
import Glibc

/// Checks the fill of quarantined blocks and of the red zones around live isolated blocks. The process may be running,
/// idle or stopped, and does not notice. Core files are not supported: memory that a debugger could not read appears as
/// zeros, which would look like writes.
public struct HeapCheck {
    /// Number of freed blocks verified.
    public private(set) var verifiedBlocks = 0
    /// Number of live isolated blocks whose red zones were verified.
    public private(set) var verifiedLiveBlocks = 0
    /// Number of bytes compared.
    public private(set) var verifiedBytes: UInt64 = 0

    private let source: HeapReader
    private let author: Author
    private let statistics: Statistics
    private let layout: HeapLayout
    private let memory: any MemoryReader
    private let depot: StackDepotReader
    private let fillLimit: UInt64
    private var modules: ProcessModules
    /// Blocks that seem to have changed and await confirmation.
    private var suspects: [Suspect] = []
    private var reported = 0
    private var stacks: [UInt32: [Finding.Frame]] = [:]

    /// Number of times that a changed block is read again before it is reported.
    private static let confirmations = 3
    private static let recordsPerRead = 1 << 16
    private static let bytesPerRead: UInt64 = 1 << 20
    /// Read up to this many bytes between two freed blocks in one call: reading a page costs about as much as another
    /// call.
    private static let longestReadThrough: UInt64 = 4096
    private static let suspectsPerBatch = 256
    // Limit of findings. Writes to freed memory come from a few places in a program, but a corrupt heap may show any
    // number of changes.
    private static let maxFindings = 500

    /// Opens the heap of a process.
    ///
    /// - Throws: ``ProcessError`` if the process is not guarded, has ended, or may not be read.
    /// - Parameter process: a guarded process.
    public init(process: GuardedProcess) throws(ProcessError) {
        source = try HeapReader(process: process)
        author = process.author
        statistics = source.statistics
        layout = statistics.heapLayout
        memory = source.memory
        depot = StackDepotReader(memory: memory, layout: layout)
        modules = ProcessModules(mappings: source.mappings, memory: memory)
        // The page truncates long options. An option that is cut off fails to parse and is ignored.
        let settings = OptionTable.parse(statistics.options).settings
        fillLimit = UInt64(clamping: settings["fill_freed_bytes"] ?? Int64.max)
    }

    /// Parts of the heap that the check left out, one line each, with control characters escaped.
    public var notes: [String] {
        source.notes
            + (isFull
                ? ["more than \(Self.maxFindings) blocks changed: only the first \(Self.maxFindings) are shown"] : [])
    }

    private var isFull: Bool { reported >= Self.maxFindings }

    /// Verifies all blocks. Findings are reported as they are made, not symbolicated.
    ///
    /// - Parameter report: called with each finding.
    public mutating func run(_ report: (Finding) -> Void) {
        for sizeClass in layout.classes { verify(sizeClass, report) }
        verifySpans(report)
        verifyWindows(report)
        confirmSuspects(report)
    }

    // MARK: Blocks of a size class

    private mutating func verify(_ sizeClass: HeapLayout.SizeClass, _ report: (Finding) -> Void) {
        guard sizeClass.slotSize > 0, sizeClass.slotSize <= Self.bytesPerRead else { return }
        let stride = UInt64(MemoryLayout<zg_block>.stride)
        var first: UInt64 = 0
        while first < sizeClass.count, !isFull {
            let count = Int(min(UInt64(Self.recordsPerRead), sizeClass.count - first))
            let blocks = memory.records(zg_block.self, at: sizeClass.blocks &+ first &* stride, count: count)
            verify(blocks, first: first, of: sizeClass, report)
            if blocks.count < count { return }
            first += UInt64(count)
        }
    }

    // Reads adjacent slots with one call.
    private mutating func verify(
        _ blocks: [zg_block], first: UInt64, of sizeClass: HeapLayout.SizeClass, _ report: (Finding) -> Void
    ) {
        let most = Int(Self.bytesPerRead / sizeClass.slotSize)
        let gap = Int(Self.longestReadThrough / sizeClass.slotSize)
        let size = Int(sizeClass.slotSize)
        let filled = Int(filledLength(sizeClass.slotSize))
        var index = 0
        while index < blocks.count, !isFull {
            guard blocks[index].isQuarantined else {
                index += 1
                continue
            }
            var end = index + 1 // behind the last quarantined block
            var next = end
            while next < blocks.count, next - index < most, next - end <= gap {
                next += 1
                if blocks[next - 1].isQuarantined { end = next }
            }
            let start = sizeClass.slots &+ (first + UInt64(index)) &* sizeClass.slotSize
            let contents = memory.read(at: start, upTo: (end - index) * size)
            for (position, block) in blocks[index..<end].enumerated() where block.isQuarantined {
                let range = (position * size)..<(position * size + filled)
                guard range.upperBound <= contents.count else { break }
                verifiedBlocks += 1
                verifiedBytes += UInt64(filled)
                let slot = first + UInt64(index + position)
                let expected = ExpectedContents(block, slot: slot, of: sizeClass, layout.traps)
                guard expected.changes(in: contents[range]) != nil else { continue }
                let record = sizeClass.blocks &+ slot &* UInt64(MemoryLayout<zg_block>.stride)
                let address = sizeClass.slots &+ slot &* sizeClass.slotSize
                let requested = sizeClass.slotSize - min(block.slack, sizeClass.slotSize)
                suspect(
                    block, record,
                    Contents(start: address, size: requested, length: UInt64(filled), expected: expected), report)
            }
            index = end
        }
    }

    // MARK: Large blocks

    private mutating func verifySpans(_ report: (Finding) -> Void) {
        let stride = UInt64(MemoryLayout<zg_span>.stride)
        var first: UInt64 = 0
        while first < layout.spanCount, !isFull {
            let count = Int(min(UInt64(Self.recordsPerRead), layout.spanCount - first))
            let spans = memory.records(zg_span.self, at: layout.spans &+ first &* stride, count: count)
            for (index, span) in spans.enumerated() where span.hasGaps || span.block.isQuarantined {
                let number = first + UInt64(index)
                verify(span, number, layout.spans &+ number &* stride, report)
            }
            if spans.count < count { return }
            first += UInt64(count)
        }
    }

    // `record` is also the address of the zg_block: it is the first member of a zg_span.
    private mutating func verify(_ span: zg_span, _ number: UInt64, _ record: UInt64, _ report: (Finding) -> Void) {
        if span.hasGaps {
            verifyGaps(of: span, record, report)
            return
        }
        let expected = ExpectedContents(span.block, span: number, layout.traps)
        guard let change = firstChange(of: span, expected) else { return }
        let contents = Contents(
            start: span.start, size: span.size, part: change.offset, length: change.length, expected: expected)
        suspect(span.block, record, contents, report)
    }

    private mutating func firstChange(
        of span: zg_span, _ expected: ExpectedContents
    ) -> (offset: UInt64, length: UInt64)? {
        let filled = filledLength(span.size)
        var offset: UInt64 = 0
        // If the block claims to be larger than the memory of the process, the loop ends when the memory reader's
        // budget is spent: it then returns nothing.
        while offset < filled {
            let length = min(Self.bytesPerRead, filled - offset)
            let contents = memory.read(at: span.start &+ offset, upTo: Int(length))
            verifiedBytes += UInt64(contents.count)
            if expected.changes(in: contents[...], from: offset) != nil { return (offset, length) }
            guard contents.count == Int(length) else { return nil }
            offset += length
        }
        verifiedBlocks += 1
        return nil
    }

    // MARK: Blocks in windows
    // A freed block holds the fill until its page is protected. A live block has a red zone behind it.

    private mutating func verifyWindows(_ report: (Finding) -> Void) {
        let windows = layout.windows
        let stride = UInt64(MemoryLayout<zg_alias>.stride)
        if windows.records == 0 { return }
        var first: UInt64 = 0
        while first < windows.pageCount, !isFull, source.hasMore {
            let count = Int(min(UInt64(Self.recordsPerRead), windows.pageCount - first))
            let start = windows.records &+ first &* stride
            // The table has a record for every possible page. Most of it was never touched.
            guard modules.mapping(at: start) != nil else { return }
            guard let parts = memory.parts(from: start, count: count * Int(stride)) else {
                if verify(from: first, count, report) < count { return }
                first += UInt64(count)
                continue
            }
            for part in parts {
                let begin = (part.lowerBound - start) / stride
                let end = (part.upperBound - start + stride - 1) / stride
                _ = verify(from: first + begin, Int(end - begin), report)
            }
            first += UInt64(count)
        }
    }

    // Returns the number of readable records.
    private mutating func verify(from first: UInt64, _ count: Int, _ report: (Finding) -> Void) -> Int {
        let windows = layout.windows
        let stride = UInt64(MemoryLayout<zg_alias>.stride)
        let aliases = memory.records(zg_alias.self, at: windows.records &+ first &* stride, count: count)
        for (index, alias) in aliases.enumerated() where alias.isLiveUnreported || alias.block.isQuarantined {
            let page = first + UInt64(index)
            verify(alias, page, windows.records &+ page &* stride, report)
        }
        return aliases.count
    }

    private mutating func verify(_ alias: zg_alias, _ page: UInt64, _ record: UInt64, _ report: (Finding) -> Void) {
        let windows = layout.windows
        let room = UInt64(alias.slot_bytes)
        guard alias.block.slack <= room else { return }
        let size = room - alias.block.slack
        let isLive = alias.block.state == zg_state_live.rawValue
        let part = isLive ? size : 0
        let length = isLive ? room - size : min(room, (size + 15) & ~15)
        let start = windows.start &+ page &* windows.pageSize &+ UInt64(alias.start)
        let expected =
            isLive ? ExpectedContents.gap : ExpectedContents(alias.block, page: page, windows, layout.traps)
        let contents = memory.read(at: start &+ part, upTo: Int(length))
        guard contents.count == Int(length) else { return }
        if isLive { verifiedLiveBlocks += 1 } else { verifiedBlocks += 1 }
        verifiedBytes += length
        guard expected.changes(in: contents[...], from: part) != nil else { return }
        suspect(
            alias.block, record, Contents(start: start, size: size, part: part, length: length, expected: expected),
            report)
    }

    // MARK: Red zones of live blocks

    // The red zone behind the block extends to the end of its pages. In front of the block, the runtime fills at most
    // ZG_LEAD_MOST bytes.
    private mutating func verifyGaps(of span: zg_span, _ record: UInt64, _ report: (Finding) -> Void) {
        let page = layout.isolated.pageSize
        let end = span.base &+ UInt64(max(span.units, 1) - 1) &* page
        let start = span.start
        guard page > 0, start >= span.base, start <= end, span.size <= end - start else { return }
        let lead = min(start - span.base, UInt64(ZG_LEAD_MOST))
        verifiedLiveBlocks += 1
        for gap in [start + span.size..<end, start - lead..<start]
        where !gap.isEmpty && gap.upperBound - gap.lowerBound <= Self.bytesPerRead {
            let expected = ExpectedContents.gap
            let contents = memory.read(at: gap.lowerBound, upTo: gap.count)
            verifiedBytes += UInt64(contents.count)
            guard contents.count == gap.count, expected.changes(in: contents[...]) != nil else { continue }
            let part = Contents(
                start: start, size: span.size, part: gap.lowerBound &- start, length: UInt64(gap.count),
                expected: expected)
            suspect(span.block, record, part, report)
            return
        }
    }

    // MARK: Common parts

    // The runtime fills and verifies whole vectors of 16 bytes.
    private func filledLength(_ size: UInt64) -> UInt64 { min(size, fillLimit) & ~15 }

    // A range of bytes to verify: `length` bytes from offset `part` on, of a block of `size` bytes. For a red zone in
    // front of the block, the offset is negative: `part` wraps around.
    private struct Contents {
        var start: UInt64
        var size: UInt64
        var part: UInt64 = 0
        var length: UInt64
        var expected: ExpectedContents
    }

    private struct Suspect {
        var block: zg_block
        var record: UInt64
        var contents: Contents
        /// The change as last read.
        var seen: (offset: UInt64, length: Int, value: UInt8)?
    }

    private mutating func suspect(
        _ block: zg_block, _ record: UInt64, _ contents: Contents, _ report: (Finding) -> Void
    ) {
        suspects.append(Suspect(block: block, record: record, contents: contents))
        if suspects.count == Self.suspectsPerBatch { confirmSuspects(report) }
    }

    // The program keeps running and may reuse a block between the reads of its record and its contents (TOCTOU). A
    // change counts only if it persists while the record stays the same. One delay serves many blocks.
    private mutating func confirmSuspects(_ report: (Finding) -> Void) {
        for round in 0..<Self.confirmations where !suspects.isEmpty {
            if round > 0 { usleep(1000) }
            suspects = suspects.compactMap { suspect in
                var suspect = suspect
                suspect.seen = change(in: suspect)
                return suspect.seen == nil ? nil : suspect
            }
        }
        for suspect in suspects where !isFull {
            guard let seen = suspect.seen else { continue }
            reported += 1
            report(finding(suspect.block, suspect.contents, seen))
        }
        suspects = []
    }

    private func change(in suspect: Suspect) -> (offset: UInt64, length: Int, value: UInt8)? {
        let contents = suspect.contents
        let bytes = memory.read(at: contents.start &+ contents.part, upTo: Int(contents.length))
        guard let now = memory.record(zg_block.self, at: suspect.record), now.isSame(as: suspect.block),
            let range = contents.expected.changes(in: bytes[...], from: contents.part)
        else { return nil }
        return (contents.part &+ UInt64(range.lowerBound), range.count, bytes[range.lowerBound])
    }

    private mutating func finding(
        _ block: zg_block, _ contents: Contents, _ seen: (offset: UInt64, length: Int, value: UInt8)
    ) -> Finding {
        let old = contents.expected.byte(at: seen.offset)
        let isLive = block.state == zg_state_live.rawValue
        var detail = [
            "offset": String(seen.offset), "length": String(seen.length), "old": "\(Address(UInt64(old)))",
            "new": "\(Address(UInt64(seen.value)))", "found_by": "check",
        ]
        // In front of the block, report the address without an offset, as the runtime's own findings do.
        if Int64(bitPattern: seen.offset) < 0 { detail["offset"] = nil }
        var finding = Finding(
            kind: isLive ? .heapOverflow : .writeAfterFree, access: .write,
            address: Address(contents.start &+ seen.offset),
            block: Finding.Block(
                start: Address(contents.start), size: contents.size, offset: Int64(bitPattern: seen.offset),
                state: (isLive ? Finding.Block.State.live : .quarantined).rawValue,
                allocatingThread: thread(block.alloc_thread), freeingThread: isLive ? nil : thread(block.free_thread)),
            stacks: Finding.Stacks(
                free: isLive ? [] : frames(of: block.free_stack), alloc: frames(of: block.alloc_stack)),
            processID: statistics.processID, program: statistics.program, time: Timestamp.now.description,
            detail: detail)
        finding.author = author
        return finding
    }

    // Thread number 65535 stands for every later thread.
    private func thread(_ number: UInt16) -> Int? { number == 0 || number == .max ? nil : Int(number) }

    private mutating func frames(of stack: UInt32) -> [Finding.Frame] {
        if let known = stacks[stack] { return known }
        let frames = depot.returnAddresses(of: stack).map { modules.frame(returningTo: $0) }
        stacks[stack] = frames
        return frames
    }
}

extension zg_span {
    /// Whether this is a live isolated block without a reported change. False for large aligned blocks, whose pages the
    /// program may protect or map itself.
    fileprivate var hasGaps: Bool {
        guard protection != 0, block.state == zg_state_live.rawValue, block.header & UInt32(ZG_HEADER_CHANGED) == 0
        else {
            return false
        }
        return
            !(zg_family_is_aligned(zg_header_family(block.header)) && size >= ZG_PROGRAM_PAGES_LEAST
            && start % 4096 == 0)
    }
}

extension zg_alias {
    /// Whether this is a live block without a reported change.
    fileprivate var isLiveUnreported: Bool {
        block.state == zg_state_live.rawValue && block.header & UInt32(ZG_HEADER_CHANGED) == 0
    }
}
