// Findings about freed objects: details from symbols and stacks, and the sentence.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct ZombieTests {
    private static func zombie(
        _ access: Finding.Access, of className: String = "Shop.Cart", member: String? = nil, language: String = "swift",
        detail: [String: String] = [:], _ kind: Finding.Kind = .useAfterFree
    ) -> Finding {
        Finding(
            kind: kind, access: access, address: Address(0x7f10),
            block: Finding.Block(
                start: Address(0x7f00), size: 48, offset: 16, state: "quarantined", language: language,
                className: className, member: member),
            stacks: Finding.Stacks(access: [.named("checkout()", "/src/main.swift", 41)]), detail: detail)
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var finding: Finding
        var sentence: String
        var testDescription: String { sentence }

        init(_ finding: Finding, _ sentence: String) {
            self.finding = finding
            self.sentence = sentence
        }
    }

    static let rows: [Row] = [
        Row(
            zombie(.call, member: "add(_:)"),
            "method Cart.add(_:) was called on a deallocated Shop.Cart (48 bytes at 0x7f00)"),
        Row(
            zombie(.call, of: "Shop.Outer<Swift.Array<Shop.Cart>>.Inner", member: "go()"),
            "method Inner.go() was called on a deallocated Shop.Outer<Swift.Array<Shop.Cart>>.Inner (48 bytes at 0x7f00)"
        ),
        Row(zombie(.call, member: "deinit"), "Cart.deinit was called on a deallocated Shop.Cart (48 bytes at 0x7f00)"),
        Row(
            zombie(.call, detail: ["slot": "12"]),
            "a method (word 12 of the class) was called on a deallocated Shop.Cart (48 bytes at 0x7f00)"),
        Row(
            zombie(.call, of: "geo::Circle", language: "c++", detail: ["slot": "3"]),
            "vtable slot 3 was called on a deallocated geo::Circle (48 bytes at 0x7f00)"),
        Row(
            zombie(.call, of: "geo::Circle", member: "area(int) const", language: "c++"),
            "method geo::Circle::area(int) const was called on a deallocated geo::Circle (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, member: "items"),
            "Cart.items was read after its Shop.Cart was deallocated (48 bytes at 0x7f00)"),
        Row(
            zombie(.write, member: "items"),
            "Cart.items was written after its Shop.Cart was deallocated (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, member: "subscript(_:)"),
            "Cart.subscript(_:) was read after its Shop.Cart was deallocated (48 bytes at 0x7f00)"),
        Row(
            zombie(.call, member: "handler", detail: ["part": "contents"]),
            "property Cart.handler of a deallocated Shop.Cart was called (48 bytes at 0x7f00)"),
        Row(zombie(.retain), "a deallocated Shop.Cart was retained (48 bytes at 0x7f00)"),
        Row(zombie(.release), "a deallocated Shop.Cart was released (48 bytes at 0x7f00)"),
        Row(
            zombie(.cast),
            "the class of a deallocated Shop.Cart (48 bytes at 0x7f00) was read (a cast or a dynamic call)"),
        Row(
            zombie(.retain, detail: ["operation": "weak reference"]),
            "a weak reference was formed to a deallocated Shop.Cart (48 bytes at 0x7f00)"),
        Row(
            zombie(.retain, detail: ["operation": "unowned reference"]),
            "an unowned reference to a deallocated Shop.Cart was read (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, detail: ["operation": "uniqueness check"]),
            "a deallocated Shop.Cart was checked for uniqueness (48 bytes at 0x7f00)"),
        Row(zombie(.unknown), "a deallocated Shop.Cart was accessed (48 bytes at 0x7f00)"),
        Row(
            zombie(.release, of: "closure context"),
            "a deallocated closure context was released (what a closure captured, 48 bytes at 0x7f00)"),
        Row(zombie(.retain, of: "box"), "a deallocated box was retained (a captured variable, 48 bytes at 0x7f00)"),
        Row(
            zombie(.retain, of: "Swift._ContiguousArrayStorage<Swift.Int>"),
            "a deallocated [Int] was retained (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, of: "Swift._ContiguousArrayStorage<Swift.UInt8>"),
            "elements of a deallocated [UInt8] were read (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, of: "Swift._ContiguousArrayStorage<Swift.UInt8>", member: "countAndCapacity"),
            "the count of a deallocated [UInt8] was read (48 bytes at 0x7f00)"),
        Row(
            zombie(
                .retain, of: "Swift._DictionaryStorage<Swift.Int, Swift.Int>", member: "_rawKeys",
                detail: ["next": "read"]),
            "elements of a deallocated [Int: Int] were read (48 bytes at 0x7f00)"),
        Row(
            zombie(.write, of: "Swift._DictionaryStorage<(Swift.String, Swift.Int), Shop.Box<Shop.A, Shop.B>>"),
            "elements of a deallocated [(String, Int): Shop.Box<Shop.A, Shop.B>] were written (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, of: "Swift._SetStorage<Swift.Int>"),
            "elements of a deallocated Set<Int> were read (48 bytes at 0x7f00)"),
        Row(
            zombie(.read, of: "Swift.__StringStorage"), "the text of a deallocated String was read (48 bytes at 0x7f00)"
        ),
        Row(zombie(.free, .doubleFree), "a deallocated Shop.Cart (48 bytes at 0x7f00) was freed again"),
    ]

    @Test(arguments: rows) func sentence(row: Row) {
        #expect(row.finding.sentence == row.sentence + ", in checkout() (main.swift:41)")
    }

    @Test func lateWriteNamesTheProperty() {
        let finding = Self.zombie(
            .write, member: "total",
            detail: ["offset": "16", "length": "8", "old": "0x40", "new": "0x4d"], .writeAfterFree)
        #expect(
            finding.sentence == "8 bytes at offset 16 (property Cart.total) of a deallocated Shop.Cart "
                + "(48 bytes at 0x7f00) changed after it was freed, from 0x40 to 0x4d")
    }

    // MARK: Reference counting

    static let operations: [(functions: [String], access: Finding.Access, operation: String?)] = [
        (["swift_retain"], .retain, nil), (["swift_release_n"], .release, nil),
        (["swift::RefCounts::incrementSlow"], .retain, nil),
        (["swift::RefCounts::doDecrementSlow", "swift_release"], .release, nil),
        (["swift::RefCounts::incrementSlow", "swift_bridgeObjectRetain"], .retain, nil),
        (["swift_nonatomic_retain"], .retain, nil), (["_swift_release_dealloc"], .release, nil),
        (["swift::RefCounts::formWeakReference", "swift_weakInit"], .retain, "weak reference"),
        (["swift::RefCounts::formWeakReference"], .retain, "weak reference"),
        (["swift_weakAssign"], .retain, "weak reference"),
        (["swift_retain", "swift_unownedRetainStrong"], .retain, "unowned reference"),
        (["swift_unownedRelease"], .release, "unowned reference"),
        (["swift_isUniquelyReferenced_nonNull_native"], .read, "uniqueness check"),
        (["swift_retainCount"], .read, "reference count"), (["swift_unownedRetainCount"], .read, "reference count"),
        (["swift_retain", "swift_dynamicCastClass"], .cast, nil),
        (["swift_retain", "swift_arrayInitWithCopy"], .retain, nil),
        (["swift_somethingNew"], .unknown, nil), ([], .unknown, nil), (["main", "swift_retain"], .unknown, nil),
    ]

    @Test(arguments: operations)
    func operationOnTheReferenceCount(
        row: (functions: [String], access: Finding.Access, operation: String?)
    ) {
        var finding = Self.zombie(.unknown, detail: ["part": "reference count"])
        finding.stacks.access = row.functions.map { .named($0) } + [.named("Cart.add(_:)"), .named("swift_release")]
        let finished = Symbolicator().symbolicate(finding)
        #expect(finished.access == row.access)
        #expect(finished.detail["operation"] == row.operation)
        #expect(Symbolicator().symbolicate(finished) == finished)
    }

    @Test func otherFindingsKeepTheirAccess() {
        var finding = Self.zombie(.unknown, detail: ["part": "class pointer"])
        finding.stacks.access = [.named("swift_retain")]
        #expect(Symbolicator().symbolicate(finding).access == .unknown)
        finding.access = .cast
        finding.detail["part"] = "reference count"
        #expect(Symbolicator().symbolicate(finding).access == .cast)
    }

    // MARK: Raw findings

    @Test func rawKeysAreReadAndNeverWritten() throws {
        let raw = """
            {"schema":"zguard.finding/1","kind":"use-after-free","access":"call","block":{"start":"0x10","size":16,\
            "language":"c++","class_symbol":"_ZTSN3geo6CircleE","member_frame":{"pc":"0x1","module":"/none","offset":"0x1"}}}
            """
        let finding = try Finding(parsing: raw)
        #expect(finding.block?.classSymbol == "_ZTSN3geo6CircleE")
        #expect(finding.block?.memberFrame?.module == "/none")
        #expect(!finding.jsonLine.contains("class_symbol") && !finding.jsonLine.contains("member_frame"))
        let finished = Symbolicator().symbolicate(finding)
        #expect(finished.block?.className == "geo::Circle")
        #expect(finished.block?.member == nil)
        #expect(finished.block?.memberFrame == nil && finished.block?.classSymbol == nil)
    }
}

