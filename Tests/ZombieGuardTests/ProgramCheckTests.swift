// Programs that can be guarded, cannot be guarded, cannot be run, or do not exist.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct ProgramCheckTests {
    private let scratch: Scratch
    private let check = ProgramCheck(searchPath: "/usr/bin:/bin")

    init() throws { scratch = try Scratch() }

    /// Returns a small ELF file: header, program headers, and the interpreter's path, if given.
    private func image(
        type: UInt16 = 3, machine: UInt16? = nil, is64Bit: Bool = true, interpreter: String? = nil, dynamic: Bool = true
    ) throws -> [UInt8] {
        let own = try Data(contentsOf: URL(fileURLWithPath: "/proc/self/exe"), options: .alwaysMapped)
        let ownMachine = UInt16(own[18]) | UInt16(own[19]) << 8
        func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
        let path: [UInt8] = interpreter.map { Array($0.utf8) + [0] } ?? []
        var segments: [(type: UInt32, size: Int)] = [(1, 64)]
        if dynamic { segments.append((2, 16)) }
        if interpreter != nil { segments.append((3, path.count)) }
        let end = UInt64(64 + 56 * segments.count)
        var image: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, is64Bit ? 2 : 1, 1, 1] + [UInt8](repeating: 0, count: 9)
        image += bytes(type) + bytes(machine ?? ownMachine) + bytes(UInt32(1))
        image += bytes(UInt64(0)) + bytes(UInt64(64)) + bytes(UInt64(0)) + bytes(UInt32(0))
        image +=
            bytes(UInt16(64)) + bytes(UInt16(56)) + bytes(UInt16(segments.count)) + bytes(UInt16(64)) + bytes(UInt32(0))
        for segment in segments {
            image += bytes(segment.type) + bytes(UInt32(4)) + bytes(segment.type == 3 ? end : 0)
            image += bytes(UInt64(0)) + bytes(UInt64(0)) + bytes(UInt64(segment.size)) + bytes(UInt64(segment.size))
            image += bytes(UInt64(8))
        }
        return image + path
    }

    private let loader = "/lib64/ld-linux-x86-64.so.2"

    private func refusal(of path: String) -> ProgramRefusal? {
        do throws(ProgramRefusal) {
            try check.check(try check.resolve(path), name: "x")
            return nil
        } catch {
            return error
        }
    }

    private func refusal(of image: [UInt8], mode: mode_t = 0o755) throws -> ProgramRefusal? {
        refusal(of: try scratch.file("x", image, mode: mode))
    }

    @Test func realProgramsPass() throws {
        #expect(refusal(of: "ls") == nil)
        #expect(refusal(of: "/proc/self/exe") == nil)
        #expect(try refusal(of: image(interpreter: "/bin/sh")) == nil)
        #expect(refusal(of: try scratch.compile("int main(void) { return 0; }")) == nil)
    }

    @Test(arguments: [["-static"], ["-static-pie"]]) func staticProgramsAreRefused(flags: [String]) throws {
        let refusal = refusal(of: try scratch.compile("int main(void) { return 0; }", flags))
        #expect(refusal?.status == .cannotGuard)
        #expect(refusal?.message == "cannot guard 'x': it is statically linked, so nothing can be preloaded into it")
        #expect(refusal?.hint != nil)
    }

    @Test(arguments: [(0o4755, "is a setuid executable"), (0o2755, "is a setgid executable")])
    func privilegedProgramsAreRefused(row: (mode: Int, what: String)) throws {
        let refusal = try refusal(of: image(interpreter: "/bin/sh"), mode: mode_t(row.mode))
        #expect(refusal?.status == .cannotGuard)
        #expect(
            refusal?.message == "cannot guard 'x': it \(row.what), and the loader does not preload the library into it")
    }

    @Test func foreignProgramsAreRefused() throws {
        let narrow = try refusal(of: image(is64Bit: false, interpreter: "/bin/sh"))
        #expect(narrow?.status == .cannotGuard)
        #expect(narrow?.message == "cannot guard 'x': it is a 32-bit program")
        let other = try refusal(of: image(machine: 243, interpreter: "/bin/sh"))
        #expect(other?.status == .cannotGuard)
        #expect(other?.message == "cannot guard 'x': it is for another architecture")
        let musl = try refusal(of: image(interpreter: "/lib/ld-musl-x86_64.so.1"))
        #expect(musl?.status == .cannotGuard)
        #expect(musl?.message == "cannot guard 'x': it is linked with musl, the runtime with glibc")
    }

    @Test func missingLoaderIsSaid() throws {
        let refusal = try refusal(of: image(interpreter: "/lib/no-such-loader"))
        #expect(refusal?.status == .cannotRun)
        #expect(refusal?.message == "cannot run 'x': its loader '/lib/no-such-loader': No such file or directory")
    }

    @Test func whatIsNoProgramIsNotRun() throws {
        let cases: [[UInt8]] = [
            [], Array("echo hello\n".utf8), [0x7f, 0x45, 0x4c, 0x46], Array(try image(interpreter: loader).prefix(40)),
            Array(try image(interpreter: loader).prefix(100)), try image(type: 1),
        ]
        for bytes in cases {
            let refusal = try refusal(of: bytes)
            #expect(refusal?.status == .cannotRun, "\(bytes.count) bytes")
            #expect(refusal?.message == "cannot run 'x': Exec format error", "\(bytes.count) bytes")
        }
    }

    @Test func everyDamagedHeaderIsAnswered() throws {
        // Any result is accepted: a header with bad offsets must not crash the checker.
        let whole = try image(interpreter: loader)
        for index in whole.indices {
            var damaged = whole
            damaged[index] = 0xff
            _ = try refusal(of: damaged)
        }
    }

    @Test func scriptsAreJudgedByTheirInterpreter() throws {
        #expect(try refusal(of: Array("#!/bin/sh -e\necho\n".utf8)) == nil)
        #expect(try refusal(of: Array("#! /usr/bin/env python3\n".utf8)) == nil)
        #expect(try refusal(of: Array("#!/bin/sh".utf8)) == nil)
        let program = try scratch.compile("int main(void) { return 0; }", ["-static"], name: "still")
        let refused = try refusal(of: Array("#!\(program)\n".utf8))
        #expect(refused?.status == .cannotGuard)
        #expect(refused?.message.contains("/still'") == true)
        let second = try scratch.file("second", Array("#!\(program) -x\n".utf8), mode: 0o755)
        #expect(try refusal(of: Array("#!\(second)\n".utf8))?.status == .cannotGuard)
        #expect(
            try refusal(of: Array("#!/no/such\n".utf8))?.message
                == "cannot run 'x': its interpreter '/no/such': No such file or directory")
        let itself = scratch.path + "/x"
        #expect(try refusal(of: Array("#!\(itself)\n".utf8))?.message == "cannot run '\(itself)': Exec format error")
        #expect(try refusal(of: Array("#!\n".utf8))?.status == .cannotRun)
    }

    @Test func programsAreFoundAsTheShellFindsThem() throws {
        let first = scratch.path + "/first"
        let second = scratch.path + "/second"
        for directory in [first, second, first + "/tool"] {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        }
        _ = try scratch.file("second/tool", [], mode: 0o755)
        _ = try scratch.file("first/plain", [], mode: 0o644)
        let check = ProgramCheck(searchPath: "\(first):/no/such:\(second)")
        #expect(try check.resolve("tool") == second + "/tool")

        let rows: [(name: String, status: ProgramRefusal.Status, message: String)] = [
            ("no-such-tool", .notFound, "cannot find program 'no-such-tool'"),
            ("", .notFound, "cannot find program ''"),
            ("plain", .cannotRun, "cannot run 'plain': Permission denied"),
            (first + "/none", .notFound, "cannot find program '\(first)/none'"),
            (first, .cannotRun, "cannot run '\(first)': Is a directory"),
            (first + "/plain", .cannotRun, "cannot run '\(first)/plain': Permission denied"),
            (first + "/plain/x", .notFound, "cannot find program '\(first)/plain/x'"),
        ]
        for row in rows {
            #expect(throws: ProgramRefusal(row.status, row.message)) { try check.resolve(row.name) }
        }
    }
}
