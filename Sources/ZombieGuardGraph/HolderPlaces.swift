// Describes the place that holds a word: a property of an object, a block, a variable, or the stack frame of a
// function.

import CUnwind
import CZombie
import ZombieGuard

/// Describes addresses of words in a process or a core file.
final class HolderPlaces {
    /// A thread, and the registers from which its stack is unwound.
    struct Thread {
        var id: Int32
        /// The runtime's number of the thread; 0 if unknown.
        var number: Int
        var name: String?
        var registers: [UInt64]
        var known: UInt64
        /// Whether the thread waits for the result. After a finding, this is the thread that used the block.
        var isOwn = false
        /// Whether the program counter is the return address of a call.
        var isInCall = false

        /// Lower end of the part of the stack that is searched; 0: the stack pointer.
        var bound: UInt64 = 0

        var stackPointer: UInt64 { max(registers[Int(ZG_THREAD_SP)], bound) }
    }

    private let source: HeapReader
    private let lookup: HeapLookup
    private let names: ObjectNames
    private let threads: [Thread]
    private let unwinder: StackUnwinder
    private var modules: ProcessModules
    private var frames: FrameReader
    private var stacks: [Int32: [(frame: Finding.Frame, stackPointer: UInt64)]] = [:]
    private var labels: [ObjectNames.Class: (name: String?, symbol: String?)] = [:]
    private var sizes: [ObjectNames.Class: UInt64] = [:]
    private var layouts: [ObjectNames.Class: ObjectLayout] = [:]
    private let reader: LayoutReader

    /// - Parameter stacks: copies of the stacks of a running process; nil if its threads are stopped.
    init(_ source: HeapReader, threads: [Thread], stacks: (any MemoryReader)? = nil) {
        self.source = source
        self.threads = threads
        lookup = HeapLookup(source, isStopped: stacks == nil)
        names = ObjectNames(source)
        reader = LayoutReader(source.memory)
        unwinder = StackUnwinder(mappings: source.mappings, memory: stacks ?? source.memory)
        modules = ProcessModules(mappings: source.mappings, memory: source.memory)
        frames = FrameReader(source)
    }

    // MARK: Blocks

    /// The live block at a place; nil if there is none, or the place is behind the block.
    func block(at place: UInt64) -> BlockRecord? {
        guard case .block(let record) = lookup.place(of: place), record.isLive, place >= record.start,
            place - record.start < record.size
        else { return nil }
        return record
    }

    /// The holder in a live block.
    func holder(in record: BlockRecord, at place: UInt64) -> Finding.Holder {
        typealias Place = Finding.Holder.Place
        let offset = place &- record.start
        var holder = Finding.Holder(
            place: Place.memory,
            block: Finding.Block(
                start: Address(record.start), size: record.size, offset: Int64(truncatingIfNeeded: offset),
                state: Finding.Block.State.live.rawValue),
            alloc: frames.stack(record.block.alloc_stack))
        guard let known = names.class(of: record) else { return holder }
        let label = labels[known] ?? names.name(of: known)
        labels[known] = label
        holder.className = label.name
        holder.classSymbol = label.symbol
        holder.isTyped = true
        guard known.isSwift else { return holder }
        holder.isTyped = kind(of: known, at: offset, of: record) != .number
        let size = sizes[known] ?? names.instanceSize(of: known)
        sizes[known] = size
        if size == 0 {
            holder.place = Place.capture
            // Includes boxes, which have the metadata of closure contexts.
        } else if offset >= size {
            holder.place = Place.element
        } else if let member = names.property(of: known, at: offset) {
            holder.place = Place.field
            holder.member = member
        }
        return holder
    }

    private func kind(of class: ObjectNames.Class, at offset: UInt64, of record: BlockRecord) -> ReferenceKind {
        let layout = layouts[`class`] ?? reader.objects(of: `class`.pointer)
        layouts[`class`] = layout
        let words = RemoteWords(memory: source.memory, start: record.start, size: record.size)
        return layout.kind(at: offset, of: record.start, words)
    }

    /// The freed block at an address, and the stacks of its allocation and free.
    func freedBlock(at address: UInt64) -> (Finding.Block, Finding.Stacks) {
        guard case .block(let record) = lookup.place(of: address) else {
            return (Finding.Block(start: Address(address), size: 0), Finding.Stacks())
        }
        var block = Finding.Block(
            start: Address(record.start), size: record.size, offset: Int64(truncatingIfNeeded: address &- record.start),
            state: zg_block_state_text(record.block.header & 0xff).map { String(cString: $0) })
        if let known = record.freedClass.flatMap({ names.class(number: $0) }) {
            let label = names.name(of: known)
            (block.className, block.classSymbol) = (label.name, label.symbol)
            block.language = (known.isSwift ? Finding.Block.Language.swift : .cxx).rawValue
        }
        return (
            block,
            Finding.Stacks(
                free: frames.stack(record.block.free_stack), alloc: frames.stack(record.block.alloc_stack))
        )
    }

