// Inspects a guarded process from outside. The test process itself takes the place of the guarded process.

import CSystem
import CZombie
import Foundation
import Synchronization
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

/// A statistics page and a small heap in this process, with the runtime's layout.
private final class FakeHeap {
    static let slotSize = 64
    static let slots = 300
    static let spanSize = 5000

    let page: UnsafeMutablePointer<zg_stats_page>
    let slotMemory = UnsafeMutableRawPointer.allocate(byteCount: slotSize * slots, alignment: 4096)
    let blocks = UnsafeMutablePointer<zg_block>.allocate(capacity: slots)
    let spanMemory = UnsafeMutableRawPointer.allocate(byteCount: spanSize, alignment: 4096)
    let spans = UnsafeMutablePointer<zg_span>.allocate(capacity: 2)
    let nodes = UnsafeMutablePointer<zg_depot_node>.allocate(capacity: 4)
    private let descriptor: Int32

    init(options: String = "", version: UInt32 = UInt32(ZG_STATS_VERSION)) throws {
        let zeros = [UInt8](repeating: 0, count: Int(ZG_STATS_BYTES))
        descriptor = zg_system_sealed_memfd(ZG_STATS_NAME, zeros, zeros.count)
        try #require(descriptor >= 0)
        let mapped = mmap(nil, Int(ZG_STATS_BYTES), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        page = try #require(mapped).bindMemory(to: zg_stats_page.self, capacity: 1)
        page.pointee.magic = 0x3144_5241_5547_475a
        page.pointee.version = version
        page.pointee.bytes = UInt32(MemoryLayout<zg_stats_page>.size)
        page.pointee.pid = UInt32(getpid())
        withUnsafeMutableBytes(of: &page.pointee.program) { $0.copyBytes(from: "/opt/fake".utf8) }
        withUnsafeMutableBytes(of: &page.pointee.options) { $0.copyBytes(from: options.utf8) }
        page.pointee.degradations = 1 << UInt64(zg_degradation_depot_full.rawValue)
        withUnsafeMutableBytes(of: &page.pointee.counters) {
            $0.bindMemory(to: UInt64.self)[Int(zg_counter_findings.rawValue)] = 42
        }
        blocks.initialize(repeating: zg_block(), count: Self.slots)
        memset(slotMemory, 0x55, Self.slotSize * Self.slots)
        memset(spanMemory, 0x55, Self.spanSize)
        spans.initialize(repeating: zg_span(), count: 2)
        nodes.initialize(repeating: zg_depot_node(), count: 4)
        for index in 1..<4 { nodes[index].pc_and_depth = UInt64(index) << 48 | codeAddress }
        nodes[2].parent = 1
        nodes[3].parent = 3 // damaged: the node is its own parent
        for index in 0..<Self.slots { blocks[index] = block(zg_state_quarantined) }
        spans[1].block = block(zg_state_quarantined, slack: 0)
        spans[1].start = UInt64(UInt(bitPattern: spanMemory))
        spans[1].size = UInt64(Self.spanSize)
        setLayout()
    }

    // A return address in this test program.
    private let codeAddress = UInt64(UInt(bitPattern: dlsym(nil, "swift_demangle"))) + 8

    func block(_ state: zg_state, slack: UInt32 = 4) -> zg_block {
        zg_block(
            header: state.rawValue | slack << 16, alloc_stack: 1, free_stack: 2, alloc_thread: 1, free_thread: .max)
    }

    private func setLayout() {
        var layout = zg_layout()
        layout.class_count = 1
        layout.block_bytes = UInt32(MemoryLayout<zg_block>.size)
        layout.span_bytes = UInt32(MemoryLayout<zg_span>.size)
        layout.node_bytes = UInt32(MemoryLayout<zg_depot_node>.size)
        layout.death_bytes = UInt32(MemoryLayout<zg_death>.size)
        layout.spans_base = UInt64(UInt(bitPattern: spans))
        layout.spans_used = 2
        layout.nodes_base = UInt64(UInt(bitPattern: nodes))
        layout.nodes_used = 4
        layout.classes.0.slots_base = UInt64(UInt(bitPattern: slotMemory))
        layout.classes.0.blocks_base = UInt64(UInt(bitPattern: blocks))
        layout.classes.0.slots_used = UInt64(Self.slots)
        layout.classes.0.slot_bytes = UInt32(Self.slotSize)
        page.pointee.layout = layout
    }

    func slot(_ index: Int) -> UnsafeMutableRawPointer { slotMemory + index * Self.slotSize }

    deinit {
        munmap(page, Int(ZG_STATS_BYTES))
        close(descriptor)
        slotMemory.deallocate()
        blocks.deallocate()
        spanMemory.deallocate()
        spans.deallocate()
        nodes.deallocate()
    }
}

// Serialized, because a process can have only one statistics page.
@Suite(.serialized) struct GuardedProcessTests {
    private let ownID = Int(getpid())

