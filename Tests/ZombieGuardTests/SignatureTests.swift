// Tests of signatures, which must not change, and of groups, which count findings with the same signature.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SignatureTests {
    @Test func signatureNeverChanges() {
        // Users keep signatures in files: changing this value changes the file format.
        #expect(Finding.sample().computeFormerSignature() == "82d63efffd6c0317")
        #expect(Finding(kind: .nullAccess).computeFormerSignature() == "1fa2999bcbe4d66f")
        #expect(Finding.sample().computeSignature() == "32497a5b41081948")
        #expect(Finding(kind: .nullAccess).computeSignature() == "53059d2f5433a687")
    }

    @Test func programIsPartOfTheSignature() {
        var finding = Finding.sample()
        finding.program = "/usr/bin/shop"
        let one = finding.computeSignature()
        finding.program = "/home/build/out/shop"
        #expect(finding.computeSignature() == one)
        finding.program = "/usr/bin/shop (deleted)"
        #expect(finding.computeSignature() == one)
        finding.program = "/usr/bin/basket"
        #expect(finding.computeSignature() != one)
    }

    private func crash(_ signal: String, _ message: String? = nil) -> String {
        var finding = Finding.sample(.crash)
        finding.crash = .init(signal: signal, message: message)
        return finding.computeSignature()
    }

    @Test func crashesDifferBySignalAndReason() {
        #expect(Set(["SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE"].map { crash($0) }).count == 4)
        #expect(crash("SIGABRT", "order 17 has no items") == crash("SIGABRT", "order 18 has no items"))
        #expect(crash("SIGABRT", "order 17 has no items") != crash("SIGABRT", "order 17 has no price"))
        #expect(crash("SIGABRT", "order 17 has no items") != crash("SIGABRT"))
    }

    @Test func signalOfAnotherKindDoesNotMatter() {
        var finding = Finding.sample()
        let one = finding.computeSignature()
        finding.crash = .init(signal: "SIGSEGV", message: "text")
        #expect(finding.computeSignature() == one)
    }

    @Test func executableIsPartIfLibrariesAreInnermost() {
        func signature(_ own: String) -> String {
            var finding = Finding.sample(.crash)
            finding.program = "/opt/shop"
            finding.stacks.access = ["g_logv", "g_log", "g_fail"].map {
                Finding.Frame(pc: Address(1), module: "/usr/lib/libglib-2.0.so.0.74", function: $0)
            }
            finding.stacks.access.append(Finding.Frame(pc: Address(1), module: "/opt/shop", function: own))
            return finding.computeSignature()
        }
        #expect(signature("checkout") == signature("checkout(int)"))
        #expect(signature("checkout") != signature("refund"))
    }

    @Test func framesOfSystemLibrariesWithoutNamesCountByLibrary() {
        func signature(_ module: String, _ offset: UInt64) -> String {
            var finding = Finding.sample(.crash)
            finding.stacks.access = [.unnamed(module, offset), .named("checkout"), .named("main")]
            return finding.computeSignature()
        }
        let one = signature("/usr/lib/x86_64-linux-gnu/libssl.so.3", 16)
        #expect(signature("/lib/x86_64-linux-gnu/libssl.so.1.1", 24) == one)
        #expect(signature("/usr/lib/libcrypto.so.3", 16) != one)
        #expect(signature("/opt/shop", 16) != signature("/opt/shop", 24))
        #expect(signature("/usr/lib/shop/bin/shop", 16) != signature("/usr/lib/shop/bin/shop", 24))
    }

    @Test func callersOfMainDoNotMatter() {
        var finding = Finding.sample(.crash)
        finding.stacks.access = [.named("checkout"), .named("main")]
        let one = finding.computeSignature()
        finding.stacks.access += [.named("__libc_start_main"), .unnamed("/opt/shop", 16)]
        #expect(finding.computeSignature() == one)
    }

    @Test func overflowingRecursionIsOneWhereverItEnds() {
        func signature(_ names: [String]) -> String {
            var finding = Finding.sample(.stackOverflow)
            finding.stacks.access = names.map { .named($0) }
            return finding.computeSignature()
        }
        let one = signature(["even", "odd", "even", "odd", "main"])
        #expect(signature(["odd", "even", "odd", "even", "odd", "even", "main"]) == one)
        #expect(signature(["format", "odd", "even", "odd", "even", "main"]) == one)
        #expect(signature(["odd", "odd", "even", "main"]) != one)
    }

    @Test func cyclesBeginAnywhere() {
        func signature(_ steps: [(String, String)]) -> String {
            var finding = Finding(kind: .retainCycle)
            finding.leak = .init(
                blocks: 2, bytes: 64,
                cycle: steps.map {
                    .init(className: $0.0, member: $0.1, place: "field", start: Address(1), size: 32)
                })
            return finding.computeSignature()
        }
        let one = signature([("Shop.Feed", "owner"), ("Shop.Page", "feed")])
        #expect(signature([("Shop.Page", "feed"), ("Shop.Feed", "owner")]) == one)
        #expect(signature([("Shop.Page", "feed"), ("Shop.List", "owner")]) != one)
    }

    @Test func sampledLeavesOfAStallDoNotMatter() {
        func signature(_ leaves: [String]) -> String {
            var finding = Finding(kind: .stall)
            let stacks = leaves.map { [Finding.Frame.named($0), .named("sortOrders"), .named("main")] }
            finding.stacks.access = stacks[0]
            finding.stall = .init(durationMs: 500, sampled: stacks.map { .init(count: 1, stack: $0) })
            return finding.computeSignature()
        }
        #expect(signature(["a", "b", "c"]) == signature(["d", "a", "e", "f"]))
        #expect(signature(["a", "a"]) != signature(["b", "b"]))
    }

    @Test func findingsOfTheEarlierVersionAreSignedAnewIfTheyAreWhole() {
        var finding = Finding.sample()
        finding.signature = finding.computeFormerSignature()
        finding.addSignature()
        #expect(finding.signature == finding.computeSignature())
        #expect(finding.formerSignatures == [finding.computeFormerSignature()])
        // A finding without stacks keeps its former signature.
        var thinned = Finding(kind: .useAfterFree, signature: finding.formerSignatures[0])
        thinned.addSignature()
        #expect(thinned.signature == finding.formerSignatures[0])
        #expect(thinned.formerSignatures.isEmpty)
        #expect(finding.isSigned(finding.formerSignatures[0]) && finding.isSigned(finding.signature!))
    }

    @Test func findingsOfBothVersionsAreOneGroup() {
        var old = Finding.sample()
        old.signature = old.computeFormerSignature()
        var cut = Finding(kind: old.kind, signature: old.signature)
        cut.program = old.program
        for order in [[old, .sample(), cut], [cut, .sample(), old], [cut, old, .sample()]] {
            var groups = FindingGroups()
            for finding in order { groups.add(finding) }
            #expect(groups.findings.map(\.count) == [3])
            #expect(groups.findings[0].signature == Finding.sample().computeSignature())
            #expect(groups.findings[0].isSigned(old.signature!))
            #expect(!groups.findings[0].stacks.access.isEmpty)
        }
    }

    @Test func oneStoredGroupDoesNotMergeTheEndsThatItHeld() {
        var abort = Finding.sample(.crash)
        abort.crash = .init(signal: "SIGABRT")
        var trap = abort
        trap.crash?.signal = "SIGILL"
        #expect(abort.computeFormerSignature() == trap.computeFormerSignature())
        var groups = FindingGroups()
        groups.add(Finding(kind: .crash, signature: abort.computeFormerSignature()))
        for finding in [abort, trap, abort, trap] { groups.add(finding) }
        #expect(groups.findings.map(\.count) == [3, 2])
    }

    @Test func bugsOfEarlierReportsAreNotNew() {
        var old = Finding.sample()
        old.signature = old.computeFormerSignature()
        old.origin = Finding.Origin(version: "1.0")
        // Redaction has changed the names: only the stored signature identifies the bug.
        old.stacks.access[0].function = "redacted"
        var new = Finding.sample()
        new.origin = Finding.Origin(version: "2.0")
        new.addSignature()
        var groups = FindingGroups()
        groups.add(old)
        groups.add(new)
        #expect(groups.wasStored(new, before: "2.0"))
        #expect(!groups.wasStored(new, before: "1.0"))
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
        // If a stack contains only frames of libraries, these frames enter the signature.
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

struct RotationTests {
    @Test func leastRotationIsThatOfAllRotations() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let steps = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                ["a", "b", "c"].randomElement(using: &random) ?? ""
            }
            let start = leastRotation(of: steps)
            let found = Array(steps[start...] + steps[..<start])
            let least = steps.indices.map { Array(steps[$0...] + steps[..<$0]) }
                .min { $0.lexicographicallyPrecedes($1) }
            #expect(found == least ?? [], "\(steps)")
        }
    }

    /// A retain cycle may have any number of steps.
    @Test func leastRotationOfALongCycleNeedsNoCopies() {
        #expect(leastRotation(of: Array(repeating: "a", count: 300_000) + ["A"]) == 300_000)
    }
}
