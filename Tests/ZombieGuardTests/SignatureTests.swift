// Signatures never change, and groups count.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SignatureTests {
    @Test func signatureNeverChanges() {
        // Users keep signatures in files: changing this value changes the file format.
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
        other.stacks.thrown = [Finding.Frame(pc: Address(1), function: "takeCheese(_:)")]
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
        // If a stack contains only frames of libraries, they enter the signature.
        other.stacks.access = [library]
        let one = other.computeSignature()
        other.stacks.access = [runtime]
        #expect(other.computeSignature() != one)
    }

    static let frames: [(frame: Finding.Frame, isLibrary: Bool)] = [
        (.named("Cart.add(_:)", "/src/cart.swift", 3), false), (.named("Cart.add(_:)"), false),
        (.named("String.shout()"), false), // an extension in the program
        (.named("Testing.run()", "/src/testing.swift", 5), false), // a type in the program
        (.named("Swift.Array.append(_:)"), true), (.named("static Swift.Int.+(_:_:)"), true),
        (.named("closure #1 in static Swift.Array.f()"), true), (.named("partial apply for Foundation.Data.f()"), true),
        (.named("merged Swift.Set.f()"), true), (.named("protocol witness for Swift.P.f() in conformance S"), false),
        (.named("swift_release"), true), (.named("swift::RefCounts::incrementSlow"), true),
        (.named("_swift_release_dealloc"), true), (.named("_dispatch_worker_thread"), true),
        (.named("std::vector<int>::push_back(int&&)", "/usr/include/c++/12/bits/stl_vector.h", 9), true),
        (.named("memcpy", "/usr/include/x86_64-linux-gnu/bits/string_fortified.h", 29), true),
        (.unnamed("/opt/swift/usr/lib/swift/linux/libXCTest.so", 1), true), (.unnamed("/lib/libdispatch.so", 1), true),
        (.unnamed("/lib/libTesting.so", 1), true), (.unnamed("/lib/libFoundationEssentials.so", 1), true),
        (.unnamed("/opt/app", 1), false), (.unnamed(nil, 1), false), (.named("swiftly()"), false),
    ]

    @Test(arguments: frames) func libraryCode(row: (frame: Finding.Frame, isLibrary: Bool)) {
        #expect(row.frame.isLibraryCode == row.isLibrary)
    }

    @Test func readersAreSentToWhereALineIsKnown() {
        let generated = Finding.Frame.named("outlined destroy of Optional<Cart>")
        let own = Finding.Frame.named("Cart.add(_:)", "/src/cart.swift", 3)
        #expect([.named("swift_release"), generated, own].origin == own)
        #expect([.named("swift_release"), generated].origin == generated)
        #expect([.named("swift_release")].origin?.function == "swift_release")
        #expect([Finding.Frame]().origin == nil)
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
