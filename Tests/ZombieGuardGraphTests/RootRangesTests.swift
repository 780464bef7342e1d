// Tests which memory is searched for roots.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardGraph

@Suite struct RootRangesTests {
    @Test func subtractsOverlappingRanges() {
        let excluded: [Range<UInt64>] = [0..<5, 10..<20, 15..<30, 40..<50]
        #expect(RootRanges.subtract(excluded, from: 0..<60) == [5..<10, 30..<40, 50..<60])
        #expect(RootRanges.subtract(excluded, from: 12..<18) == [])
        #expect(RootRanges.subtract(excluded, from: 60..<70) == [60..<70])
        #expect(RootRanges.subtract([], from: 1..<2) == [1..<2])
    }

    private func mapping(_ range: Range<UInt64>, _ permissions: String, _ path: String = "") -> Mapping {
        Mapping(
            start: range.lowerBound, end: range.upperBound, permissions: permissions, fileOffset: 0, inode: 0,
            path: path)
    }

    @Test func choosesWritableDataAndLiveStacks() {
        let mappings = [
            mapping(0x1000..<0x2000, "r-xp", "/bin/app"), mapping(0x2000..<0x3000, "rw-p", "/bin/app"),
            mapping(0x3000..<0x4000, "rw-p"), mapping(0x4000..<0x5000, "---p"),
            mapping(0x5000..<0x6000, "rw-s", "/a/file"),
            mapping(0x6000..<0x7000, "rw-s", "/memfd:shared (deleted)"), mapping(0x7000..<0x9000, "rw-p", "[stack]"),
            mapping(0x9000..<0xa000, "r--p", "[vvar]"), mapping(0xa000..<0xc000, "rw-p"),
            mapping(0xc000..<0xd000, "rw-p"),
        ]
        let ranges = RootRanges(
            mappings: mappings, own: [0xa000..<0xc000, 0x3800..<0x4000], heap: [0xc000..<0xd000],
            stackPointers: [0x8000, 0xb000, 0xc800])
        #expect(
            ranges.all == [
                0x2000..<0x3000, 0x3000..<0x3800, 0x6000..<0x7000, 0x7f80..<0x9000, 0xaf80..<0xc000, 0xc000..<0xd000,
            ])
    }
}