    private func check(_ heap: FakeHeap) throws -> (findings: [Finding], check: HeapCheck) {
        var findings: [Finding] = []
        var check = try HeapCheck(process: GuardedProcess(processID: ownID))
        check.run { findings.append($0) }
        return (findings, check)
    }

    @Test func statisticsAreRead() throws {
        let heap = try FakeHeap(options: "fill_new=1")
        let statistics = try GuardedProcess(processID: ownID).statistics()
        #expect(statistics.program == "/opt/fake")
        #expect(statistics.options == "fill_new=1")
        #expect(statistics["findings"] == 42)
        #expect(statistics["allocations"] == 0)
        #expect(statistics.degradations.map(\.name) == ["depot_full"])
        #expect(GuardedProcess.all().map(\.processID).contains(ownID))
        let json = StatisticsText.json([statistics])
        let parsed = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        let process = try #require((parsed["processes"] as? [[String: Any]])?.first)
        #expect((process["counters"] as? [String: Int])?["findings"] == 42)
        #expect(process["degradations"] as? [String] == ["depot_full"])
        #expect((process["coverage"] as? [String: Any])?["stacks_percent"] as? Int == 100)
        #expect(StatisticsText.details(statistics).contains("\ncoverage: no block was allocated\n"))
        #expect(
            StatisticsText.prometheus([statistics])
                .contains("zguard_findings_total{pid=\"\(ownID)\",program=\"/opt/fake\"} 42\n"))
        #expect(StatisticsText.details(statistics).contains("depot_full"))
        #expect(StatisticsText.overview([statistics]).contains("/opt/fake\n"))
        var odd = statistics
        odd.program = "/a\r\nzguard_fake 1\n\u{1b}[31m\\\"ö"
        #expect(
            StatisticsText.prometheus([odd])
                .contains("program=\"/a\\\\u{d}\\nzguard_fake 1\\n\\\\u{1b}[31m\\\\\\\"ö\"} 42\n"))
        for name in ["contexts", "contexts_fenced"] {
            odd.counters[try #require(odd.counters.firstIndex { $0.name == name })].value = .max
        }
        #expect(StatisticsText.details(odd).contains("(100.0 %)"))
        withExtendedLifetime(heap) {}
    }

    @Test func processesThatCannotBeLookedInto() throws {
        #expect(throws: ProcessError.notGuarded(ownID)) { try GuardedProcess(processID: ownID) }
        #expect(throws: ProcessError.gone(1 << 29)) { try GuardedProcess(processID: 1 << 29) }
        let later = try FakeHeap(version: 99)
        #expect(throws: ProcessError.otherVersion(ownID, 99)) { try GuardedProcess(processID: ownID) }
        later.page.pointee.version = UInt32(ZG_STATS_VERSION)
        later.page.pointee.magic = 1
        #expect(throws: ProcessError.notGuarded(ownID)) { try GuardedProcess(processID: ownID) }
    }

    static let everything = UInt64(0x1ff_ffff_ffff)
    static let withoutDebugging = everything & ~(1 << 19)
    static let obstacles: [(facts: ProcessObstacle.Facts, obstacle: ProcessObstacle)] = [
        (.init(ownUser: 1000, ownCapabilities: 0, user: 0), .user(0)),
        (.init(ownUser: 1000, ownCapabilities: 0, user: 1001, scope: 1, wantsMemory: true), .user(1001)),
        (.init(ownUser: 1000, ownCapabilities: 0, user: 1000), .undumpable),
        (.init(ownUser: 1000, ownCapabilities: 0, user: nil, scope: 2), .undumpable),
        (.init(ownUser: 1000, ownCapabilities: 0, user: 1000, scope: 1, wantsMemory: true), .scope(1)),
        (.init(ownUser: 1000, ownCapabilities: 0, user: 1000, capabilities: 1), .capabilities),
        (.init(ownUser: 0, ownCapabilities: withoutDebugging, user: 33), .rootWithoutRights(33)),
        (.init(ownUser: 0, ownCapabilities: withoutDebugging, user: 0, capabilities: everything), .capabilities),
        (.init(ownUser: 0, ownCapabilities: everything, user: 0, capabilities: everything), .module),
        (.init(ownUser: 0, ownCapabilities: everything, hasAllUsers: false, user: 65534), .namespace),
        (.init(ownUser: 0, ownCapabilities: everything, user: 0, scope: 3, wantsMemory: true), .scope(3)),
    ]

