import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct ProgramEndTests {
    @Test(
        arguments: [
            (ProgramEnd(status: 0), nil), (ProgramEnd(status: 3), nil), (ProgramEnd(status: 128), nil),
            (ProgramEnd(status: 200), nil),
            (ProgramEnd(status: 137), "ended with status 137, which shells return where SIGKILL ended a program"),
            (ProgramEnd(status: 137, signal: 9, cause: .unknown, seconds: 3.24), "killed by SIGKILL after 3.2 s"),
            (
                ProgramEnd(status: 137, signal: 9, cause: .memory, seconds: 63),
                "killed by SIGKILL after 1 min 3 s (the kernel was out of memory)"
            ),
            (
                ProgramEnd(status: 137, signal: 9, cause: .processorLimit, seconds: 12),
                "killed by SIGKILL after 12 s (its limit on processor time)"
            ),
            (
                ProgramEnd(status: 159, signal: 31, cause: .seccomp, seconds: 0.04),
                "killed by a seccomp filter (SIGSYS) after 0.04 s"
            ),
            (ProgramEnd(status: 139, signal: 11, cause: .program, seconds: 1), "ended by SIGSEGV"),
            (
                ProgramEnd(status: 139, signal: 11, cause: .handler),
                "ended by SIGSEGV, in one of its own signal handlers"
            ),
            (ProgramEnd(status: 139, cause: .handler), "ended with status 139, in one of its own signal handlers"),
            (ProgramEnd(status: 168, signal: 40, cause: .unknown), "killed by signal 40 after 0.0 s"),
        ] as [(ProgramEnd, String?)])
    func clause(_ end: ProgramEnd, _ text: String?) { #expect(end.text == text) }

    @Test func inferredCauseIsNoCertainty() {
        var end = ProgramEnd(status: 137, signal: 9, cause: .memory, seconds: 63)
        end.isCauseInferred = true
        #expect(end.text == "killed by SIGKILL after 1 min 3 s (the kernel was out of memory), most likely")
    }

    @Test func ownEndsNeedNoExplanation() {
        #expect(ProgramEnd(status: 3).isOwn)
        #expect(!ProgramEnd(status: 3, cause: .handler).isOwn)
        #expect(ProgramEnd(status: 137, signal: 9, cause: .unknown).needsExplanation)
        #expect(!ProgramEnd(status: 139, signal: 11, isExplained: true).needsExplanation)
    }

    @Test(arguments: ProgramEnd.Cause.allCases)
    func linesAreReadAgain(_ cause: ProgramEnd.Cause) throws {
        let run = RunLine(
            program: "pro\"gram", processID: 7, end: ProgramEnd(status: 137, signal: 9, cause: cause, seconds: 3.2))
        #expect(RunLine(jsonLine: run.jsonLine) == run)
    }

    @Test(arguments: [
        "{}", #"{"schema":"zguard.run/2","program":"p","pid":1,"end":{"status":1}}"#,
        #"{"schema":"zguard.run/1","program":"p","pid":1}"#,
    ])
    func otherLinesAreNone(_ line: String) { #expect(RunLine(jsonLine: line) == nil) }

    @Test func hostileLinesAreHarmless() throws {
        let line =
            #"{"schema":"zguard.run/1","program":"p","pid":1,"end":{"status":-2147483648,"signal":"x","seconds":1e300}}"#
        let run = try #require(RunLine(jsonLine: line))
        #expect(run.end.text?.isEmpty == false)
    }

    @Test func suiteOfEndedRunDoesNotPass() {
        let end = ProgramEnd(status: 137, signal: 9, cause: .unknown, seconds: 1)
        let text = JUnitReport(ReportDocument(findings: [], title: "p", end: end)).text
        #expect(text.contains(#"tests="1" failures="0" errors="1""#))
        #expect(text.contains("killed by SIGKILL after 1.0 s"))
        #expect(!text.contains("no findings"))
    }
}
