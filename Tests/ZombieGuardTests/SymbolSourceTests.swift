// Every source of symbols, with files made by the system's own tools.

import CDwarf
import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SymbolSourceTests {
    private let scratch: Scratch
    private static let buildID = "00112233445566778899aabbccddeeff00112233"

    init() throws { scratch = try Scratch() }

    private let source = """
        int triple(int x) {
            return x * 3;
        }
        static __attribute__((noinline)) int hidden(int x) {
            return x - triple(x);
        }
        int main(int count, char **words) { return words[0] ? hidden(count) : triple(count); }
        """

    // MARK: Helpers

    private func run(_ words: String..., in directory: String? = nil) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(words)")
    }

    private func directory(_ name: String) throws -> String {
        let path = "\(scratch.path)/\(name)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    private func copy(_ from: String, _ to: String) throws {
        try? FileManager.default.removeItem(atPath: to)
        try FileManager.default.copyItem(atPath: from, toPath: to)
    }

    private func compile(_ flags: String..., name: String = "program", id: String = buildID) throws -> String {
        try scratch.compile(source, flags + ["-Wl,--build-id=" + (id.isEmpty ? "none" : "0x" + id)], name: name)
    }

    private func frame(_ module: String, _ address: UInt64, id: String? = buildID) -> Finding.Frame {
        Finding.Frame(pc: Address(address), module: module, buildID: id, offset: Address(address))
    }

    /// Symbolicates an address, with no other directories than those that the test passes.
    private func name(
        _ module: String, _ address: UInt64, id: String? = buildID, directories: [String] = [], debug: [String] = []
    ) -> (frame: Finding.Frame, notes: [String]) {
        var sources = SymbolSources(directories: directories)
        sources.debugDirectories = debug
        let symbolicator = Symbolicator(sources: sources)
        return (symbolicator.symbolicate([frame(module, address, id: id)])[0], symbolicator.notes)
    }

    private func address(_ symbol: String, in program: String) throws -> UInt64 {
        try #require(try symbolAddresses(in: program)[symbol]) + 4
    }

    private func isTriple(_ frame: Finding.Frame) -> Bool {
        frame.function == "triple" && frame.line == 1 && frame.file?.hasSuffix("/program.c") == true
    }

    // MARK: Separate files

    @Test func debugFileByBuildID() throws {
        let program = try compile("-g", "-O0")
        let triple = try address("triple", in: program)
        let folder = try directory("debug/.build-id/00")
        let file = "\(folder)/\(Self.buildID.dropFirst(2)).debug"
        try run("objcopy", "--only-keep-debug", program, file)
        try run("strip", program)
        #expect(name(program, triple).frame.function == nil)
        #expect(isTriple(name(program, triple, debug: [scratch.path + "/debug"]).frame))
        #expect(isTriple(name(program, triple, directories: [scratch.path + "/debug"]).frame))
        // The debug file is enough if the program is missing.
        #expect(isTriple(name("/gone/program", triple, debug: [scratch.path + "/debug"]).frame))
        // A debug file at the right path with another build-id is ignored.
        let other = try compile("-g", "-O0", name: "other", id: "00ff")
        try run("objcopy", "--only-keep-debug", other, file)
        #expect(name(program, triple, debug: [scratch.path + "/debug"]).frame.line == nil)
    }

    @Test func debugFileByLinkHasItsChecksum() throws {
        let program = try compile("-g", "-O0", id: "")
        let triple = try address("triple", in: program)
        let file = scratch.path + "/program.debug"
        try run("objcopy", "--only-keep-debug", program, file)
        try run("strip", program)
        try run("objcopy", "--add-gnu-debuglink=\(file)", program)
        #expect(isTriple(name(program, triple, id: nil).frame))
        let below = try directory(".debug")
        try FileManager.default.moveItem(atPath: file, toPath: below + "/program.debug")
        #expect(isTriple(name(program, triple, id: nil).frame))
        let handle = try #require(FileHandle(forUpdatingAtPath: below + "/program.debug"))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data([0]))
        try handle.close()
        #expect(name(program, triple, id: nil).frame.line == nil)
    }

    @Test(arguments: ["zlib-gabi", "zlib-gnu"]) func compressedSections(kind: String) throws {
        let program = try compile("-g", "-O0")
        let triple = try address("triple", in: program)
        try run("objcopy", "--compress-debug-sections=\(kind)", program)
        #expect(isTriple(name(program, triple).frame))
    }

    @Test(arguments: [["-gdwarf-5"], ["-gdwarf-4"], ["-gdwarf-5", "-O2"]]) func splitDebugInformation(flags: [String])
        throws
    {
        try Data(source.utf8).write(to: URL(fileURLWithPath: scratch.path + "/program.c"))
        func build(_ more: [String]) throws {
            let words = ["gcc"] + flags + more + ["-g", "-gsplit-dwarf", "-c", scratch.path + "/program.c"]
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = words
            process.currentDirectoryURL = URL(fileURLWithPath: scratch.path)
            try process.run()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
        }
        try build([])
        let program = scratch.path + "/program"
        try run("gcc", "-Wl,--build-id=0x\(Self.buildID)", "-o", program, "program.o", in: scratch.path)
        let triple = try address("triple", in: program) - 4
        #expect(name(program, triple).notes.isEmpty)
        #expect(name(program, triple).frame.function == "triple")
        #expect([1, 2].contains(name(program, triple).frame.line))
        // The file was moved to another directory.
        let elsewhere = try directory("elsewhere")
        let split = try #require(
            FileManager.default.contentsOfDirectory(atPath: scratch.path).first { $0.hasSuffix(".dwo") })
        try FileManager.default.moveItem(atPath: "\(scratch.path)/\(split)", toPath: "\(elsewhere)/\(split)")
        let missing = name(program, triple)
        #expect(missing.notes == ["not all names for '\(program)': '\(split)' is missing or from another build"])
        #expect(missing.frame.function == "triple") // from the symbol table
        #expect(name(program, triple, directories: [elsewhere]).notes.isEmpty)
        // The file with this name is from another build.
        try build(["-DOTHER", "-O1", "-fno-inline"])
        #expect(name(program, triple).notes.count == 1)
    }

    @Test func packageOfSplitDebugInformation() throws {
        try Data(source.utf8).write(to: URL(fileURLWithPath: scratch.path + "/program.c"))
        try run("gcc", "-gdwarf-4", "-gsplit-dwarf", "-O2", "-o", "program", "program.c", in: scratch.path)
        let program = scratch.path + "/program"
        try run("dwp", "-e", program, "-o", program + ".dwp", in: scratch.path)
        for file in try FileManager.default.contentsOfDirectory(atPath: scratch.path) where file.hasSuffix(".dwo") {
            try FileManager.default.removeItem(atPath: "\(scratch.path)/\(file)")
        }
        let triple = try address("triple", in: program) - 4
        #expect(name(program, triple, id: nil).notes.isEmpty)
        try FileManager.default.removeItem(atPath: program + ".dwp")
        #expect(name(program, triple, id: nil).notes.count == 1)
    }

    @Test func commonPartsOfSeveralFiles() throws {
        let program = try compile("-g", "-O0")
        let other = try compile("-g", "-O0", name: "other", id: "00ff")
        let triple = try address("triple", in: program)
        try run("dwz", "-m", scratch.path + "/common.debug", program, other)
        #expect(isTriple(name(program, triple).frame))
    }

    @Test func smallSymbolTableOfAStrippedFile() throws {
        let program = try compile("-O0")
        let hidden = try address("hidden", in: program)
        let small = scratch.path + "/small"
        try run("objcopy", "-S", "--keep-symbol=hidden", "--only-keep-debug", program, small)
        try copy(program, small)
        try run("xz", "-k", small)
        try run("strip", program)
        #expect(name(program, hidden).frame.function == nil)
        try run("objcopy", "--add-section", ".gnu_debugdata=\(small).xz", program)
        #expect(name(program, hidden).frame.function == "hidden")
        #expect(name(program, hidden).frame.line == nil)
    }

    // MARK: Moved and replaced files

    @Test func replacedFileIsSaidAndItsCopyFound() throws {
        let program = try compile("-g", "-O0")
        let triple = try address("triple", in: program)
        let kept = try directory("kept")
        try copy(program, kept + "/program")
        _ = try compile("-g", "-O0", id: "00ff")
        let replaced = name(program, triple)
        #expect(replaced.frame.function == nil)
        #expect(replaced.notes == ["no names for '\(program)': the file is from another build than the one that ran"])
        #expect(isTriple(name(program, triple, directories: [kept]).frame))
        // A file without a build-id is not taken for the original file, which has one.
        _ = try compile("-g", "-O0", id: "")
        #expect(name(program, triple).frame.function == nil)
        #expect(name(program, triple, id: nil).frame.function == "triple")
    }

    @Test(arguments: ["opt/shop/program", "program", ".build-id/00/" + buildID.dropFirst(2)])
    func filesFromAnotherMachine(place: String) throws {
        let program = try compile("-g", "-O0")
        let triple = try address("triple", in: program)
        let root = try directory("root")
        _ = try directory("root/" + place.split(separator: "/").dropLast().joined(separator: "/"))
        try FileManager.default.moveItem(atPath: program, toPath: "\(root)/\(place)")
        let moved = name("/opt/shop/program", triple, directories: [root])
        #expect(isTriple(moved.frame))
        #expect(moved.notes.isEmpty)
        #expect(name("/opt/shop/program", triple, id: "00ff", directories: [root]).frame.function == nil)
        #expect(name("/opt/shop/program", triple).notes.count == 1)
    }

    @Test func namesOfModulesAreNotTrusted() throws {
        let pipe = scratch.path + "/pipe"
        try #require(mkfifo(pipe, 0o600) == 0)
        #expect(name(pipe, 16, id: nil).notes == ["no names for '\(pipe)': not a readable ELF file"])
        #expect(name(scratch.path, 16, id: nil).notes.count == 1)
        #expect(name("/dev/zero", 16, id: nil).notes.count == 1)
        for id in ["../../../../etc/passwd", "", "0", "zz", String(repeating: "a", count: 100_000), "AB\u{0}"] {
            #expect(name("/gone", 16, id: id, directories: ["/"], debug: ["/"]).frame.function == nil)
        }
        #expect(name("\u{1b}[2J/\n", 16).notes.allSatisfy { !$0.contains("\u{1b}") && !$0.contains("\n") })
    }

    // MARK: Symbols

    @Test func strippedFileHasOnlyWhatItsSymbolsCover() throws {
        let program = try compile("-O0", "-rdynamic")
        let symbols = try symbolAddresses(in: program)
        let (triple, hidden) = (try #require(symbols["triple"]), try #require(symbols["hidden"]))
        try run("strip", program)
        #expect(name(program, triple + 2).frame.function == "triple")
        let unknown = name(program, hidden + 2).frame
        #expect(unknown.function == nil)
        #expect(unknown.offset == Address(hidden + 2))
    }

    @Test func labelsReachToTheNextSymbolOfTheirSection() throws {
        let text = """
            __asm__(".text\\n.globl label\\nlabel: nop\\nnop\\n.globl sized\\n.type sized,@function\\nsized: nop\\ninner: nop\\n"
                    ".size sized,.-sized\\nnop\\nnop\\n.globl alias\\n.type alias,@function\\n.globl __alias\\n"
                    ".type __alias,@function\\n__alias:\\nalias: nop\\n.size alias,1\\n.size __alias,1\\n");
            int main(void) { return 0; }
            """
        let program = try scratch.compile(text, ["-O0"])
        let sized = try #require(try symbolAddresses(in: program)["sized"])
        func function(_ address: UInt64) -> String? { name(program, address, id: nil).frame.function }
        #expect(function(sized - 1) == "label")
        #expect(function(sized) == "sized")
        #expect(function(sized + 1) == "sized") // not `inner`, the label inside of it
        #expect(function(sized + 2) == nil)
        #expect(function(sized + 4) == "alias")
    }

    @Test func kernelsOwnImage() throws {
        let image = try #require(VDSO.image())
        let id = try #require(image.buildID)
        let start = try #require(SymbolTables([image]).address(of: "__vdso_clock_gettime"))
        for module in ["linux-vdso.so.1", "[vdso]"] {
            #expect(name(module, start, id: id).frame.function?.hasSuffix("clock_gettime") == true)
            let other = name(module, start, id: "00ff")
            #expect(other.frame.function == nil)
            #expect(other.notes == ["no names for '\(module)': the report's vDSO is from another kernel build"])
            #expect(name(module, start, id: nil).frame.function == nil)
        }
    }

    // MARK: Debug information

    @Test func functionsInsideOfFunctions() throws {
        let text = """
            int twice(int x) {
                struct Local { static int half(int y) { return y / 2; } };
                auto inner = [](int y) { return y * 2; };
                return inner(x) + Local::half(x);
            }
            int main(int count, char **) { return twice(count); }
            """
        let input = try scratch.file("program.cpp", text.utf8)
        for compiler in ["g++", "clang++"] {
            for flags in [["-gdwarf-5"], ["-gdwarf-4"]] {
                let program = scratch.path + "/program"
                try run(compiler, flags[0], "-O0", "-o", program, input)
                for (symbol, start) in try symbolAddresses(in: program) where symbol.contains("twice") {
                    let frame = name(program, start + 4, id: nil).frame
                    let line =
                        symbol.contains("half") ? 2 : symbol.contains("clEi") || symbol.contains("__invoke") ? 3 : 1
                    #expect(frame.function == readableName(symbol), "\(compiler) \(symbol)")
                    if !symbol.contains("cv") { #expect(frame.line == line, "\(compiler) \(flags) \(symbol)") }
                }
            }
        }
    }

    @Test func manyAddressesAtOnceAreAsOneByOne() throws {
        let program = try compile("-g", "-O2")
        let symbols = try symbolAddresses(in: program)
        let start = try #require(symbols["triple"])
        let addresses = (start - 64..<start + 128).map { Address($0) }
        let together = try ModuleSymbols(path: program, buildID: nil)
        together.prepare(addresses.reversed())
        for address in addresses {
            #expect(try together.calls(at: address) == ModuleSymbols(path: program, buildID: nil).calls(at: address))
        }
    }
}
