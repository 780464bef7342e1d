// The sentence that says who still points to a freed block.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HolderTests {
    private static let alloc = [
        Finding.Frame(pc: Address(1), module: "/l/libswiftCore.so", function: "swift_allocObject"),
        Finding.Frame(
            pc: Address(2), module: "/x", function: "Feed.__allocating_init()", file: "/s/feed.swift", line: 3),
        Finding.Frame(pc: Address(3), module: "/x", function: "openFeed()", file: "/s/feed.swift", line: 12),
    ]
    private static let block = Finding.Block(start: Address(0x100), size: 48, offset: 16, state: "live")

    private func sentence(_ holders: [Finding.Holder]?, search: String? = nil) -> String? {
        var finding = Finding(kind: .useAfterFree)
        finding.holders = holders
        if let search { finding.detail["search"] = search }
        return finding.holdersSentence
    }

    @Test func eachKindOfPlaceIsNamed() {
        let field = Finding.Holder(
            place: "field", className: "Shop.Feed", member: "listener", block: Self.block, alloc: Self.alloc,
            isTyped: true)
        let global = Finding.Holder(
            place: "global", symbol: "current", frame: Finding.Frame(pc: Address(5), module: "/l/libshop.so"))
        let local = Finding.Holder(place: "stack", frame: Finding.Frame(pc: Address(6), function: "main"))
        #expect(
            sentence([field, global, local])
                == "still held by Feed.listener of a live Shop.Feed (allocated in openFeed(), feed.swift:12), "
                + "by the global 'current' (libshop.so), and by a local of main")
        var plain = Finding.Holder(place: "memory", block: Self.block, count: 3)
        #expect(sentence([plain]) == "still held by offset 16 of a live block of 48 bytes (3 times)")
        plain.block = nil
        #expect(sentence([plain, local])?.hasSuffix("mapped (3 times) and by a local of main") ?? false)
        let other = Finding.Holder(place: "thread-local", symbol: "slot", thread: Finding.Thread(id: 2, name: "worker"))
        #expect(sentence([other]) == "still held by the thread-local variable 'slot' of thread 2 (worker)")
    }

    @Test func manyAndNoneAndLimits() {
        let local = Finding.Holder(place: "stack", frame: Finding.Frame(pc: Address(6), function: "f"))
        #expect(sentence(Array(repeating: local, count: 7))?.hasSuffix("and by 3 more") ?? false)
        #expect(sentence([]) == "no other pointer to the block was found")
        #expect(sentence([], search: "the search ended")?.hasSuffix("found; the search ended") ?? false)
        #expect(sentence(nil) == nil)
    }
}
