// Runs `zguard run` as a process, with a fake runtime library that writes the findings that a test chooses.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct RunTests {
    private let scratch: Scratch
    private let library: String

    /// Appends the line in FINDING to the raw findings in every process, as the runtime does.
    private static let standIn = """
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>

        __attribute__((constructor)) static void start(void) {
            const char *options = getenv("ZGUARD_OPTIONS"), *finding = getenv("FINDING");
            const char *path = options ? strstr(options, "report_path=") : NULL;
            if (!path || !finding) return;
            char name[512] = {0};
            strncpy(name, path + 12, sizeof name - 1);
            name[strcspn(name, ":")] = 0;
            int file = open(name, O_WRONLY | O_APPEND);
            if (file < 0 || write(file, finding, strlen(finding)) < 0) abort();
            close(file);
        }
        """

    init() throws {
        scratch = try Scratch()
        library = try scratch.compile(Self.standIn, ["-shared", "-fPIC"], name: "standin.so")
    }

    private struct Outcome {
        var status: Int32
        var output: String
        var errors: String
    }

    /// Starts the zguard that was built beside the tests.
    private func start(_ words: [String], _ environment: [String: String]) throws -> (Process, Pipe, Pipe) {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("zguard")
        process.arguments = words
        var all = ["PATH": "/usr/bin:/bin", "TMPDIR": scratch.path, "ZGUARD_LIBRARY": library]
        all.merge(environment) { $1 }
        process.environment = all
        let output = Pipe()
        let errors = Pipe()
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        return (process, output, errors)
    }

    private func zguard(_ words: [String], _ environment: [String: String] = [:]) throws -> Outcome {
        let (process, output, errors) = try start(words, environment)
        return finish(process, output, errors)
    }

    private func finish(_ process: Process, _ output: Pipe, _ errors: Pipe) -> Outcome {
        let output = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let errors = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return Outcome(status: process.terminationStatus, output: output, errors: errors)
    }

    private func temporaryDirectories() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: scratch.path).filter { $0.hasPrefix("zguard.") }
    }

    private let finding = Finding.sample().jsonLine + "\n"
    private var reportText: String { TextRenderer().render(.sample()) }

    private static let nothingKnown = "==zguard== no findings; coverage is unknown\n"

    static let ends: [(script: String, status: Int32, clause: String)] = [
        ("exit 0", 0, ""), ("exit 3", 3, ""), ("exit 255", 255, ""), ("kill -SEGV $$", 139, "; ended by SIGSEGV"),
        ("kill -KILL $$", 137, "; killed by SIGKILL after "),
    ]

    @Test(arguments: ends) func ownExitStatusIsKept(row: (script: String, status: Int32, clause: String)) throws {
        let outcome = try zguard(["run", "--", "sh", "-c", row.script])
        #expect(outcome.status == row.status)
        #expect(outcome.output == "")
        // The fake runtime reports no coverage.
        #expect(outcome.errors.hasPrefix(Self.nothingKnown.dropLast() + row.clause))
        #expect(row.clause != "" || outcome.errors == Self.nothingKnown)
        #expect(try temporaryDirectories() == [])
    }

    @Test func findingsAreSaidOnStandardErrorAndInTheStatus() throws {
        let environment = ["FINDING": finding]
        let outcome = try zguard(["run", "--", "echo", "hello"], environment)
        #expect(outcome.status == 99)
        #expect(outcome.output == "hello\n")
        #expect(outcome.errors.hasPrefix(reportText + "==zguard== 1 finding (1 double-free) in echo ["))
        #expect(try zguard(["run", "--exit-code", "5", "true"], environment).status == 5)
        #expect(try zguard(["run", "--exit-code=0", "true"], environment).status == 0)
        #expect(try zguard(["run", "false"], environment).status == 1)
        #expect(try zguard(["run", "--quiet", "true"], environment).errors == reportText)
    }

    @Test func reportIsWrittenWithCounts() throws {
        let path = scratch.path + "/report.json"
        let words = ["run", "--report", path, "--", "sh", "-c", "ls / > /dev/null; exit 0"]
        let outcome = try zguard(words, ["FINDING": finding])
        #expect(outcome.status == 99)
        #expect(outcome.errors.hasSuffix(", written to '\(path)'; coverage is unknown\n"))
        #expect(outcome.errors.hasPrefix("==zguard== 1 finding (1 double-free, seen 2 times) in sh ["))
        var expected = Finding.sample()
        expected.count = 2
        expected.addSignature()
        #expect(try String(contentsOfFile: path, encoding: .utf8) == expected.jsonLine + "\n")
        _ = try zguard(["run", "--report", path, "--format", "text", "true"], ["FINDING": finding])
        #expect(try String(contentsOfFile: path, encoding: .utf8) == reportText)
        _ = try zguard(["run", "--report", path, "true"])
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "")
    }

    @Test func refusedBeforeAnythingRuns() throws {
        let witness = scratch.path + "/witness"
        let rows: [(words: [String], status: Int32, message: String)] = [
            (
                ["--report", "/no/such/x"], 64,
                "zguard: error: cannot write report '/no/such/x': No such file or directory\n"
            ),
            (
                ["-o", "stack_depth=x"], 64,
                "zguard: error: option 'stack_depth' has the bad value 'x': expected 0 to 128\n"
            ),
            (
                ["--exit-code", "x"], 64,
                "zguard: error: option '--exit-code' has the bad value 'x': expected 0 to 255\n"
            ),
        ]
        for row in rows {
            let outcome = try zguard(["run"] + row.words + ["--", "touch", witness])
            #expect(outcome.status == row.status)
            #expect(outcome.errors == row.message)
        }
        let outcome = try zguard(["run", "touch", witness], ["ZGUARD_LIBRARY": "/no/such.so"])
        #expect(outcome.status == 125)
        #expect(outcome.errors.hasPrefix("zguard: error: cannot find the runtime library '/no/such.so': No such file"))
        #expect(!FileManager.default.fileExists(atPath: witness))
        #expect(try zguard(["run", "no-such-program"]).status == 127)
        #expect(try zguard(["run", "/"]).status == 126)
        #expect(try temporaryDirectories() == [])
    }

    @Test func unknownOptionOfTheEnvironmentWarnsOnceAndIsNotPassedOn() throws {
        let outcome = try zguard(
            ["run", "--quiet", "-o", "fill_new=1", "sh", "-c", "echo $ZGUARD_OPTIONS"],
            ["ZGUARD_OPTIONS": "stack_dept=3:stack_depth=4:stack_dept=5"])
        #expect(
            outcome.errors
                == "zguard: warning: unknown option 'stack_dept' in ZGUARD_OPTIONS is ignored\nhint: did you mean 'stack_depth'?\n"
        )
        #expect(outcome.output.hasPrefix("swift_backtrace=skip:stack_depth=4:report_path=\(scratch.path)/zguard."))
        #expect(outcome.output.hasSuffix("/findings:fill_new=1\n"))
    }

    // A mistyped option, like a mistyped flag, is an error: the program does not run.
    @Test(arguments: [
        (["-o", "stack_dept=5"], "stack_dept", "did you mean 'stack_depth'?"),
        (["-ofill_new=1:quarantine_byte=1"], "quarantine_byte", "did you mean 'quarantine_bytes'?"),
        (["-o", "zzzzzzzzz=1"], "zzzzzzzzz", "'zguard options' lists them"),
        (["-o", "Stack_depth=1"], "Stack_depth", "did you mean 'stack_depth'?"),
    ])
    func unknownOptionOfTheCommandLineIsAnError(words: [String], name: String, hint: String) throws {
        let witness = "\(scratch.path)/witness"
        let outcome = try zguard(["run"] + words + ["--", "touch", witness])
        #expect(outcome.status == 64)
        #expect(outcome.errors == "zguard: error: unknown option '\(name)'\nhint: \(hint)\n")
        #expect(!FileManager.default.fileExists(atPath: witness))
    }

    @Test func brokenRawFindingIsSaid() throws {
        let outcome = try zguard(["run", "true"], ["FINDING": String(finding.prefix(100))])
        #expect(outcome.status == 0)
        #expect(outcome.errors == "zguard: warning: raw finding 1 is skipped: cut off\n" + Self.nothingKnown)
    }

    @Test func programSeesItsOwnEnvironment() throws {
        let outcome = try zguard(
            ["run", "--quiet", "sh", "-c", "echo $LD_PRELOAD; echo \"$0\"; umask; pwd", "a b"],
            ["LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6"])
        let lines = outcome.output.split(separator: "\n")
        #expect(lines.first == "\(library):/lib/x86_64-linux-gnu/libm.so.6")
        #expect(lines.dropFirst().first == "a b")
        #expect(lines.last == FileManager.default.currentDirectoryPath[...])
    }

    @Test(arguments: [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT]) func signalIsPassedOn(signal: Int32) throws {
        // The test's own threads block most signals, and zguard passes its signal mask on to the program.
        let script = """
            import os, signal, time
            signal.signal(\(signal), lambda *a: os._exit(40))
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            print("ready", flush=True)
            time.sleep(20)
            """
        let (process, output, errors) = try start(
            ["run", "python3", "-c", script], ["PATH": "/usr/bin:/bin:/usr/local/bin"])
        #expect(output.fileHandleForReading.availableData == Data("ready\n".utf8))
        kill(process.processIdentifier, signal)
        #expect(finish(process, output, errors).status == 40)
        #expect(try temporaryDirectories() == [])
    }

    @Test func signalsReachTheProgramAsTheyWere() throws {
        let show = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
        let plain = Process()
        let pipe = Pipe()
        plain.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        plain.arguments = show
        plain.standardOutput = pipe
        try plain.run()
        let expected = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        plain.waitUntilExit()
        #expect(try zguard(["run", "--quiet"] + show).output == expected)
    }
}