    // MARK: Other memory

    /// The global variable at a place; nil if the place is in no image.
    func global(at place: UInt64) -> Finding.Holder? {
        modules.variable(at: place).map { Finding.Holder(place: Finding.Holder.Place.global, frame: $0) }
    }

    /// The stack frame or thread-local variable at a place in a mapping with stacks; nil if the place is below all
    /// stacks.
    func stack(at place: UInt64, in mapping: Mapping) -> Finding.Holder? {
        let owner = threads.filter {
            $0.stackPointer >= mapping.start && $0.stackPointer <= place &+ RootRanges.redZone
        }
        .max { $0.stackPointer < $1.stackPointer }
        guard let owner else { return nil }
        let frames =
            stacks[owner.id] ?? unwinder.frames(from: owner.registers, known: owner.known, isInCall: owner.isInCall)
        stacks[owner.id] = frames
        // Thread-local variables are above the outermost function of a thread.
        let inner = frames.firstIndex { $0.stackPointer > place }
        if inner == nil, let variable = threadLocal(at: place, in: mapping) { return variable }
        var holder = Finding.Holder(place: Finding.Holder.Place.stack)
        // The frame with the highest stack pointer at or below the place. For a place in the ABI's red zone, the
        // innermost frame: a leaf function uses the bytes below its stack pointer.
        let index = max(0, (inner ?? frames.count) - 1)
        holder.frame = frames[index].frame
        if owner.isOwn { holder.depth = index } else { holder.thread = thread(owner) }
        return holder
    }

    private func thread(_ thread: Thread) -> Finding.Thread { Finding.Thread(id: thread.number, name: thread.name) }

    /// An upper bound of the size of a thread's static TLS block. It includes glibc's reserve for libraries that are
    /// opened later, which is less than 4 KiB.
    private lazy var mostThreadLocalBytes: UInt64 = {
        var total: UInt64 = 4096
        for mapping in source.mappings where mapping.fileOffset == 0 && mapping.path.hasPrefix("/") {
            let image = try? ELFImage(read: { source.memory.read(at: mapping.start &+ $0, upTo: $1) })
            for segment in image?.segments ?? [] where segment.type == ELFImage.SegmentType.threadLocal {
                total += min(segment.memorySize, 1 << 20) + min(segment.alignment, 4096)
            }
        }
        return total
    }()

    /// A thread-local variable, or a value of `pthread_setspecific`; nil if there is neither, and always on arm64. On
    /// x86-64 the variables end at the thread control block, which has its own address at offsets 0 and 16 (tcbhead_t,
    /// part of the ABI). In glibc the control block also contains the values of the first 32 keys, which have no names.
    func threadLocal(at place: UInt64, in mapping: Mapping) -> Finding.Holder? {
        #if arch(x86_64)
        let end = min(mapping.end, place &+ mostThreadLocalBytes)
        let start = max(mapping.start, place &- min(place, Self.mostControlBytes))
        guard start < end else { return nil }
        let words = source.memory.records(UInt64.self, at: start, count: Int((end - start) / 8))
        for index in words.indices.dropLast(2) {
            let address = start &+ UInt64(index) * 8
            guard words[index] == address, words[index + 2] == address else { continue }
            // The main thread's variables are in memory of the loader, those of another thread above its stack.
            let owner =
                threads.first { $0.stackPointer >= mapping.start && $0.stackPointer < mapping.end }
                ?? threads.first { Int($0.id) == source.statistics.processID }
            return Finding.Holder(
                place: Finding.Holder.Place.threadLocal,
                frame: place < address
                    ? modules.threadLocal(
                        at: place, threadPointer: address, executable: source.statistics.program) : nil,
                thread: owner.map(thread))
        }
        #endif
        return nil
    }

    /// Size of glibc 2.36's struct pthread (`_thread_db_sizeof_pthread`), which begins with the thread control block.
    private static let mostControlBytes: UInt64 = 2368
}

extension HolderPlaces {
    /// The threads of a stopped process.
    static func threads(of stopped: StoppedThreads, waiting: HeapSnapshot.Waiting? = nil) -> [Thread] {
        stopped.threads.map { thread in
            let isWaiting = thread.id == waiting?.id
            return Thread(
                id: thread.id, number: 0, name: thread.name, registers: thread.registers, known: thread.known,
                isOwn: isWaiting, bound: isWaiting ? waiting?.stackPointer ?? 0 : 0)
        }
    }
}
