// The history of an address: sentences for states that rarely occur, and damaged records.

import CZombie
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

/// Memory full of random numbers, some of which look like records and addresses.
private final class Noise: MemoryReader {
    private var generator: SeededGenerator
    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    func read(at address: UInt64, upTo count: Int) -> [UInt8] {
        if count <= 0 || generator.next() % 8 == 0 { return [] }
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += withUnsafeBytes(of: number()) { Array($0) } }
        return Array(bytes.prefix(count))
    }

    func number() -> UInt64 {
        switch generator.next() % 6 {
        case 0: 0
        case 1: generator.next()
        case 2: generator.next() % 64
        case 3: UInt64.max - generator.next() % 64
        case 4: 1 << (generator.next() % 64)
        default: generator.next() % (1 << 36)
        }
    }
}

/// Memory of this process that takes the place of another process's memory. Reads outside of it fail.
private final class OwnMemory {
    static let bytes = 4096
    let start = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 4096)

    init() { start.initializeMemory(as: UInt8.self, repeating: 0, count: Self.bytes) }
    deinit { start.deallocate() }

    func store<Value: BitwiseCopyable>(_ value: Value, at offset: Int) {
        start.storeBytes(of: value, toByteOffset: offset, as: Value.self)
    }

    func address(_ offset: Int) -> UInt64 { UInt64(UInt(bitPattern: start + offset)) }

    /// A memory reader for the runtime's own code.
    var space: zg_space {
        var space = zg_space()
        space.context = start
        space.read = { start, to, from, count in
            let offset = from &- UInt64(UInt(bitPattern: start))
            guard let start, let to, offset < OwnMemory.bytes, count <= UInt64(OwnMemory.bytes) - offset else {
                return 0
            }
            to.copyMemory(from: start + Int(offset), byteCount: Int(count))
            return count
        }
        space.is_image = { _, _ in true }
        space.is_code = { _, _ in true }
        return space
    }
}

struct HistoryTests {
    /// Damaged metadata: a class in an extension that extends itself. The walk to the outer contexts has to end.
    @Test func circlesOfContextsEnd() throws {
        let memory = OwnMemory()
        let (metadata, descriptor, name, around, extended) = (64, 512, 1536, 768, 1792)
        memory.store(memory.address(2048), at: metadata - 16) // destroyer of instances
        memory.store(UInt32(16), at: metadata + 24) // instance size
        memory.store(UInt16(15), at: metadata + 28) // alignment mask of instances
        memory.store(UInt32(64), at: metadata + 32)
        memory.store(UInt32(16), at: metadata + 36)
        memory.store(memory.address(descriptor), at: metadata + 40)
        memory.store(UInt32(16), at: descriptor) // kind: a class
        memory.store(Int32(around - (descriptor + 4)), at: descriptor + 4)
        memory.store(Int32(name - (descriptor + 8)), at: descriptor + 8)
        for (index, byte) in "Circle".utf8.enumerated() { memory.store(byte, at: name + index) }
        memory.store(UInt32(1), at: around) // kind: an extension
        memory.store(Int32(extended - (around + 8)), at: around + 8)
        memory.store(UInt8(1), at: extended) // reference to the type at this distance
        memory.store(Int32(around - (extended + 1)), at: extended + 1)
        var space = memory.space
        var text = [CChar](repeating: 0, count: 64)
        #expect(zg_names_swift_class(&space, memory.address(metadata), &text, 64))
        #expect(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) == "Circle")
    }

    private func block(_ state: String, offset: Int64 = 0, className: String? = nil) -> AddressHistory {
        var history = AddressHistory(
            address: Address(0x1010), what: .block, processID: 7, program: "/bin/app", isFromCore: false)
        history.block = Finding.Block(
            start: Address(UInt64(bitPattern: 0x1010 - offset)), size: 48, offset: offset, state: state,
            className: className)
        return history
    }