    @Test(arguments: obstacles)
    func whyAProcessCannotBeLookedInto(row: (facts: ProcessObstacle.Facts, obstacle: ProcessObstacle)) {
        let obstacle = ProcessObstacle(row.facts)
        #expect(obstacle == row.obstacle)
        let error = ProcessError.notOurs(7, obstacle)
        #expect(error.description == "no permission to look into process 7: \(obstacle.description)")
        #expect(error.hint != nil)
        // The texts never advise the user to become what the user already is: root, or root with all capabilities.
        #expect(row.facts.ownUser != 0 || !obstacle.description.contains("belongs to root"))
        #expect(row.facts.ownCapabilities != Self.everything || error.hint?.contains("as root") == false)
    }

    @Test func childOnItsWayToExecIsNotAGuardedProcess() throws {
        let heap = try FakeHeap()
        heap.page.pointee.pid = UInt32(getpid()) + 1
        #expect(throws: ProcessError.notGuarded(ownID)) { try GuardedProcess(processID: ownID) }
    }

    @Test func intactQuarantineHasNoFindings() throws {
        let (findings, check) = try check(try FakeHeap())
        #expect(findings.isEmpty)
        #expect(check.verifiedBlocks == FakeHeap.slots + 1)
        #expect(check.verifiedBytes == UInt64(FakeHeap.slots * FakeHeap.slotSize + FakeHeap.spanSize & ~15))
    }

