// Identities of stacks: the runtime computes the same values (Tests/Runtime/identity.c).

import Testing

@testable import ZombieGuardCore

@Suite struct StackIdentityTests {
    private let library = Finding.Frame(pc: Address(1), module: "/usr/lib/libshop.so.1", offset: Address(0x1234))
    private let program = Finding.Frame(pc: Address(2), module: "/srv/app", offset: Address(0xfedc_ba98_7654_3210))
    private let nowhere = Finding.Frame(pc: Address(3))

    @Test func equalsThatOfTheRuntime() {
        #expect(Finding.Stacks.identity(of: [nowhere]) == 0xe604_823a_2490_29bf)
        #expect(Finding.Stacks.identity(of: [library]) == 0x9d70_2428_6e4c_ec71)
        #expect(Finding.Stacks.identity(of: [library, program]) == 0xb7b6_170f_0889_5e10)
    }

    @Test func symbolicationDoesNotMatter() {
        var inlined = library
        inlined.function = "f"
        inlined.inlined = true
        var named = library
        named.function = "g"
        #expect(
            Finding.Stacks.identity(of: [inlined, named, program]) == Finding.Stacks.identity(of: [library, program]))
    }

    @Test func outerFramesDoNotMatter() {
        let deep = Array(repeating: program, count: Finding.Stacks.framesInIdentity)
        #expect(Finding.Stacks.identity(of: deep + [library]) == Finding.Stacks.identity(of: deep))
        #expect(Finding.Stacks.identity(of: deep.dropLast() + [library]) != Finding.Stacks.identity(of: deep))
    }

    @Test func noFramesHaveNoIdentity() {
        #expect(Finding.Stacks.identity(of: []) == nil)
    }
}
