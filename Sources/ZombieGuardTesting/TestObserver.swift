// Hooks of a guarded test bundle: at its start, around every XCTest test, and at its exit.

import CZombieTesting
import Glibc
import Synchronization
@preconcurrency import XCTest
import ZombieGuardCore

/// Records every finding during an XCTest test as a failure of the test. Swift Testing tests use a trait instead.
private final class TestObserver: XCTestObservation {
    func testCaseWillStart(_ testCase: XCTestCase) {
        let scope = FindingScope(
            label: "test \(testCase.name)", functionName: "\(testCase.name)(", parent: nil)
        CurrentTest.xctestCase.withLock { $0 = .init(testCase: testCase, scope: scope) }
        ExpectedZombie.forgetCalls()
        FindingLedger.open(scope)
        // Registered first, so it runs after the test's other teardown blocks. After teardown blocks, XCTest accepts no
        // failures.
        testCase.addTeardownBlock { Self.close(scope) }
    }

    func testCaseDidFinish(_ testCase: XCTestCase) {
        CurrentTest.xctestCase.withLock { $0 = nil }
    }

    @Sendable private static func close(_ scope: FindingScope) {
        for entry in FindingLedger.close(scope) { entry.fail(else: nil) }
    }
}

private let ownProcess = getpid()

private let listener = Mutex<GuardRuntime.FindingListener?>(nil)

@_cdecl("zg_testing_started")
func testBundleStarted() {
    _ = ownProcess
    XCTestObservationCenter.shared.addTestObserver(TestObserver())
    if !ExpectedZombie.isChild { listener.withLock { $0 = GuardRuntime.current?.onFinding(report) } }
}

/// Prints the first line of a finding. If the finding is about to end the process, prints the complete report, since no
/// test can report it any more.
@Sendable private func report(_ finding: Finding, isEnd: Bool) {
    let output = Descriptor(adopting: dup(STDERR_FILENO))
    if !isEnd {
        try? output.write("\(TextRenderer.mark)\(finding.headline)\n")
        return
    }
    let style = TextStyle(directory: getcwd(nil, 0).map { String(cString: $0) })
    try? output.write(TextRenderer(style: style, excerpts: SourceExcerpts()).render(finding))
}

/// Prints the findings that no test has reported: those outside of all scopes and those of scopes that are still open.
/// If there are any, changes exit status 0 to 99, as `zguard run` does. Also prints the coverage, because passing tests
/// mean little if few allocations were watched.
@_cdecl("zg_testing_ending")
func testBundleEnding(_ status: CInt) -> CInt {
    guard getpid() == ownProcess, !ExpectedZombie.isChild else { return status }
    let watched = GuardRuntime.current?.statistics.coverage.text ?? Coverage.unknownText
    let output = Descriptor(adopting: dup(STDERR_FILENO))
    listener.withLock { $0 }?.sayNew(isEnd: false)
    let findings = FindingLedger.closeAll().filter { $0.kind != .deallocMismatch }
    if findings.isEmpty {
        try? output.write("ZombieGuard: \(watched)\n")
        return status
    }
    var text = ""
    for finding in findings { text += "\(TextRenderer.mark)\(finding.message)\n" }
    let count = findings.count == 1 ? "1 finding" : "\(findings.count) findings"
    text +=
        "zguard: error: \(count) outside of tests with .zombieGuarded or expectNoZombies\n"
    text += "ZombieGuard: \(watched)\n"
    try? output.write(text)
    return status == 0 ? 99 : status
}