    @Test func everyLateWriteIsFound() throws {
        let heap = try FakeHeap()
        for (index, offset) in [(0, 0), (150, 63), (299, 7)] {
            heap.slot(index).storeBytes(of: 0x41, toByteOffset: offset, as: UInt8.self)
        }
        heap.slot(150).storeBytes(of: 0x42, toByteOffset: 60, as: UInt8.self)
        let (findings, check) = try check(heap)
        #expect(check.verifiedBlocks == FakeHeap.slots + 1)
        #expect(findings.map(\.block?.offset) == [0, 60, 7])
        let finding = try #require(findings.dropFirst().first)
        #expect(finding.kind == .writeAfterFree)
        #expect(finding.block?.start == Address(UInt64(UInt(bitPattern: heap.slot(150)))))
        #expect(finding.block?.size == 60)
        #expect(finding.block?.state == "quarantined")
        #expect(finding.block?.allocatingThread == 1)
        #expect(finding.block?.freeingThread == nil)
        #expect(
            finding.detail == ["offset": "60", "length": "4", "old": "0x55", "new": "0x42", "found_by": "check"])
        #expect(finding.stacks.access.isEmpty)
        #expect(finding.stacks.alloc.count == 1)
        #expect(finding.stacks.free.count == 2)
        let named = Symbolicator().symbolicate(finding)
        #expect(named.stacks.free.map(\.function) == ["swift_demangle", "swift_demangle"])
    }

    @Test func lateWriteIntoALargeBlockIsFound() throws {
        let heap = try FakeHeap()
        heap.spanMemory.storeBytes(of: 0x58, toByteOffset: 4321, as: UInt8.self)
        let finding = try #require(try check(heap).findings.first)
        #expect(finding.block?.size == UInt64(FakeHeap.spanSize))
        #expect(finding.block?.start == Address(UInt64(UInt(bitPattern: heap.spanMemory))))
        #expect(finding.block?.offset == 4321)
        #expect(finding.detail["offset"] == "4321")
        #expect(finding.address == Address(UInt64(UInt(bitPattern: heap.spanMemory)) + 4321))
    }

    @Test func gapsOfLiveBlocksAreVerified() throws {
        let heap = try FakeHeap()
        let pages = UnsafeMutableRawPointer.allocate(byteCount: 2 * 4096, alignment: 4096)
        defer { pages.deallocate() }
        memset(pages, Int32(ZG_FILL_GAP), 2 * 4096)
        func place(at start: Int, size: Int, kind: zg_alloc_family = zg_family_malloc, marks: UInt32 = 0) {
            heap.spans[1].block = heap.block(zg_state_live, slack: 0)
            heap.spans[1].block.header |= kind.rawValue << 8 | marks
            heap.spans[1].base = UInt64(UInt(bitPattern: pages))
            heap.spans[1].start = heap.spans[1].base + UInt64(start)
            heap.spans[1].size = UInt64(size)
            heap.spans[1].units = 3 // two data pages and the guard page
            heap.spans[1].protection = 1
            heap.page.pointee.layout.isolated.page_bytes = 4096
            memset(pages + start, 0x41, size)
        }
        place(at: 8192 - 112, size: 100)
        let (none, intact) = try check(heap)
        #expect(none.isEmpty)
        #expect(intact.verifiedLiveBlocks == 1)
        // Changes the gap's last byte, then the lead's first checked byte. Bytes further away are not checked.
        (pages + 8191).storeBytes(of: 0x42, as: UInt8.self)
        let behind = try #require(try check(heap).findings.first)
        #expect(behind.kind == .heapOverflow)
        #expect(behind.access == .write)
        #expect(behind.block?.offset == 111)
        #expect(behind.block?.state == "live")
        #expect(behind.detail == ["offset": "111", "length": "1", "old": "0xa5", "new": "0x42", "found_by": "check"])
        #expect(behind.stacks.free.isEmpty)
        #expect(behind.stacks.alloc.count == 1)
        #expect(behind.sentence.contains("11 bytes after the end of a live block of 100 bytes"))
        #expect(behind.sentence.hasSuffix("found by a heap check"))
        (pages + 8191).storeBytes(of: UInt8(ZG_FILL_GAP), as: UInt8.self)
        (pages + 8192 - 112 - 256).storeBytes(of: 0x42, as: UInt8.self)
        let before = try #require(try check(heap).findings.first)
        #expect(before.block?.offset == -256)
        #expect(before.detail["offset"] == nil)
        (pages + 8192 - 112 - 256).storeBytes(of: UInt8(ZG_FILL_GAP), as: UInt8.self)
        (pages + 8192 - 112 - 257).storeBytes(of: 0x42, as: UInt8.self)
        #expect(try check(heap).findings.isEmpty)
        // For a block at the start of its pages, all the rest of the pages is checked.
        memset(pages, Int32(ZG_FILL_GAP), 2 * 4096)
        place(at: 0, size: 5000)
        (pages + 8000).storeBytes(of: 0x42, as: UInt8.self)
        #expect(try check(heap).findings.map(\.block?.offset) == [8000])
        // Neither a block whose change was already reported nor a block without a red zone makes a finding.
        place(at: 0, size: 5000, marks: ZG_HEADER_CHANGED)
        #expect(try check(heap).findings.isEmpty)
        place(at: 0, size: 8192)
        #expect(try check(heap).findings.isEmpty)
        withExtendedLifetime(heap) {}
    }

    @Test func onlyQuarantinedBlocksAndOnlyWhatIsFilledCounts() throws {
        let heap = try FakeHeap(options: "fill_freed_bytes=40")
        for state in [zg_state_fresh, zg_state_live, zg_state_freeing, zg_state_retired, zg_state_reusable] {
            let index = 10 * Int(state.rawValue)
            heap.blocks[index] = heap.block(state)
            memset(heap.slot(index), 0, FakeHeap.slotSize)
        }
        heap.slot(77).storeBytes(of: 1, toByteOffset: 32, as: UInt8.self) // behind the last full vector of the 40 bytes
        heap.spanMemory.storeBytes(of: 1, toByteOffset: 4321, as: UInt8.self)
        let (findings, check) = try check(heap)
        #expect(findings.isEmpty)
        #expect(check.verifiedBlocks == FakeHeap.slots - 5 + 1)
        heap.slot(77).storeBytes(of: 1, toByteOffset: 31, as: UInt8.self)
        let later = try self.check(heap).findings
        #expect(later.count == 1)
    }

    @Test func blockThatIsReusedMeanwhileIsNoFinding() throws {
        let heap = try FakeHeap()
        let churn = Churn(
            header: UnsafeMutableRawPointer(heap.blocks).assumingMemoryBound(to: UInt32.self), contents: heap.slotMemory
        )
        churn.start()
        defer { churn.stop() }
        for _ in 0..<100 {
            let findings = try check(heap).findings
            #expect(findings.isEmpty)
        }
        #expect(churn.rounds > 0)
    }

    @Test func trimIsAnswered() throws {
        let heap = try FakeHeap()
        heap.page.pointee.has_maintenance_thread = 1
        let page = UInt(bitPattern: heap.page)
        let answering = Foundation.Thread {
            let page = UnsafeMutablePointer<zg_stats_page>(bitPattern: page)!
            while page.pointee.request == 0 { usleep(1000) }
            page.pointee.answer_value = page.pointee.request_kind == zg_request_trim.rawValue ? 4096 : 0
            Synchronization.atomicMemoryFence(ordering: .sequentiallyConsistent)
            page.pointee.answer = page.pointee.request
        }
        answering.start()
        #expect(try GuardedProcess(processID: ownID).trim() == .given(4096))
    }

    @Test func trimWithoutAnAnswer() throws {
        let heap = try FakeHeap()
        #expect(try GuardedProcess(processID: ownID).trim(waiting: 0.05) == .postponed)
        #expect(heap.page.pointee.request == 1)
        heap.page.pointee.has_maintenance_thread = 1
        #expect(try GuardedProcess(processID: ownID).trim(waiting: 0.05) == .silent)
    }
}

