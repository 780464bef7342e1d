// Reads what the graph of a heap needs from a process or a core file: blocks, references between them, and roots.

import CUnwind
import CZombie
import Glibc
import ZombieGuard

/// The live blocks of a heap, and on demand the references among them. Everything is conservative: any aligned word
/// that points into a block, after its tag bits are removed, is a reference.
package final class HeapSnapshot {
    package let source: HeapReader
    package let blocks = BlockTable()
    /// Candidates for class pointers: first words that point into an image or into memory where Swift makes metadata.
    /// Bit 0 is set if the second word looks like a Swift reference count.
    package let firstWords = FirstWords()
    /// References of block n: `targets` from `offsets[n]` to `offsets[n + 1]`. Empty if no references were read.
    package let offsets = FlatArray<UInt32>()
    package let targets = FlatArray<UInt32>()
    /// Blocks to which roots point, each once, and the address of the first such root (0: a register).
    package let roots = FlatArray<UInt32>()
    package let rootPlaces = FlatArray<UInt64>()
    /// Pairs of a block and the block to which its second word refers as a Swift side table.
    package let sideTables = FlatArray<SideTable>()
    /// Time for which the process was stopped, in nanoseconds; 0 if it was not.
    package internal(set) var stoppedNanoseconds: UInt64 = 0
    /// Whether other threads of the program were running. One of them may have been about to get or store a block.
    package private(set) var hasOtherThreads = false
    /// Whether a copy of the process was read. The process was then stopped only while it was copied.
    package private(set) var isCopied = false
    /// Why the process was not copied; nil if it was, or need not be.
    package private(set) var whyNotCopied: String?
    /// Parts that could not be read, one line each, with control characters escaped.
    package private(set) var notes: [String] = []

    package struct SideTable: BitwiseCopyable {
        package var object: UInt32
        package var table: UInt32
    }

    /// How much of the heap is read.
    package enum Extent {
        /// Blocks and their classes only. The process runs meanwhile.
        case blocks
        /// Blocks, references, and roots. The process is stopped while it is copied, or else while it is read.
        case graph
    }

    let layout: HeapLayout
    private let images: [Range<UInt64>]
    /// Mask of the block states to read, one bit for each state.
    private let states: UInt32
    /// The areas of blocks.
    private let heapRanges: [Range<UInt64>]
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: HeapSnapshot.chunkBytes, alignment: 16)
    /// For blocks that are read alone while `buffer` holds others.
    private let spare = UnsafeMutableRawBufferPointer.allocate(byteCount: HeapSnapshot.chunkBytes, alignment: 16)
    private var isRoot: FlatArray<UInt8>?

    /// Data taken from a process while it was stopped, to be searched after it resumed.
    private struct Pending {
        var copy: CopiedHeap
        var registers: [[UInt64]]
        var others: [UInt64]
        /// Memory of the copy that is searched for roots.
        var ranges: [Range<UInt64>]
    }
    private var pending: Pending?
    /// The copy of the process, while it is read; nil: the process itself is read.
    private var copied: CopiedHeap?

    private static let chunkBytes = 1 << 20
    /// Largest gap between two blocks that are read in one call; same as in a check of the heap.
    private static let longestReadThrough: UInt64 = 4096
    /// User addresses of x86-64 and arm64 have at most 48 bits. Above them are tags: memory tags, Swift's spare bits,
    /// NaN boxes, counters of lock-free lists.
    private static let addressBits: UInt64 = 0xffff_ffff_ffff

    deinit {
        buffer.deallocate()
        spare.deallocate()
    }

    // MARK: Reading

    /// A thread that waits in the runtime for the end of the search.
    package struct Waiting {
        package var id: Int32
        /// The end of the program's part of its stack: the frames below are the runtime's. 0: unknown.
        package var stackPointer: UInt64
        /// Called after each stop, for threads that did not stop in time.
        package var left: ((StoppedThreads) -> Void)?

        fileprivate func registers(_ thread: StoppedThreads.Thread) -> [UInt64] {
            var registers = thread.registers
            if thread.id == id, stackPointer > registers[Int(ZG_THREAD_SP)] {
                registers[Int(ZG_THREAD_SP)] = stackPointer
            }
            return registers
        }
    }

    /// Reads a running process.
    ///
    /// - Parameters:
    ///   - process: a guarded process.
    ///   - extent: with `graph`, all threads are stopped: see ``Extent/graph``.
    ///   - waiting: the thread that waits in the runtime for the end of the search; nil if there is none.
    /// - Throws: ``GraphError`` if the process cannot be read or stopped.
    package static func of(
        _ process: GuardedProcess, _ extent: Extent, waiting: Waiting? = nil
    ) throws -> HeapSnapshot {
        if extent == .blocks {
            let snapshot = HeapSnapshot(try HeapReader(process: process))
            snapshot.readBlocks()
            snapshot.readContents(extent)
            return snapshot
        }
        // A process that waits for the search need not be copied.
        let advice = waiting != nil ? .needless : CopyAdvice(of: process)
        let snapshot = try of(stopped: process, waiting, advice)
        if snapshot.readCopy() { return snapshot }
        let second = try of(stopped: process, waiting, .impossible("the kernel has killed the copy"))
        second.stoppedNanoseconds += snapshot.stoppedNanoseconds
        return second
    }

    private static func of(
        stopped process: GuardedProcess, _ waiting: Waiting?, _ advice: CopyAdvice
    ) throws -> HeapSnapshot {
        let memory = try ProcessMemory(processID: process.processID)
        let runtime = ((try? Mapping.all(of: process.processID)) ?? []).filter {
            $0.path.hasSuffix(GuardedProcess.librarySuffix) && $0.permissions.contains("x")
        }
        var nanoseconds: UInt64 = 0
        for attempt in 1...attempts {
            let start = monotonicNanoseconds()
            let result = try stopped(process, memory, waiting, advice) { threads in
                attempt == attempts || !threads.contains { isInside(runtime, $0, except: waiting?.id) }
            }
            nanoseconds += monotonicNanoseconds() - start
            if let result {
                let snapshot = try result.get()
                snapshot.stoppedNanoseconds = nanoseconds
                return snapshot
            }
            usleep(pauseMicroseconds)
        }
        fatalError("the last attempt takes what it finds")
    }

    // A thread in the middle of malloc may have marked a slot's record as live, but hold only the slot's number, and
    // not yet the block's address. Then no word refers to the block. This state is short: try again.
    private static let attempts = 20, pauseMicroseconds: UInt32 = 500

    private static func isInside(_ code: [Mapping], _ thread: StoppedThreads.Thread, except waiting: Int32?) -> Bool {
        let place = thread.registers[Int(ZG_THREAD_PC)]
        return thread.id != waiting && code.contains { $0.start <= place && place < $0.end }
    }

    // Stops the threads. Returns nil if `isGood` is false for them. Otherwise copies the process, or reads its graph if
    // a copy is needless or impossible.
    private static func stopped(
        _ process: GuardedProcess, _ memory: ProcessMemory, _ waiting: Waiting?, _ advice: CopyAdvice,
        isGood: ([StoppedThreads.Thread]) -> Bool
    ) throws -> Result<HeapSnapshot, any Error>? {
        var result: Result<HeapSnapshot, any Error>?
        do throws(StoppedThreads.Refusal) {
            let all = try StoppedThreads(of: process.processID, memory: memory, copiesStacks: false) { stopped in
                if !isGood(stopped.threads) { return }
                result = Result {
                    let snapshot = HeapSnapshot(try HeapReader(process: process))
                    snapshot.note(stopped)
                    snapshot.read(&stopped, waiting, advice)
                    return snapshot
                }
            }
            waiting?.left?(all)
        } catch {
            throw GraphError(process.processID, error)
        }
        return result
    }

    // Reads a stopped process, or copies the process to be read later.
    private func read(_ stopped: inout StoppedThreads, _ waiting: Waiting?, _ advice: CopyAdvice) {
        let threads = stopped.threads.map { waiting?.registers($0) ?? $0.registers }
        // The waiting thread is in a call, which need not preserve vector registers: those of this thread hold no live
        // values.
        let others = stopped.threads.filter { $0.id != waiting?.id }.flatMap { stopped.vectorWords(of: $0.id) }
        switch advice {
        case .needless: break
        case .impossible(let reason): whyNotCopied = reason
        case .possible(let filters):
            whyNotCopied =
                stopped.unstopped.isEmpty ? copy(&stopped, filters, threads, others) : "a thread did not stop in time"
            isCopied = whyNotCopied == nil
        }
        if !isCopied { readGraph(registers: threads, others: others) }
    }

    // Copies a stopped process. Returns nil, or the reason why the process was not copied.
    private func copy(
        _ stopped: inout StoppedThreads, _ filters: UInt64, _ registers: [[UInt64]], _ others: [UInt64]
    ) -> String? {
        let process: ProcessCopy
        do throws(SystemError) {
            process = try stopped.copy(of: source.statistics.processID, by: layout.snapshot, filters: filters)
        } catch {
            switch error.number {
            case ECHILD: return "the process is a reaper of orphans"
            case EBUSY: return "no thread can fork now"
            default: return "the fork failed: \(error)"
            }
        }
        guard let copy = try? CopiedHeap(process, layout.windows) else { return "the copy cannot be read" }
        if !keepWindows(in: copy) { return "many blocks are in windows" }
        let ranges = rootRanges(registers)
        var shared: UInt64 = 0
        var forked: [Range<UInt64>] = []
        for range in ranges {
            let behind = source.mappings.partitionPoint { $0.start > range.lowerBound }
            guard behind > 0 else { continue }
            if copy.has(source.mappings[behind - 1], source.memory) {
                forked.append(range)
                continue
            }
            shared +=
                source.memory.parts(from: range.lowerBound, count: Int(clamping: range.upperBound - range.lowerBound))?
                .reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } ?? range.upperBound - range.lowerBound
            if shared > CopiedHeap.mostBytes { return "much memory is shared" }
            forEachRoot(in: range) { word, place in
                if mayBeBlock(word) { copy.words.append(CopiedHeap.Word(place: place, word: word)) }
            }
        }
        for mapping in source.mappings where mapping.permissions.hasPrefix("r") && mapping.start < mapping.end {
            let range = mapping.start..<mapping.end
            guard heapRanges.contains(where: { $0.overlaps(range) }), !layout.windows.contains(mapping.start) else {
                continue
            }
            if !copy.has(mapping, source.memory) { return "madvise keeps blocks from being copied" }
        }
        pending = Pending(copy: copy, registers: registers, others: others, ranges: forked)
        return nil
    }

    // Reads the graph from the copy, then ends the copy. Returns false if the copy was killed meanwhile.
    private func readCopy() -> Bool {
        guard let pending else { return true }
        copied = pending.copy
        readGraph(
            registers: pending.registers, others: pending.others, ranges: pending.ranges, kept: pending.copy.words)
        copied = nil
        self.pending = nil
        if pending.copy.isExhausted { notes.append(source.noteOfExhaustion) }
        return pending.copy.process.exists
    }

    // Whether a word may refer to a block. Inexact, because it does not use the table of blocks.
    private func mayBeBlock(_ word: UInt64) -> Bool {
        isHeap(word & Self.addressBits) || word >> 62 == 3 && isHeap(word << 3 & Self.addressBits)
    }

    // Stores the contents of live blocks in windows, which a fork leaves out. Returns false if there are too many.
    private func keepWindows(in copy: CopiedHeap) -> Bool {
        let windows = layout.windows
        guard windows.pageCount > 0, windows.records != 0 else { return true }
        var isGood = true
        forEachWindow { page, alias in
            guard isGood else { return }
            let start = windows.start &+ page &* windows.pageSize &+ UInt64(alias.start)
            let room = UInt64(alias.slot_bytes)
            let size = Int(room - min(UInt64(alias.block.header >> 16), room))
            let read = memory.read(at: start, into: UnsafeMutableRawBufferPointer(rebasing: spare[..<size]))
            isGood = copy.keep(blockAt: start, UnsafeRawBufferPointer(rebasing: spare[..<read]))
        }
        return isGood
    }

    /// Reads a core file.
    ///
    /// - Throws: ``GraphError`` if the contents of blocks are missing; ``CoreError`` if there is no heap.
    package static func of(_ core: CoreFile, _ extent: Extent) throws -> HeapSnapshot {
        let snapshot = HeapSnapshot(try HeapReader(core: core))
        if extent == .blocks {
            snapshot.readBlocks()
            snapshot.readContents(extent)
        } else {
            snapshot.readGraph(registers: core.threads.map(\.registers))
            try snapshot.requireContents(of: core)
        }
        return snapshot
    }

    /// Throws ``GraphError`` if a core file lacks the contents of live blocks.
    static func requireContents(of core: CoreFile, _ source: HeapReader) throws {
        if !core.isOfDebugger { return }
        let snapshot = HeapSnapshot(source)
        snapshot.readBlocks()
        try snapshot.requireContents(of: core)
    }

    private func requireContents(of core: CoreFile) throws {
        let missing = core.isOfDebugger ? blankPages() : 0
        if missing > 0 { throw GraphError(missing: missing) }
    }

    /// Reads a process whose threads the caller has stopped. `waiting` as in the other function of this name.
    static func of(
        _ process: GuardedProcess, _ stopped: inout StoppedThreads, waiting: Waiting
    ) throws -> HeapSnapshot {
        let snapshot = HeapSnapshot(try HeapReader(process: process))
        snapshot.note(stopped)
        snapshot.read(&stopped, waiting, .needless)
        return snapshot
    }

    /// The live blocks of a process, which may run.
    static func liveBlocks(of source: HeapReader) -> BlockTable {
        let snapshot = HeapSnapshot(source)
        snapshot.readBlocks()
        return snapshot.blocks
    }

    /// The freed blocks whose addresses cannot be reused yet.
    static func freedBlocks(of source: HeapReader) -> BlockTable {
        let snapshot = HeapSnapshot(source, states: [zg_state_quarantined, zg_state_held, zg_state_retired])
        snapshot.readBlocks()
        return snapshot.blocks
    }

    private init(_ source: HeapReader, states: [zg_state] = [zg_state_live]) {
        self.source = source
        self.states = states.reduce(0) { $0 | 1 << UInt32($1.rawValue) }
        layout = source.statistics.heapLayout
        images = Self.images(of: source.mappings)
        heapRanges = source.heapAreas
    }

    // `others`: words of vector registers. `ranges`: memory that is searched for roots, by default all. `kept`: words
    // of memory that the copy lacks.
    private func readGraph(
        registers: [[UInt64]], others: [UInt64] = [], ranges: [Range<UInt64>]? = nil,
        kept: FlatArray<CopiedHeap.Word>? = nil
    ) {
        readBlocks()
        readContents(.graph)
        isRoot = FlatArray(repeating: 0, count: blocks.count)
        for thread in registers { for word in thread { addRoot(word, at: 0) } }
        for word in others { addRoot(word, at: 0) }
        if let kept { for word in kept.elements { addRoot(word.word, at: word.place) } }
        for range in ranges ?? rootRanges(registers) {
            forEachRoot(in: range) { word, place in addRoot(word, at: place) }
        }
        isRoot = nil
    }

    private func rootRanges(_ registers: [[UInt64]]) -> [Range<UInt64>] {
        RootRanges(
            mappings: source.mappings, own: source.ownRanges + heapRanges, heap: heapRanges,
            stackPointers: registers.map { $0[Int(ZG_THREAD_SP)] }
        ).all
    }

    private func note(_ stopped: StoppedThreads) {
        hasOtherThreads = stopped.threads.count > 1
        for thread in stopped.unstopped {
            notes.append(
                "thread \(thread.id) did not stop in time: blocks that only its registers lead to may be shown")
        }
    }

    // Number of live isolated blocks, in windows or on pages of their own, whose first page is all zeros. gdb reads
    // memory in large pieces, and writes zeros for a piece that has a guard page in it.
    private func blankPages() -> Int {
        (0..<blocks.count).filter { block in
            let start = blocks.starts.base[block]
            guard layout.windows.contains(start) || layout.isolated.contains(start) else { return false }
            return memory.read(at: start & ~4095, upTo: 4096).allSatisfy { $0 == 0 }
        }.count
    }

    private var memory: any MemoryReader { copied ?? source.memory }

    // MARK: Blocks

    private func readBlocks() {
        for sizeClass in layout.classes where sizeClass.slotSize > 1 && sizeClass.count > 0 { readSlots(of: sizeClass) }
        readWindows()
        readSpans()
    }

    // Calls `body` with each populated part of an array of records, and with the index of the part's first record.
    private func forEachPart<Record: BitwiseCopyable>(
        of type: Record.Type, at base: UInt64, count: UInt64, _ body: (UInt64, UnsafeBufferPointer<Record>) -> Void
    ) {
        let stride = UInt64(MemoryLayout<Record>.stride)
        let most = UInt64(Self.chunkBytes) / stride
        var first: UInt64 = 0
        while first < count {
            let wanted = min(count - first, 1 << 24)
            let start = base &+ first &* stride
            let parts = memory.parts(from: start, count: Int(wanted * stride)) ?? [start..<start &+ wanted &* stride]
            var next = first
            for part in parts {
                next = max(next, (part.lowerBound &- base) / stride)
                let end = min((part.upperBound &- base &+ stride - 1) / stride, first + wanted)
                while next < end {
                    let bytes = Int(min(most, end - next) * stride)
                    let read = memory.read(
                        at: base &+ next &* stride, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<bytes]))
                    let records = UnsafeRawBufferPointer(rebasing: buffer[..<(read / Int(stride) * Int(stride))])
                    body(next, records.bindMemory(to: Record.self))
                    if read < bytes { break }
                    next += UInt64(bytes) / stride
                }
                next = max(next, end)
            }
            first += wanted
        }
    }

    private func isWanted(_ header: UInt32) -> Bool { header & 0xff < 32 && states >> (header & 0xff) & 1 != 0 }

    private func readSlots(of sizeClass: HeapLayout.SizeClass) {
        let size = sizeClass.slotSize
        blocks.beginArea(base: sizeClass.slots, slotSize: size, slotCount: Int(clamping: sizeClass.count))
        forEachPart(of: zg_block.self, at: sizeClass.blocks, count: sizeClass.count) { first, records in
            for index in 0..<records.count where isWanted(records[index].header) {
                let slot = first &+ UInt64(index)
                blocks.add(
                    slot: Int(slot), start: sizeClass.slots &+ slot &* size,
                    size: size &- min(UInt64(records[index].header >> 16), size), stack: records[index].alloc_stack,
                    family: records[index].header >> 8 & 7)
            }
        }
    }

    private func readWindows() {
        let windows = layout.windows
        guard windows.pageCount > 0, windows.records != 0 else { return }
        blocks.beginArea(base: windows.start, slotSize: windows.pageSize, slotCount: Int(windows.pageCount))
        forEachWindow { page, alias in
            let room = UInt64(alias.slot_bytes)
            blocks.add(
                slot: Int(page), start: windows.start &+ page &* windows.pageSize &+ UInt64(alias.start),
                size: room - min(UInt64(alias.block.header >> 16), room), stack: alias.block.alloc_stack,
                family: alias.block.header >> 8 & 7)
        }
    }

    // Calls `body` with the number and the record of each page in the windows whose block is in one of ``states``.
    private func forEachWindow(_ body: (UInt64, zg_alias) -> Void) {
        let windows = layout.windows
        forEachPart(of: zg_alias.self, at: windows.records, count: windows.pageCount) { first, records in
            for index in 0..<records.count where isWanted(records[index].block.header) {
                body(first &+ UInt64(index), records[index])
            }
        }
    }

    private func readSpans() {
        let areas = [layout.large, layout.isolated]
        var spans: [(start: UInt64, size: UInt64, stack: UInt32, family: UInt32)] = []
        forEachPart(of: zg_span.self, at: layout.spans, count: layout.spanCount) { _, records in
            for index in 0..<records.count where isWanted(records[index].block.header) {
                let span = records[index]
                guard let area = areas.first(where: { $0.contains(span.start) }),
                    span.size <= area.size - (span.start &- area.start)
                else { continue }
                spans.append((span.start, span.size, span.block.alloc_stack, span.block.header >> 8 & 7))
            }
        }
        spans.sort { $0.start < $1.start }
        blocks.beginSorted()
        blocks.index(
            regionsAt: layout.slabs.start, shift: layout.slabs.shift,
            count: min(layout.classes.count, Int(clamping: layout.slabs.size >> min(layout.slabs.shift, 63))))
        for span in spans {
            blocks.addSorted(start: span.start, size: span.size, stack: span.stack, family: span.family)
        }
    }

    // MARK: Contents

    /// Bytes of a block that are read.
    private func length(of block: UInt32, _ extent: Extent) -> UInt64 {
        let size = blocks.size(of: block)
        return extent == .graph ? size : min(size, 16)
    }

    private func readContents(_ extent: Extent) {
        var first = 0
        while first < blocks.count {
            let start = blocks.starts.base[first]
            var end = start &+ length(of: UInt32(first), extent)
            if end &- start > UInt64(Self.chunkBytes) {
                readLarge(UInt32(first), extent)
                first += 1
                continue
            }
            var next = first + 1
            while next < blocks.count {
                let following = blocks.starts.base[next]
                let last = following &+ length(of: UInt32(next), extent)
                if following < end || following &- end > Self.longestReadThrough
                    || last &- start > UInt64(Self.chunkBytes)
                {
                    break
                }
                end = last
                next += 1
            }
            read(first..<next, from: start, to: end, extent)
            first = next
        }
        if extent == .graph { offsets.append(UInt32(targets.count)) }
    }

    private func read(_ range: Range<Int>, from start: UInt64, to end: UInt64, _ extent: Extent) {
        let count = Int(end &- start)
        let whole = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        let read = memory.read(at: start, into: whole)
        for block in range {
            let offset = Int(blocks.starts.base[block] &- start)
            let length = Int(length(of: UInt32(block), extent))
            if extent == .graph { offsets.append(UInt32(targets.count)) }
            // A page inside a range may be unreadable, such as a guard page between two isolated blocks.
            if offset + length > read {
                readAlone(UInt32(block), extent)
            } else {
                scan(UInt32(block), whole.baseAddress! + offset, length, from: 0, extent)
            }
        }
    }

    private func readAlone(_ block: UInt32, _ extent: Extent) {
        let start = blocks.starts.base[Int(block)]
        forEachChunk(from: start, count: length(of: block, extent), spare) { address, bytes in
            scan(block, bytes.baseAddress!, bytes.count, from: address &- start, extent)
        }
    }

    private func readLarge(_ block: UInt32, _ extent: Extent) {
        let start = blocks.starts.base[Int(block)]
        if extent == .graph { offsets.append(UInt32(targets.count)) }
        forEachChunk(from: start, count: length(of: block, extent), buffer) { address, bytes in
            scan(block, bytes.baseAddress!, bytes.count, from: address &- start, extent)
        }
    }

    // Reads the populated parts of a range.
    private func forEachChunk(
        from start: UInt64, count: UInt64, _ buffer: UnsafeMutableRawBufferPointer,
        _ body: (UInt64, UnsafeRawBufferPointer) -> Void
    ) {
        var at = start
        let end = start &+ count
        while at < end {
            let wanted = Int(min(end - at, 1 << 32))
            let parts = memory.parts(from: at, count: wanted) ?? [at..<at &+ UInt64(wanted)]
            for part in parts {
                var next = part.lowerBound
                while next < part.upperBound {
                    let bytes = Int(min(UInt64(Self.chunkBytes), part.upperBound - next))
                    let read = memory.read(
                        at: next, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<bytes]))
                    if read > 0 { body(next, UnsafeRawBufferPointer(rebasing: buffer[..<read])) }
                    // Skip an unreadable page.
                    next = read == bytes ? next &+ UInt64(bytes) : (next &+ UInt64(read)) / 4096 &* 4096 &+ 4096
                }
            }
            at = at &+ UInt64(wanted)
        }
    }

    // Finds the class pointer and the references of a block in a part of its contents that begins at offset `place`.
    private func scan(
        _ block: UInt32, _ bytes: UnsafeRawPointer, _ count: Int, from place: UInt64, _ extent: Extent
    ) {
        // Load unaligned: contents of windows and isolated blocks may begin at any address of the buffer.
        let words = count / 8
        @inline(__always) func word(_ index: Int) -> UInt64 {
            bytes.loadUnaligned(fromByteOffset: index &* 8, as: UInt64.self)
        }
        if place == 0, words >= 1 { noteFirstWord(of: block, word(0), words > 1 ? word(1) : 0) }
        if extent == .blocks { return }
        var last = BlockTable.none
        for index in 0..<words {
            let raw = word(index)
            var target = blocks.block(at: raw & Self.addressBits)
            if target == BlockTable.none, raw >> 62 == 3 {
                target = blocks.block(at: raw << 3 & Self.addressBits)
                if target != BlockTable.none, index == 1, place == 0 {
                    sideTables.append(SideTable(object: block, table: target))
                }
            }
            if target == BlockTable.none || target == last { continue }
            last = target
            targets.append(target)
        }
    }

    private func noteFirstWord(of block: UInt32, _ word: UInt64, _ second: UInt64) {
        if word & 7 != 0 || word < 4096 { return }
        let family = zg_alloc_family(rawValue: blocks.family(of: block))
        let mayBeSwift = family == zg_family_malloc || family == zg_family_aligned
        if mayBeSwift {
            guard ObjectNames.isReferenceCount(second), blocks.size(of: block) >= 16 else { return }
        } else if family != zg_family_new, family != zg_family_new_aligned {
            return
        }
        guard isInImage(word) || mayBeSwift && isMetadataSlab(word) else { return }
        if let number = firstWords.number(of: word | (mayBeSwift ? 1 : 0)) {
            blocks.setFirstWord(number, of: block)
        }
    }

    // Whether an address may be that of generic metadata, which Swift makes in blocks of 16 KiB (MetadataAllocator).
    private func isMetadataSlab(_ address: UInt64) -> Bool {
        let block = blocks.block(at: address)
        return block == BlockTable.none ? address < 1 << 47 && isInOtherMemory(address) : blocks.size(of: block) >= 4096
    }

    // Whether an address is in other writable memory: libc's heap may serve the metadata blocks of 16 KiB.
    private func isInOtherMemory(_ address: UInt64) -> Bool {
        let mappings = source.mappings
        var low = 0
        var high = mappings.count
        while low < high {
            let middle = (low + high) / 2
            if mappings[middle].start > address { high = middle } else { low = middle + 1 }
        }
        return low > 0 && address < mappings[low - 1].end && mappings[low - 1].permissions.hasPrefix("rw")
            && !isHeap(address)
    }

    private func isHeap(_ address: UInt64) -> Bool { heapRanges.contains { $0.contains(address) } }

    private func isInImage(_ address: UInt64) -> Bool {
        var low = 0
        var high = images.count
        return images.withUnsafeBufferPointer { images in
            while low < high {
                let middle = (low &+ high) / 2
                if images[middle].lowerBound > address { high = middle } else { low = middle &+ 1 }
            }
            return low > 0 && address < images[low &- 1].upperBound
        }
    }

    // Mappings of files, and the anonymous memory that directly follows them (.bss).
    private static func images(of mappings: [Mapping]) -> [Range<UInt64>] {
        var images: [Range<UInt64>] = []
        for mapping in mappings where mapping.start < mapping.end {
            let isFile = mapping.path.hasPrefix("/")
            if let last = images.last, last.upperBound == mapping.start, isFile || mapping.path.isEmpty {
                images[images.count - 1] = last.lowerBound..<mapping.end
            } else if isFile {
                images.append(mapping.start..<mapping.end)
            }
        }
        return images
    }

    /// The block to which a word refers; ``BlockTable/none`` if it is no reference.
    @inline(__always)
    package func target(of word: UInt64) -> UInt32 {
        let target = blocks.block(at: word & Self.addressBits)
        return target == BlockTable.none && word >> 62 == 3 ? blocks.block(at: word << 3 & Self.addressBits) : target
    }

    // MARK: Roots

    @inline(__always)
    private func forEachRoot(in range: Range<UInt64>, _ body: (UInt64, UInt64) -> Void) {
        let start = (range.lowerBound &+ 7) & ~7
        if start >= range.upperBound { return }
        forEachChunk(from: start, count: range.upperBound - start, buffer) { address, bytes in
            for index in 0..<bytes.count / 8 {
                let raw = bytes.loadUnaligned(fromByteOffset: index &* 8, as: UInt64.self)
                body(raw, address &+ UInt64(index) &* 8)
            }
        }
    }

    @inline(__always)
    private func addRoot(_ raw: UInt64, at place: UInt64) {
        let target = target(of: raw)
        guard target != BlockTable.none, let isRoot, isRoot.base[Int(target)] == 0 else { return }
        isRoot.base[Int(target)] = 1
        roots.append(target)
        rootPlaces.append(place)
    }
}