    @Test(arguments: [
        ("live", 0, "0x1010 is the start of a live block of 48 bytes"),
        ("live", 16, "0x1010 is 16 bytes into a live block of 48 bytes at 0x1000"),
        ("live", -1, "0x1010 is 1 byte before a live block of 48 bytes at 0x1011"),
        ("freeing", 1, "0x1010 is 1 byte into a block that is being freed, of 48 bytes at 0x100f"),
        ("quarantined", 48, "0x1010 is directly behind a freed block of 48 bytes at 0xfe0"),
        ("reusable", 50, "0x1010 is 2 bytes after the end of a freed block of 48 bytes at 0xfde"),
    ])
    func sentences(state: String, offset: Int64, sentence: String) {
        #expect(block(state, offset: offset).sentence == sentence)
    }

    @Test func namesAreSafeToPrint() {
        var history = block("live", className: "Evil\u{1b}[2J")
        history.program = "/bin/\u{7}"
        let text = HistoryRenderer().render(history)
        #expect(text.contains("an object of class Evil\\u{1b}[2J"))
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 || $0 == "\n" })
        #expect(history.json.line.unicodeScalars.allSatisfy { $0.value >= 0x20 })
    }

    @Test func stateAndTimeAreSaid() {
        var history = block("reusable")
        history.isChanging = true
        history.isIsolated = true
        history.family = "operator new"
        history.freeTime = 1_763_700_000_250_000_000
        let text = HistoryRenderer().render(history, now: 1_763_700_003_000_000_000)
        #expect(
            text.contains(
                "==zguard== reusable (its slot may be reused at any time), from operator new, "
                    + "isolated (its own pages, then a guard page), freed at 2025-11-21T04:40:00.250Z (2.7 s ago)\n"))
        #expect(text.contains("==zguard== the record kept changing while it was read; this is the last state seen\n"))
        #expect(text.contains("==zguard== allocated, stack not known\n"))
    }

    @Test func sharedTrapsAreSaid() {
        var history = block("quarantined", className: "Shop.Cart")
        history.what = .trap
        history.trap = AddressHistory.Trap(part: .referenceCount, offset: 0, byte: 8, objects: 3)
        #expect(
            history.sentence
                == "0x1010 is a trap word that replaced the reference count of a deallocated Shop.Cart "
                + "(48 bytes at 0x1010); 3 freed objects share this trap word")
    }

    /// Arbitrary contents of a heap are read without a crash, and in bounded time.
    @Test(arguments: 0..<60)
    func damagedHeapsAreRead(seed: UInt64) {
        let noise = Noise(seed: seed)
        var page = zg_stats_page()
        withUnsafeMutableBytes(of: &page.layout) { bytes in
            for at in stride(from: 0, to: bytes.count - 8, by: 8) {
                bytes.storeBytes(of: noise.number(), toByteOffset: at, as: UInt64.self)
            }
        }
        page.layout.traps.slots_shift = UInt32(truncatingIfNeeded: noise.number() % 40)
        page.layout.traps.words_shift = UInt32(truncatingIfNeeded: noise.number() % 50)
        let mapping = Mapping(
            start: 0, end: 1 << 40, permissions: "rwxp", fileOffset: 0, inode: 1, path: "/nonexistent")
        var reader = HistoryReader(
            HeapReader(
                statistics: Statistics(page: page, processID: 1), memory: noise, mappings: [mapping],
                isRunning: seed % 2 == 0))
        for _ in 0..<20 {
            let base = [
                page.layout.slabs_base, page.layout.large.base, page.layout.isolated.base, page.layout.traps.base,
            ]
            let address = base[Int(noise.number() % 4)] &+ noise.number() % (1 << 20)
            let history = reader.history(of: Address(address))
            #expect(!history.sentence.isEmpty)
            #expect(!HistoryRenderer().render(history).isEmpty)
        }
    }

    @Test(arguments: [
        ("0x7f10", 0x7f10), ("0X7F10", 0x7f10), ("0", 0), ("4096", 4096), ("18446744073709551615", UInt64.max),
    ])
    func addresses(word: String, value: UInt64) throws {
        #expect(try HistoryCommand.address(word) == Address(value))
    }

    @Test(arguments: ["", "0x", "7f10", "-1", "+1", "0x+1", " 1", "0x1ffffffffffffffff", "18446744073709551616"])
    func wrongAddresses(word: String) {
        #expect(throws: Failure.self) { try HistoryCommand.address(word) }
    }
}