/// Acts as the program: turns a block from quarantined to live and back. The block is filled before it is marked as
/// freed.
private final class Churn: @unchecked Sendable {
    private let header: UnsafeMutablePointer<UInt32>
    private let contents: UnsafeMutableRawPointer
    private let isStopped = Atomic(false)
    private let count = Atomic(0)
    private let done = DispatchSemaphore(value: 0)

    init(header: UnsafeMutablePointer<UInt32>, contents: UnsafeMutableRawPointer) {
        self.header = header
        self.contents = contents
    }

    var rounds: Int { count.load(ordering: .relaxed) }

    func start() {
        Foundation.Thread { [self] in
            let quarantined = header.pointee
            while !isStopped.load(ordering: .relaxed) {
                zg_system_store(header, zg_state_live.rawValue)
                atomicMemoryFence(ordering: .sequentiallyConsistent)
                memset(contents, 0x11, FakeHeap.slotSize)
                atomicMemoryFence(ordering: .sequentiallyConsistent)
                memset(contents, 0x55, FakeHeap.slotSize)
                zg_system_store(header, quarantined)
                count.add(1, ordering: .relaxed)
            }
            done.signal()
        }.start()
    }

    func stop() {
        isStopped.store(true, ordering: .relaxed)
        done.wait()
    }
}

@Suite struct ProcessMapsTests {
    @Test func linesAreParsed() throws {
        let text = """
            55d0c000-55d0d000 r-xp 00001000 08:01 4242                       /opt/my app/x (deleted)
            7f00-7f10 rw-p 00000000 00:00 0
            7f20-7f30 r--p 00000000 00:00 0                          [vdso]
            nonsense
            """
        let mappings = Mapping.parse(text)
        #expect(mappings.map(\.path) == ["/opt/my app/x (deleted)", "", "[vdso]"])
        #expect(mappings[0].start == 0x55d0_c000)
        #expect(mappings[0].end == 0x55d0_d000)
        #expect(mappings[0].fileOffset == 0x1000)
        #expect(mappings[0].inode == 4242)
        #expect(mappings[0].permissions == "r-xp")
    }

    @Test func buildIDIsFoundAmongNotes() {
        func note(_ name: String, _ type: UInt8, _ contents: [UInt8]) -> [UInt8] {
            let name = Array(name.utf8) + [0]
            func padded(_ bytes: [UInt8]) -> [UInt8] { bytes + [UInt8](repeating: 0, count: -bytes.count & 3) }
            return [UInt8(name.count), 0, 0, 0, UInt8(contents.count), 0, 0, 0, type, 0, 0, 0] + padded(name)
                + padded(contents)
        }
        let notes = note("stapsdt", 3, [1, 2, 3]) + note("GNU", 1, [9]) + note("GNU", 3, [0xab, 0x01, 0xff])
        #expect(ELFImage.buildID(inNotes: notes) == "ab01ff")
        for length in notes.indices {
            #expect(ELFImage.buildID(inNotes: Array(notes[..<length])) == nil || length > 56)
        }
        #expect(ELFImage.buildID(inNotes: []) == nil)
    }
}
