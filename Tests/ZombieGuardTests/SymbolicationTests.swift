// Symbolication of real files: symbols, lines, build-ids, mangled names.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SymbolicationTests {
    private let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private let source = """
        #include <stdio.h>

        __attribute__((noinline)) int triple(int x) {
            return x * 3;
        }

        int main(void) { printf("%p %p\\n", (void *)triple, (void *)main); return 0; }
        """

    private func address(of symbol: String, in program: String) throws -> Address {
        Address(try #require(try symbolAddresses(in: program)[symbol]))
    }

    private func finding(_ program: String, _ offset: Address, buildID: String? = nil) -> Finding {
        let frame = Finding.Frame(
            pc: Address(0x5500_0000 + offset.rawValue), module: program, buildID: buildID, offset: offset)
        return Finding(kind: .doubleFree, stacks: Finding.Stacks(access: [frame]))
    }

    @Test(arguments: [["-g", "-O0"], ["-g", "-O0", "-no-pie"], ["-g", "-O0", "-static"]])
    func functionFileAndLine(flags: [String]) throws {
        let program = try scratch.compile(source, flags)
        let triple = try address(of: "triple", in: program)
        let symbolicator = Symbolicator()
        let frame = symbolicator.symbolicate(finding(program, Address(triple.rawValue + 4))).stacks.access[0]
        #expect(frame.function == "triple")
        #expect(frame.file?.hasSuffix("/program.c") == true)
        #expect(frame.line == 3)
        #expect(symbolicator.notes.isEmpty)
    }

    @Test func withoutDebugInformationThereIsTheFunctionAlone() throws {
        let program = try scratch.compile(source, ["-O0"])
        let triple = try address(of: "triple", in: program)
        let frame = Symbolicator().symbolicate(finding(program, triple)).stacks.access[0]
        #expect(frame.function == "triple")
        #expect(frame.file == nil)
        #expect(frame.line == nil)
    }

    @Test func anotherBuildGivesNoNames() throws {
        let program = try scratch.compile(source)
        let triple = try address(of: "triple", in: program)
        let symbolicator = Symbolicator()
        var finding = finding(program, triple, buildID: "00ff")
        finding.stacks.free = finding.stacks.access
        let named = symbolicator.symbolicate(finding)
        #expect(named.stacks.access[0].function == nil)
        #expect(
            symbolicator.notes == ["no names for '\(program)': the file is from another build than the one that ran"])
    }

    @Test func ownBuildIDFits() throws {
        let program = try scratch.compile(source, ["-g", "-Wl,--build-id=0x0123456789abcdef"])
        let triple = try address(of: "triple", in: program)
        let named = Symbolicator().symbolicate(finding(program, triple, buildID: "0123456789abcdef"))
        #expect(named.stacks.access[0].function == "triple")
    }

    @Test func missingAndUnreadableFilesAreSaid() throws {
        let gone = scratch.path + "/gone.so"
        let text = try scratch.file("text.so", "no ELF".utf8)
        let symbolicator = Symbolicator()
        for path in [gone, text, gone, "[vdso]"] { _ = symbolicator.symbolicate(finding(path, Address(16))) }
        #expect(
            symbolicator.notes == [
                "no names for '\(gone)': No such file or directory", "no names for '\(text)': not a readable ELF file",
            ])
    }

    @Test func addressOutsideEveryFunctionHasNoName() throws {
        let program = try scratch.compile(source)
        #expect(Symbolicator().symbolicate(finding(program, Address(0x10))).stacks.access[0].function == nil)
        #expect(Symbolicator().symbolicate(finding(program, Address(1 << 40))).stacks.access[0].function == nil)
    }

    @Test func namesThatAreThereStay() throws {
        let program = try scratch.compile(source)
        var finding = finding(program, try address(of: "triple", in: program))
        finding.stacks.access[0].function = "given"
        finding.signature = "kept"
        let named = Symbolicator().symbolicate(finding)
        #expect(named == finding)
    }

    static let names: [(mangled: String, plain: String)] = [
        ("_ZN3foo3barEi", "foo::bar(int)"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"),
        ("$s4Shop4CartC3addyySiF", "Shop.Cart.add(Swift.Int) -> ()"),
        ("main", "main"), ("_Z", "_Z"), ("$s", "$s"), ("_Zno such name", "_Zno such name"), ("", ""),
    ]

    @Test(arguments: names) func demangling(row: (mangled: String, plain: String)) {
        #expect(demangle(row.mangled) == row.plain)
    }
}
