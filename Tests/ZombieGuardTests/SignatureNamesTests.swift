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

    static let identities: [(name: String, identity: String)] = [
        ("main", "main"), ("copy.constprop.0", "copy"), ("f(int)", "f"), ("f", "f"), ("f() [clone .cold]", "f"),
        ("geo::Circle::area(int) const", "geo::Circle::area"), ("geo::Circle::area", "geo::Circle::area"),
        ("Pool<int>::make(int)", "Pool::make"), ("A::f(int) &&", "A::f"), ("A::f[abi:cxx11](int)", "A::f"),
        ("std::for_each<A, B>(A, A, B)", "std::for_each"),
        ("(anonymous namespace)::Shape::~Shape()", "Shape::~Shape"),
        ("each(std::vector<A> const&)::{lambda(A*)#1}::operator()(A*) const", "each::{lambda}"),
        ("each(std::vector<A> const&)::$_0::operator()(A*) const", "each::{lambda}"),
        ("each(int)::'lambda'(A*)::operator()(A*) const", "each::{lambda}"),
        ("A::operator()(int) const", "A::operator()"), ("operator()", "operator()"),
        ("A::operator<(A const&) const", "A::operator<"), ("A::operator<< <int>(int)", "A::operator<< "),
        ("A::operator&(A const&)", "A::operator&"), ("A::operator bool() const", "A::operator bool"),
        ("Cart.add(_:)", "Cart.add(_:)"), ("Cart.add()", "Cart.add"),
        ("closure #2 in Cart.add(_:)", "closure # in Cart.add(_:)"),
        ("main.(*Cart).Add", "main.(*Cart).Add"), ("<shop::Cart as core::ops::Drop>::drop", "shop::Cart::drop"),
        ("<shop::Cart>::add", "shop::Cart::add"), ("shop::main::{{closure}}", "shop::main::{{closure}}"),
        ("", ""), ("<", "<"), ("<a", "<a"), ("::", "::"), ("a::", "a::"), ("()", "()"), (")", ")"),
    ]

    @Test(arguments: identities) func identityIsTheSameInEveryBuild(row: (name: String, identity: String)) {
        #expect(functionIdentity(row.name) == row.identity)
    }

    static let messages: [(message: String, words: String)] = [
        ("order 17 has no items", "order # has no items"), ("", ""),
        ("Error Domain=Shop Code=4 \"none\"UserInfo={b=two, a=one}", "Error Domain=Shop Code=#"),
        ("no values", "no values"),
        ("cannot open '/tmp/a.txt' [2, 3]", "cannot open # [#]"), ("x=5, y=0x7ffe", "x=#, y=#"),
        ("don't stop at o'clock", "don't stop at o'clock"), ("lost: 1, 2, 3", "lost: #"), ("lost: 1", "lost: #"),
        ("cannot open src/main.c:17: no", "cannot open #: no"), ("key \"a b\" is missing", "key # is missing"),
        ("id 123e4567-e89b-12d3", "id #"), ("'unfinished", "'unfinished"), ("took 3.5e-7 s", "took # s"),
        ("name ‘Bob’ and “Ann”", "name # and #"), ("  a   b  ", "a b"),
    ]

    @Test(arguments: messages) func valuesAreTakenOut(row: (message: String, words: String)) {
        #expect(CrashMessage.withoutValues(row.message) == row.words)
    }

    static let reasons: [(message: String, reason: [String])] = [
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  order 17 has no items",
            ["exception", "std::runtime_error", "order # has no items"]
        ),
        (
            "libc++abi: terminating due to uncaught exception of type std::runtime_error: order 18 has no items",
            ["exception", "std::runtime_error", "order # has no items"]
        ),
        ("terminate called after throwing an instance of 'int'", ["exception", "int", ""]),
        ("app: main.c:17: check: Assertion `count > 0' failed.", ["assertion", "count>0"]),
        (
            "/usr/include/c++/12/bits/stl_vector.h:1123: f: Assertion '__n < this->size()' failed.",
            ["assertion", "__n<this->size()"]
        ),
        ("Fatal error: Index out of range", ["trap", "Index out of range"]),
        ("Swift runtime failure: Index out of range", ["trap", "Index out of range"]),
        ("Precondition failed: no cheese", ["trap", "precondition"]),
        (
            "thread 'main' (7) panicked at src/main.rs:10:5:\nindex is 5",
            ["message", "thread # (#) panicked at #:", "index is #"]
        ),
        ("double free or corruption (out)", ["message", "double free or corruption (out)"]),
        (
            "terminate called after throwing an instance of '",
            ["message", "terminate called after throwing an instance of '"]
        ),
    ]

    @Test(arguments: reasons) func reasonIsTheSameWheneverTheBugOccurs(row: (message: String, reason: [String])) {
        #expect(Finding.Crash(signal: "SIGABRT", message: row.message).reason == row.reason)
    }

    @Test func hugeHostileMessagesEnd() {
        for unit in ["'", "\"a", "1,", "a=", " ", "terminate called after throwing an instance of '", "\n"] {
            let crash = Finding.Crash(signal: "SIGABRT", message: String(repeating: unit, count: 20_000))
            #expect(crash.reason.joined().count < 2048)
        }
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
            _ = functionIdentity(name)
            _ = functionIdentity(String(name.prefix(10_000)))
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
        let two = signature(access: ["walk", "visit", "walk", "visit", "main"])
        #expect(signature(access: ["visit", "walk", "visit", "walk", "visit", "main"]) == two)
        #expect(signature(access: ["walk", "walk", "visit", "main"]) != two)
        #expect(signature(access: ["visit", "walk", "main"]) != signature(access: ["walk", "visit", "main"]))
    }

    @Test func inlinedFunctionsCountLikeOthers() {
        var finding = Finding.sample()
        finding.stacks.access[0].inlined = true
        #expect(finding.computeSignature() == Finding.sample().computeSignature())
    }
}
