// Which stacks `--focus` names, and where the blocks of each are placed.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import zguard

@Suite struct FocusTests {
    private let stack = [
        Finding.Frame(pc: Address(1), module: "/srv/app", offset: Address(0x10)),
        Finding.Frame(pc: Address(2), module: "/srv/app", offset: Address(0x20)),
    ]

    private func finding(_ kind: Finding.Kind, at address: UInt64, size: UInt64 = 45) -> Finding {
        let block = Finding.Block(start: Address(0x1000), size: size, offset: 0)
        return Finding(
            kind: kind, address: Address(address), block: block, stacks: Finding.Stacks(alloc: stack))
    }

    private func place(_ findings: Finding...) -> Focus.Place? {
        var focus = Focus()
        for finding in findings { focus.add(finding) }
        #expect(focus.places.count == 1)
        return Finding.Stacks.identity(of: stack).flatMap { focus.places[$0] }
    }

    @Test func placeFollowsFromTheFinding() {
        #expect(place(finding(.writeAfterFree, at: 0x1008)) == .end)
        #expect(place(finding(.heapOverflow, at: 0x1000 + 45)) == .exactEnd)
        #expect(place(finding(.heapOverflow, at: 0x1000 + 47)) == .exactEnd)
        #expect(place(finding(.heapOverflow, at: 0x1000 + 48)) == .end)
        #expect(place(finding(.heapOverflow, at: 0x1000 + 48, size: 48)) == .end)
        #expect(place(finding(.heapOverflow, at: 0xfff)) == .start)
        #expect(place(finding(.heapOverflow, at: 0x1000, size: 0)) == .end)
        #expect(place(finding(.heapOverflow, at: .max, size: .max)) == .end)
    }

    @Test func aSpecialPlaceStays() {
        let freed = finding(.writeAfterFree, at: 0x1008)
        let behind = finding(.heapOverflow, at: 0x1000 + 45)
        #expect(place(behind, freed) == .exactEnd)
        #expect(place(freed, behind) == .exactEnd)
    }

    @Test func findingsWithoutAllocationStackHaveNone() {
        var focus = Focus()
        let isAdded = focus.add(Finding(kind: .wildAccess))
        #expect(!isAdded)
        #expect(focus.places.isEmpty)
    }

    @Test func theTableIsBounded() {
        var focus = Focus()
        for number in 0..<UInt64(RunDirectory.focusedStacksMost) + 5 {
            var one = finding(.writeAfterFree, at: 0x1008)
            one.stacks.alloc[0].offset = Address(number)
            focus.add(one)
        }
        #expect(focus.places.count == RunDirectory.focusedStacksMost)
        #expect(focus.surplus == 5)
    }

    @Test func numberOfRuns() throws {
        #expect(try Pinpoint.runs(nil) == 3)
        #expect(try Pinpoint.runs("1") == 1)
        for bad in ["0", "-1", "1001", "x", ""] {
            #expect(throws: Failure.self) { try Pinpoint.runs(bad) }
        }
    }
}
