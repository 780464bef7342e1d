// Fixtures of several tests: files, compiled programs, a sample finding.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

/// A directory for one test's files, which is removed when this object is released.
final class Scratch {
    let path: String

    init() throws {
        var template = Array((NSTemporaryDirectory() + "zguard-tests.XXXXXX").utf8CString)
        try #require(mkdtemp(&template) != nil)
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String, _ contents: some Sequence<UInt8>, mode: mode_t = 0o600) throws -> String {
        let file = "\(path)/\(name)"
        try Data(contents).write(to: URL(fileURLWithPath: file))
        try #require(chmod(file, mode) == 0)
        return file
    }

    /// Compiles a C program. Returns the path of the executable.
    func compile(_ source: String, _ flags: [String] = ["-g", "-O0"], name: String = "program") throws -> String {
        let input = try file(name + ".c", source.utf8)
        let compiler = Process()
        compiler.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        compiler.arguments = ["cc"] + flags + ["-o", "\(path)/\(name)", input]
        try compiler.run()
        compiler.waitUntilExit()
        try #require(compiler.terminationStatus == 0)
        return "\(path)/\(name)"
    }
}

/// Addresses of a program's symbols, as in its ELF file.
func symbolAddresses(in program: String) throws -> [String: UInt64] {
    let nm = Process()
    let pipe = Pipe()
    nm.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    nm.arguments = ["nm", program]
    nm.standardOutput = pipe
    try nm.run()
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    nm.waitUntilExit()
    var addresses: [String: UInt64] = [:]
    for line in output.split(separator: "\n") {
        let fields = line.split(separator: " ")
        if fields.count == 3, let address = UInt64(fields[0], radix: 16) { addresses[String(fields[2])] = address }
    }
    return addresses
}

extension Finding {
    static func sample(_ kind: Kind = .doubleFree) -> Finding {
        Finding(
            kind: kind, access: .free, address: Address(0x7f00_0010),
            block: Block(
                start: Address(0x7f00_0010), size: 48, offset: 0, state: "quarantined", allocatingThread: 1,
                freeingThread: 2),
            thread: Thread(id: 3, name: "worker"),
            stacks: Stacks(
                access: [.named("close_twice", "src/app.c", 41), .named("main", "src/app.c", 60)],
                free: [.named("close_once", "src/app.c", 30)], alloc: [.named("open_it", "src/app.c", 12, column: 7)]),
            processID: 77, program: "/opt/app", time: "2026-01-02T03:04:05Z")
    }
}

extension Finding.Frame {
    static func named(_ function: String, _ file: String? = nil, _ line: Int? = nil, column: Int? = nil) -> Self {
        Finding.Frame(
            pc: Address(0x1000), module: "/opt/app", offset: Address(0x1000), function: function, file: file,
            line: line,
            column: column)
    }

    static func unnamed(_ module: String?, _ offset: UInt64) -> Self {
        Finding.Frame(pc: Address(0x5000 + offset), module: module, offset: module == nil ? nil : Address(offset))
    }
}

extension Finding {
    /// Parses a line of a report of this user. `init(jsonLine:)` sets the author to unknown.
    init(parsing line: String) throws {
        var line = line
        self = try JSONScanner.read(&line, Finding.read)
    }
}