/// Members and classes from a real program's symbols.
@Suite struct ZombieSymbolTests {
    private let scratch: Scratch
    private let program: String

    private static let source = """
        struct Base { virtual ~Base() {} virtual int f() { return 1; } int x; };
        struct Derived : Base { Base *held = nullptr; ~Derived() { delete held; } int f() override { return 2; } };
        extern "C" __attribute__((noinline)) int plain() { return 3; }
        extern "C" int alias() __attribute__((alias("plain")));
        int twice(int x) { return x * 2; }
        int main() { Base *b = new Derived; int r = b->f() + plain() + alias(); delete b; return r + twice(1) - 10; }
        """

    init() throws {
        scratch = try Scratch()
        program = try scratch.compile(Self.source, ["-g", "-O0", "-xc++", "-Wl,--no-as-needed", "-lstdc++"])
    }

    private func frame(_ address: UInt64) -> Finding.Frame {
        Finding.Frame(pc: Address(address), module: program, offset: Address(address))
    }

    private func finish(
        member: String? = nil, at offset: UInt64 = 0, classSymbol: String? = nil, free: [Finding.Frame] = [],
        slot: Int? = nil
    ) throws -> Finding.Block {
        var block = Finding.Block(start: Address(16), size: 16, language: "c++")
        block.classSymbol = classSymbol
        if let member { block.memberFrame = frame(try #require(try symbolAddresses(in: program)[member]) + offset) }
        var access = Finding.Access.call
        return Symbolicator().finish(block, freedBy: free, slot: slot, in: &access)
    }

    @Test func memberIsTheFunctionThatBeginsThere() throws {
        #expect(try finish(member: "_ZN7Derived1fEv").member == "f()")
        #expect(try finish(member: "_ZN7Derived1fEv", at: 1).member == nil)
        #expect(try finish(member: "plain").member == nil)
        #expect(try finish(member: "_ZN7DerivedD0Ev").member == "~Derived()")
        // Two symbols with the same readable name: complete and base object destructor.
        #expect(try finish(member: "_ZN7DerivedD1Ev").member == "~Derived()")
    }

    @Test func classComesFromTheSymbolOrTheDestructor() throws {
        #expect(try finish(classSymbol: "_ZTS4Base").className == "Base")
        #expect(try finish(classSymbol: "no such symbol").className == nil)
        let all = try symbolAddresses(in: program)
        let deleting = try #require(all["_ZN7DerivedD0Ev"])
        let complete = try #require(all["_ZN7DerivedD1Ev"])
        let main = try #require(all["main"])
        // The last call in the deleting destructor calls operator delete.
        let calls = (deleting..<deleting + 80).filter { pc in
            #if arch(x86_64)
            byte(at: pc) == 0xe8
            #else
            pc % 4 == 0 && byte(at: pc + 3) & 0xfc == 0x94
            #endif
        }
        #if arch(x86_64)
        let returns = calls.map { $0 + 5 }
        #else
        let returns = calls.map { $0 + 4 }
        #endif
        let toDelete = try #require(returns.dropFirst().first) - 1
        let toComplete = try #require(returns.first) - 1
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toDelete), frame(main)]).className == "Derived")
        // Slots 0 and 1 are the destructors.
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toDelete)], slot: 2).member == "f()")
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toDelete)], slot: 1).member == "~Derived()")
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toDelete)], slot: 99_999).member == nil)
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toComplete)], slot: 2).member == nil)
        // If the stack is inside another destructor call, operator delete was called for another object.
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(toComplete), frame(main)]).className == "Base")
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(complete + 8), frame(main)]).className == "Base")
        #expect(try finish(classSymbol: "_ZTS4Base", free: [frame(main + 8)]).className == "Base")
    }

    private func byte(at address: UInt64) -> UInt8 {
        (try? ModuleSymbols(path: program, buildID: nil))?.bytes(at: Address(address), count: 1).first ?? 0
    }

    @Test func inlinedFunctionsAreFramesOfTheirOwn() throws {
        let source = """
            volatile int sink;
            static inline __attribute__((always_inline)) void innermost(int x) {
                sink = x;
            }
            static inline __attribute__((always_inline)) void middle(int x) {
                innermost(x + 1);
            }
            int main(void) {
                middle(sink);
                return 0;
            }
            """
        let program = try scratch.compile(source, ["-g", "-O1"], name: "inlined")
        let main = try #require(try symbolAddresses(in: program)["main"])
        let stacks = (main..<main + 32).map { address in
            Symbolicator().symbolicate([Finding.Frame(pc: Address(address), module: program, offset: Address(address))])
        }
        let deepest = try #require(stacks.max { $0.count < $1.count })
        #expect(deepest.map(\.function) == ["innermost", "middle", "main"])
        #expect(deepest.map(\.line) == [3, 6, 9])
        #expect(deepest.map(\.inlined) == [true, true, false])
        #expect(Set(deepest.map(\.pc)).count == 1)
        // Symbolication does not change a finished report.
        let raw = Finding(kind: .doubleFree, stacks: Finding.Stacks(access: stacks.map { bare($0[0]) }, free: deepest))
        let finished = Symbolicator().symbolicate(raw)
        #expect(finished.stacks.access.count == stacks.joined().count)
        let again = try Finding(parsing: finished.jsonLine)
        #expect(Symbolicator().symbolicate(again) == finished)
    }

    private func bare(_ frame: Finding.Frame) -> Finding.Frame {
        Finding.Frame(pc: frame.pc, module: frame.module, offset: frame.offset)
    }
}
