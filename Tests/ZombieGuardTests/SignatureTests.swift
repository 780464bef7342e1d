// Signatures stay what they are, and groups count.

import Testing

@testable import ZombieGuard

@Suite struct SignatureTests {
    @Test func signatureNeverChanges() {
        // People keep these in files: a change of this value is a change of the format.
        #expect(Finding.sample().computeSignature() == "82d63efffd6c0317")
        #expect(Finding(kind: .nullAccess).computeSignature() == "1fa2999bcbe4d66f")
    }

    @Test func whatVariesBetweenRunsDoesNotMatter() {
        var other = Finding.sample()
        other.address = Address(1)
        other.processID = 5
        other.time = nil
        other.thread = nil
        other.block = nil
        other.stacks.access[0].pc = Address(99)
        other.stacks.access[0].line = 1
        other.stacks.access[0].module = "/elsewhere/app"
        #expect(other.computeSignature() == Finding.sample().computeSignature())
    }

    @Test func whatMakesAnotherBugMatters() {
        let one = Finding.sample().computeSignature()
        var other = Finding.sample()
        other.kind = .invalidFree
        #expect(other.computeSignature() != one)
        other = .sample()
        other.stacks.free[0].function = "someone_else"
        #expect(other.computeSignature() != one)
        other = .sample()
        swap(&other.stacks.free, &other.stacks.alloc)
        #expect(other.computeSignature() != one)
    }

    @Test func runtimeLibrariesAreLookedThrough() {
        let library = Finding.Frame(pc: Address(1), module: "/lib/x86_64-linux-gnu/libstdc++.so.6", function: "f")
        let runtime = Finding.Frame(pc: Address(1), module: "/opt/app", function: "swift_release")
        var other = Finding.sample()
        other.stacks.access.insert(contentsOf: [library, runtime], at: 0)
        #expect(other.computeSignature() == Finding.sample().computeSignature())
        #expect(other.stacks.accessOrigin?.function == "close_twice")
        // Where there is nothing else, they count all the same.
        other.stacks.access = [library]
        let one = other.computeSignature()
        other.stacks.access = [runtime]
        #expect(other.computeSignature() != one)
    }

    @Test func placeWhereALateWriteIsFoundDoesNotMatter() {
        var other = Finding.sample(.writeAfterFree)
        other.stacks.access = [.named("exit")]
        #expect(other.computeSignature() == Finding.sample(.writeAfterFree).computeSignature())
    }

    @Test func deepFramesDoNotMatterNearOnesDo() {
        var finding = Finding.sample()
        finding.stacks.access = ["a", "b", "c", "d"].map { .named($0) }
        let one = finding.computeSignature()
        finding.stacks.access[3].function = "e"
        #expect(finding.computeSignature() == one)
        finding.stacks.access[2].function = "e"
        #expect(finding.computeSignature() != one)
    }

    @Test func namelessFramesCountByModuleAndOffset() {
        var finding = Finding.sample()
        finding.stacks.access = [.unnamed("/a/lib.so", 0x10)]
        let one = finding.computeSignature()
        finding.stacks.access = [.unnamed("/b/lib.so", 0x10)]
        #expect(finding.computeSignature() == one)
        finding.stacks.access = [.unnamed("/a/lib.so", 0x18)]
        #expect(finding.computeSignature() != one)
    }

    @Test func groupsCountAndKeepTheirOrder() {
        var groups = FindingGroups()
        #expect(groups.summary == "no findings")
        var isNew = groups.add(.sample(.writeAfterFree))
        #expect(isNew)
        #expect(groups.summary == "1 finding (1 write-after-free)")
        isNew = groups.add(.sample(.doubleFree))
        #expect(isNew)
        #expect(groups.summary == "2 findings (1 double-free, 1 write-after-free)")
        isNew = groups.add(.sample(.doubleFree))
        #expect(!isNew)
        #expect(groups.findings.map(\.kind) == [.writeAfterFree, .doubleFree])
        #expect(groups.findings.map(\.count) == [1, 2])
        #expect(groups.summary == "2 findings (1 double-free, 1 write-after-free, seen 3 times)")
    }
}
