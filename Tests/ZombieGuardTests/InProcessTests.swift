// The API for a program to inspect itself, with a table of functions that takes the place of the runtime.

import CSystem
import CZombie
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

/// A fake runtime with constant answers. Tests choose when its findings appear. All tests share one table, because C
/// functions have no state of their own.
private enum Fake {
    nonisolated(unsafe) static let word = UnsafeMutablePointer<UInt32>.allocate(capacity: 1)
    /// Nesting depth of the thread's bypass, and the number of descriptions requested outside of bypass.
    nonisolated(unsafe) static var depth = 0
    nonisolated(unsafe) static var timesNotAside = 0
    nonisolated(unsafe) static let page = UnsafeMutablePointer<zg_stats_page>.allocate(capacity: 1)

    /// The live block at 0x1000 is a Cart, referenced by the block at 0x3000. The freed block at 0x2000 was a Cart.
    static func text(at address: UInt64) -> String? {
        func block(_ start: UInt64, _ state: String, _ more: String) -> String {
            """
            {"block":{"start":"0x\(String(start, radix: 16))","size":48,"offset":\(address - start),"state":"\(state)",\
            "language":"swift",\(more)},"stacks":{"free":[{"pc":"0x10","function":"Cart.__deallocating_deinit",\
            "file":"/a.swift","line":2},{"pc":"0x11","function":"swift_release"},{"pc":"0x12","function":"checkout()",\
            "file":"/a.swift","line":9}],"alloc":[{"pc":"0x13","function":"Cart.__allocating_init()","file":"/a.swift",\
            "line":3},{"pc":"0x14","function":"make()","file":"/a.swift","line":7}]}}
            """
        }
        switch address {
        case 0x1000..<0x1030: return block(0x1000, "live", #""alloc_thread":1"#)
        case 0x2000..<0x2030:
            let more =
                #""class":"Shop.Cart","member":"total","alloc_thread":1,"free_thread":4,"free_time_ns":1700000000000000123"#
            return block(0x2000, "quarantined", more)
        case 0x3000..<0x3030: return block(0x3000, "live", #""class":"Shop.Owner","member":"cart""#)
        default: return nil
        }
    }

    static func finding(_ number: UInt64) -> String {
        #"{"schema":"zguard.finding/1","kind":"double-free","pid":\#(number),"stacks":{"access":[]}}"#
    }

    static func write(_ text: String?, _ to: UnsafeMutablePointer<CChar>?, _ capacity: UInt64) -> UInt64 {
        guard let text else { return 0 }
        // The description is longer than the first buffer of the caller.
        let padded = Array((text + String(repeating: " ", count: 40_000)).utf8)
        if padded.count <= capacity {
            for (index, byte) in padded.enumerated() { to?[index] = CChar(bitPattern: byte) }
        }
        return UInt64(padded.count)
    }

    static let runtime: GuardRuntime = {
        word.initialize(to: 2)
        page.initialize(to: zg_stats_page())
        page.pointee.pid = 4711
        var table = zg_api()
        table.version = ZG_API_VERSION
        table.bytes = UInt32(MemoryLayout<zg_api>.size)
        table.statistics = UnsafePointer(page)
        table.finding_word = word
        table.finding = { number, to, capacity in
            if Fake.depth == 0 { Fake.timesNotAside += 1 }
            return number < UInt64(zg_system_load(Fake.word)) ? Fake.write(Fake.finding(number), to, capacity) : 0
        }
        table.finding_count = { first in
            first?.pointee = 1 // finding 0 has been discarded
            return UInt64(zg_system_load(Fake.word))
        }
        table.describe = { address, to, capacity in
            if Fake.depth == 0 { Fake.timesNotAside += 1 }
            return Fake.write(Fake.text(at: address), to, capacity)
        }
        table.step_aside = { Fake.depth += 1 }
        table.step_back = { Fake.depth -= 1 }
        table.next_zombie = { cursor, metadata in
            let mine = UInt64(UInt(bitPattern: unsafeBitCast(FakeCart.self, to: UnsafeRawPointer.self)))
            defer { cursor!.pointee += 1 }
            return metadata == mine && cursor!.pointee == 0 ? 0x2000 : 0
        }
        table.next_referrer = { cursor, address, bytes, place in
            defer { cursor!.pointee += 1 }
            guard address == 0x1000, bytes == 48 else { return 0 }
            place!.pointee = [0x1008, 0x3018, 0][Int(cursor!.pointee)]
            return [0x1000, 0x3000, 0][Int(cursor!.pointee)]
        }
        table.is_live = { $0 < 0x2000 ? 1 : 0 }
        table.verify = { 3 }
        return GuardRuntime(table: &table)!
    }()

    static func makeFinding() {
        _ = zg_system_increment(word)
        zg_system_futex_wake_private(word)
    }
}

private final class FakeCart {}
private struct Thrown: Error {}

@Suite(.serialized) struct InProcessTests {
    private func guarded<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        try await GuardRuntime.$substitute.withValue(Fake.runtime, operation: body)
    }

    /// Not in a guarded process, where the sequence of findings would never end.
    @Test(.enabled(if: !ZombieGuard.isActive, "this test run is guarded"))
    func withoutARuntimeEverythingSaysSo() async {
        #expect(throws: ZombieGuardError.inactive) { try ZombieGuard.zombie(at: Address(1)) }
        #expect(throws: ZombieGuardError.inactive) { try ZombieGuard.statistics }
        #expect(throws: ZombieGuardError.inactive) { try ZombieGuard.records(of: FakeCart.self) }
        #expect(throws: ZombieGuardError.inactive) { try ZombieGuard.referrers(of: Address(1)) }
        #expect(throws: ZombieGuardError.inactive) { try ZombieGuard.verifyNow() }
        for await finding in ZombieGuard.findings(since: .start) { Issue.record("\(finding)") }
        #expect("\(ZombieGuardError.inactive)" == "this process is not guarded")
    }

    /// Descriptions of findings and blocks allocate memory, which must come from libc.
    @Test func whatIsSaidOfFindingsAndBlocksIsMadeAside() async {
        await guarded {
            Fake.timesNotAside = 0
            #expect((try? ZombieGuard.zombie(at: Address(0x2010))) != nil)
            #expect((try? ZombieGuard.referrers(of: Address(0x1000)))?.isEmpty == false)
            #expect((try? ZombieGuard.records(of: FakeCart.self))?.isEmpty == false)
            #expect(Fake.runtime.finding(1) != nil)
            #expect(Fake.timesNotAside == 0)
            #expect(Fake.depth == 0)
            #expect(throws: Thrown.self) { try Fake.runtime.aside { throw Thrown() } }
            #expect(Fake.depth == 0)
        }
    }

    @Test func recordSaysWhatIsKnown() async throws {
        try await guarded {
            let zombie = try #require(try ZombieGuard.zombie(at: Address(0x2010)))
            #expect(zombie.className == "Shop.Cart" && zombie.property == "total")
            #expect(zombie.start == Address(0x2000) && zombie.size == 48 && zombie.offset == 16)
            #expect(zombie.state == "quarantined")
            #expect(zombie.deallocatingThread == 4 && zombie.allocatingThread == 1)
            #expect(zombie.deallocationTime == 1_700_000_000_000_000_123)
            #expect(zombie.deallocationStack.count == 3 && zombie.allocationStack.count == 2)
            #expect(zombie.deallocationSite?.line == 9)
            #expect(zombie.allocationSite?.line == 7)
            #expect(
                zombie.description == "a deallocated Shop.Cart (48 bytes at 0x2000), freed in checkout() (a.swift:9)")
            #expect(try ZombieGuard.zombie(at: 0x1000 as UInt) == nil)
            #expect(try ZombieGuard.zombie(at: Address(0x9000)) == nil)
            #expect(try ZombieGuard.records(of: FakeCart.self).map(\.start) == [Address(0x2000)])
            #expect(try ZombieGuard.records(of: Scratch.self).isEmpty)
            #expect(ZombieGuard.isActive)
            #expect(try ZombieGuard.statistics.processID == 4711)
            #expect(try ZombieGuard.verifyNow() == 3)
        }
    }

