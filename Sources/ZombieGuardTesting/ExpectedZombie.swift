// What a call of expectZombie has to do in this process, and whether the outcome is what it expects.

import Glibc
import Synchronization
import Testing
import ZombieGuardCore

/// One call of `expectZombie`.
struct ExpectedZombie {
    /// What a call does: in the test run it starts a child; in a child one call is the child's own, all others do nothing.
    enum Role {
        case parent(ChildRun)
        case child(ExpectedZombieChild)
        case bystander
    }

    let className: String
    let access: Finding.Access?
    let timeLimit: Duration
    let location: SourceLocation

    /// Whether this process was started for one call.
    static var isChild: Bool { ExpectedZombieChild.requested != nil }

    // How many calls there have been, by test and place.
    private static let calls = Mutex<[String: Int]>([:])

    /// A new test of XCTest begins.
    static func forgetCalls() { calls.withLock { $0 = [:] } }

    func role() -> Role {
        let test = CurrentTest.now
        guard let testKey = test.key else {
            fail("expectZombie was called outside of a test, or in a detached task: a child process cannot get here")
            return .bystander
        }
        let place = "\(location.fileID):\(location.line):\(location.column)"
        let ordinal = Self.calls.withLock { calls in
            defer { calls["\(testKey) \(place)", default: 0] += 1 }
            return calls["\(testKey) \(place)", default: 0]
        }
        let key = StableKey.of("\(testKey) \(place) \(ordinal)")
        if let requested = ExpectedZombieChild.requested {
            return requested.key == key ? .child(requested) : .bystander
        }
        if let missing = Guarding.missing {
            fail(missing)
            return .bystander
        }
        do throws(ChildRun.Failure) {
            return .parent(try ChildRun(key: key, arguments: test.arguments, timeLimit: timeLimit))
        } catch {
            fail("no child process could be started: \(error)")
            return .bystander
        }
    }

    /// Fails the test unless the child found the expected zombie. Returns its finding.
    func judge(_ result: ChildRun.Result) -> Finding? {
        let findings = result.findings.map { GuardRuntime.symbolicate($0) }
        let first = findings.first
        let what = first.map { ": \($0.message)" } ?? ""
        if !result.reachedCall {
            fail("\(notReached(result.outcome))\(what)\(result.outputNote)", report: first?.report)
        } else if let expected = findings.first(where: { matches($0) }) {
            return expected
        } else if let zombie = findings.first(where: { $0.isZombie }) {
            fail("\(difference(zombie)): \(zombie.message)", report: zombie.report)
        } else {
            fail("\(sentence(result, first))\(what)\(result.outputNote)", report: first?.report)
        }
        return nil
    }

    private func matches(_ finding: Finding) -> Bool {
        finding.isZombie && finding.block?.className.map { normalized($0) } == className
            && (access == nil || access == finding.access)
    }

    private func difference(_ finding: Finding) -> String {
        guard let found = finding.block?.className.map({ normalized($0) }) else {
            return "freed memory was touched, but no zombie of \(className)"
        }
        if found != className { return "a zombie of \(visible(found)) was touched, not of \(className)" }
        let wanted = access.map { "by “\(visible($0.rawValue))”" } ?? ""
        return "the zombie of \(className) was touched by “\(visible(finding.access.rawValue))”, not \(wanted)"
    }

    private func sentence(_ result: ChildRun.Result, _ finding: Finding?) -> String {
        let none = "no zombie of \(className) was touched"
        switch result.outcome {
        case .killed: return "\(none): the body did not end within \(timeLimit) and was killed"
        case .cancelled: return "\(none): the test was cancelled before the body ended"
        case .signal(let number): return "the body crashed with \(signalName(number)), which is no zombie"
        case .unknown: return "\(none): somebody else waited for the child process"
        case .ended(let status):
            if finding != nil { return "\(none), but something else was found" }
            if let error = result.thrown { return "\(none): the body threw \(visible(error))" }
            if result.endedBody { return "\(none): the body ended normally" }
            return "\(none): the body ended the process with status \(status)"
        }
    }

    private func notReached(_ outcome: ChildRun.Outcome) -> String {
        let call = "the child process did not get to this call of expectZombie"
        switch outcome {
        case .killed: return "\(call) within \(max(ChildRun.longestStart, timeLimit)) and was killed"
        case .cancelled: return "\(call) before the test was cancelled"
        case .signal(let number): return "\(call), it crashed with \(signalName(number)) before"
        case .ended, .unknown:
            return "\(call), because the test took another way there or its arguments look different"
        }
    }

    private func fail(_ message: String, report: String? = nil) {
        CurrentTest.fail(message, at: location, report: report)
    }
}

extension Finding {
    /// Whether it is about an object, or any other block, that was freed.
    fileprivate var isZombie: Bool { [.useAfterFree, .writeAfterFree, .doubleFree].contains(kind) }
}

/// "SIGSEGV", or "signal 64".
private func signalName(_ number: CInt) -> String {
    let names: [CInt: String] = [
        SIGABRT: "SIGABRT", SIGALRM: "SIGALRM", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE", SIGILL: "SIGILL",
        SIGINT: "SIGINT", SIGKILL: "SIGKILL", SIGPIPE: "SIGPIPE", SIGSEGV: "SIGSEGV", SIGTERM: "SIGTERM",
        SIGTRAP: "SIGTRAP",
    ]
    return names[number] ?? "signal \(number)"
}

/// FNV-1a with 64 bits: the same in every process, unlike `Hasher`.
private enum StableKey {
    static func of(_ text: String) -> String {
        let hash = text.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
