// Signatures: the parts of names that they ignore, and the frames that they skip.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SignatureNamesTests {
    static let names: [(name: String, stable: String)] = [
        ("main", "main"), ("Cart.add(_:)", "Cart.add(_:)"),
        ("geo::Circle::area(int) const", "geo::Circle::area(int) const"),
        ("operator delete(void*)", "operator delete(void*)"), ("f(char const*, ...)", "f(char const*, ...)"),
        ("copy.constprop.0", "copy"), ("copy.isra.0.part.12", "copy"), ("copy.cold", "copy"),
        ("copy.llvm.1234567", "copy"),
        ("copy.lto_priv.3", "copy"), ("inner.0", "inner"), ("__memcpy.avx", "__memcpy.avx"),
        ("f(int) [clone .constprop.0]", "f(int)"), ("f(int) [clone .isra.0] [clone .cold]", "f(int)"),
        ("f(int) (.cold)", "f(int)"),
        ("f() (.cold.1)", "f()"), ("[clone .cold]", "[clone .cold]"), (" [clone .cold]", " [clone .cold]"),
        ("core::ptr::drop::h0123456789abcdef", "core::ptr::drop"),
        ("core::ptr::drop::h0123456789abcdeg", "core::ptr::drop::h0123456789abcdeg"),
        ("closure #12 in checkout()", "closure # in checkout()"),
        ("implicit closure #1 in closure #2 at top level", "implicit closure # in closure # at top level"),
        ("main::{lambda(int)#2}::operator()(int) const", "main::{lambda(int)#}::operator()(int) const"),
        ("main::$_0::operator()() const", "main::$_::operator()() const"), ("$_", "$_"), ("pay$5()", "pay$5()"),
        ("Pool<int>::release(int)", "Pool<>::release(int)"),
        ("f(std::vector<std::pair<int, A<3>>>)", "f(std::vector<>)"),
        ("A::operator<(A const&)", "A::operator<(A const&)"), ("A::operator<< <int>(int)", "A::operator<< <>(int)"),
        ("A<int>::operator->()", "A<>::operator->()"), ("A::operator<=>(A<int>)", "A::operator<=>(A<>)"),
        ("my_operator<int>()", "my_operator<>()"), ("a < b", "a < b"), ("x<y", "x<y"), (">", ">"),
        ("f<A -> B>()", "f<>()"), ("Shop.(secret in _12ABCDEF)()", "Shop.secret()"),
        ("(anonymous namespace)::f()", "(anonymous namespace)::f()"),
        ("merged Cart.add(_:)", "Cart.add(_:)"), ("partial apply for closure #1 in f()", "closure # in f()"),
        ("", ""), (".cold", ".cold"), ("é#3.cold", "é#"),
    ]

    @Test(arguments: names) func buildMarksAreTakenAway(row: (name: String, stable: String)) {
        #expect(withoutBuildMarks(row.name) == row.stable)
        #expect(withoutBuildMarks(row.stable) == row.stable)
    }

    @Test func hugeHostileNamesEnd() {
        let units = [
            "<", ">", "<>", "(", "#1", "[", "a in _", "(a in _1234)", ".cold", " [clone .x]", "merged ", "operator<",
            "$_0", ".1",
        ]
        for unit in units {
            let name = String(repeating: unit, count: 20_000)
            let stable = withoutBuildMarks(name)
            #expect(withoutBuildMarks(stable) == stable, "\(unit)")
        }
    }

    @Test func specializationsWithABrokenBracketAreNamed() {
        // The demangler omits a bracket: "<Arg[0] = [Closure Propagated : …, Argument Types : […]> of …".
        let symbol =
            "$s4Shop7performyS2iyXEF55$s4Shop12useInClosureySis9UnmanagedVyAA4CartCGFSiyXEfU_s0H0VyAA0K0CGTf1c_n"
        #expect(readableName(symbol) == "perform(_:)")
    }

    private func signature(access: [String]) -> String {
        var finding = Finding.sample()
        finding.stacks.access = access.map { .named($0) }
        return finding.computeSignature()
    }

    @Test func whatTheCompilerMakesIsLookedThrough() {
        let one = signature(access: ["use()", "run()", "main"])
        #expect(signature(access: ["outlined destroy of Cart", "use()", "run()", "main"]) == one)
        #expect(signature(access: ["use()", "reabstraction thunk", "run()", "main"]) == one)
        #expect(signature(access: ["protocol witness for P.use() in conformance S", "use()", "run()", "main"]) == one)
        #expect(signature(access: ["Cart.__deallocating_deinit", "use()", "run()", "main"]) == one)
        #expect(signature(access: ["use() [clone .part.0]", "use()", "run()", "main"]) == one)
        #expect(signature(access: ["outlined destroy of Cart"]) != signature(access: ["outlined destroy of Item"]))
    }

    @Test func recursionCountsOnce() {
        let one = signature(access: ["walk", "main"])
        #expect(signature(access: ["walk", "walk", "walk", "walk", "main"]) == one)
        #expect(signature(access: ["walk", "main", "walk"]) != one)
    }

    @Test func inlinedFunctionsCountLikeOthers() {
        var finding = Finding.sample()
        finding.stacks.access[0].inlined = true
        #expect(finding.computeSignature() == Finding.sample().computeSignature())
    }
}
