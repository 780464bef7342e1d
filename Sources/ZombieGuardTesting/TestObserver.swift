// What a guarded bundle does at its start, around every test of XCTest, and at its end.

import CZombieTesting
import Glibc
import Synchronization
@preconcurrency import XCTest
import ZombieGuardCore

/// Makes every finding in a test of XCTest a failure of that test. Swift Testing has a trait for it.
private final class TestObserver: XCTestObservation {
    func testCaseWillStart(_ testCase: XCTestCase) {
        let scope = FindingScope(
            label: "test \(testCase.name)", functionName: "\(testCase.name)(", parent: nil)
        CurrentTest.xctestCase.withLock { $0 = .init(testCase: testCase, scope: scope) }
        ExpectedZombie.forgetCalls()
        FindingLedger.open(scope)
        // Registered first, so it runs as the last of the test's blocks; a failure cannot be recorded any later.
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

@_cdecl("zg_testing_started")
func testBundleStarted() {
    _ = ownProcess
    XCTestObservationCenter.shared.addTestObserver(TestObserver())
    if !ExpectedZombie.isChild { GuardRuntime.current?.whenDying(reportEnd) }
}

/// The whole report of what the process is about to die of: no test can say it any more.
@Sendable private func reportEnd(_ finding: Finding) {
    let output = Descriptor(adopting: dup(STDERR_FILENO))
    let style = TextStyle(directory: getcwd(nil, 0).map { String(cString: $0) })
    try? output.write(TextRenderer(style: style, excerpts: SourceExcerpts()).render(finding))
}

/// What nobody waited for must not pass silently: it ends the process with the status of `zguard run`. Tests that passed say little
/// where little was watched, so that is said, too.
@_cdecl("zg_testing_ending")
func testBundleEnding(_ status: CInt) -> CInt {
    guard getpid() == ownProcess, !ExpectedZombie.isChild else { return status }
    let watched = GuardRuntime.current?.statistics.coverage.text ?? Coverage.unknownText
    let output = Descriptor(adopting: dup(STDERR_FILENO))
    let findings = FindingLedger.closeAll().filter { $0.kind != .deallocMismatch }
    if findings.isEmpty {
        try? output.write("ZombieGuard: \(watched)\n")
        return status
    }
    var text = ""
    for finding in findings { text += "\(TextRenderer.mark)\(finding.message)\n" }
    let count = findings.count == 1 ? "1 finding" : "\(findings.count) findings"
    text +=
        "zguard: error: \(count) outside of the tests that are guarded by .zombieGuarded or expectNoZombies\n"
    text += "ZombieGuard: \(watched)\n"
    try? output.write(text)
    return status == 0 ? 99 : status
}