/// Nanoseconds of a clock that does not jump.
func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Why the graph of a process cannot be read.
package struct GraphError: Error, CustomStringConvertible {
    package let description: String
    package let hint: String?

    init(missing blocks: Int) {
        description = "the core file lacks the contents of \(blocks) live blocks: gdb could not read their memory"
        hint = "read the process, or a core file that the kernel wrote"
    }

    init(_ processID: Int, _ refusal: StoppedThreads.Refusal) {
        switch refusal {
        case .traced:
            description = "process \(processID) is being debugged, so that its threads cannot be stopped"
            hint = "read a core file of it: generate-core-file in gdb"
        case .refused(let error):
            description = "the threads of process \(processID) cannot be stopped: \(error)"
            hint = "the user of the process, or root, may; or read a core file"
        }
    }
}

extension StoppedThreads {
    /// Runs `body` while all threads of a process are stopped.
    ///
    /// - Throws: ``GraphError`` if the threads cannot be stopped; what `body` throws.
    static func search<Found>(
        _ process: GuardedProcess, copiesStacks: Bool = true, _ body: (inout StoppedThreads) throws -> Found
    ) throws -> Found {
        let memory = try ProcessMemory(processID: process.processID)
        var result: Result<Found, any Error>?
        do throws(StoppedThreads.Refusal) {
            _ = try StoppedThreads(of: process.processID, memory: memory, copiesStacks: copiesStacks) { stopped in
                result = Result { try body(&stopped) }
            }
        } catch {
            throw GraphError(process.processID, error)
        }
        guard let result else { throw GraphError(process.processID, .refused(SystemError(number: ESRCH))) }
        return try result.get()
    }
}