    @Test func referrersAreLiveBlocksButNotTheBlockItself() async throws {
        try await guarded {
            let referrers = try ZombieGuard.referrers(of: Address(0x1004))
            #expect(referrers.map(\.start) == [Address(0x3000)])
            #expect(
                referrers.first?.description
                    == "property Owner.cart of a Shop.Owner (48 bytes at 0x3000), allocated in make() (a.swift:7)")
            #expect(referrers.first?.offset == 24)
            #expect(try ZombieGuard.referrers(of: Address(0x2000)).isEmpty)
        }
    }

    @Test func findingsComeAsTheyAreMade() async {
        await guarded {
            let before = UInt64(zg_system_load(Fake.word))
            let all = ZombieGuard.findings(since: .start)
            let new = ZombieGuard.findings
            async let old = all.prefix(3).reduce(into: []) { $0.append($1.processID) }
            async let one = new.prefix(2).reduce(into: []) { $0.append($1.processID) }
            async let other = new.prefix(2).reduce(into: []) { $0.append($1.processID) }
            while !Fake.runtime.watcher.isWaiting { await Task.yield() }
            Fake.makeFinding()
            Fake.makeFinding()
            #expect(await old.prefix(1) == [1])
            #expect(await one == [Int(before), Int(before) + 1])
            #expect(await other == [Int(before), Int(before) + 1])
        }
        while Fake.runtime.watcher.isWaiting { await Task.yield() }
    }

    @Test func cancellingEndsTheIterationAndItsThread() async {
        await guarded {
            let findings = ZombieGuard.findings
            let tasks = (0..<8).map { _ in Task { for await finding in findings { Issue.record("\(finding)") } } }
            while !Fake.runtime.watcher.isWaiting { await Task.yield() }
            for task in tasks { task.cancel() }
            for task in tasks { await task.value }
        }
        while Fake.runtime.watcher.isWaiting { await Task.yield() }
    }

    @Test func tableOfAnotherVersionIsNotUsed() {
        var table = zg_api()
        table.version = ZG_API_VERSION + 1
        table.bytes = UInt32(MemoryLayout<zg_api>.size)
        #expect(GuardRuntime(table: &table) == nil)
        table.version = ZG_API_VERSION
        table.bytes = 8
        #expect(GuardRuntime(table: &table) == nil)
    }
}
