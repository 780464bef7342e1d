// Decides what a call of expectZombie does in this process, and compares the outcome with the expected one.

import Glibc
import Synchronization
import Testing
import ZombieGuardCore

/// One call of `expectZombie`.
struct ExpectedZombie {
    /// In the test run, a call starts a child process. In a child process, only the call for which the child was
    /// started runs its body; all other calls do nothing.
    enum Role {
        case parent(ChildRun)
        case child(ExpectedZombieChild)
        case bystander
    }

    let className: String
    let access: Finding.Access?
    let timeLimit: Duration
    let location: SourceLocation

    /// Whether this process is a child that was started for one call.
    static var isChild: Bool { ExpectedZombieChild.requested != nil }

    // Number of calls so far, by test and source location.
    private static let calls = Mutex<[String: Int]>([:])

    /// Resets the call counts when a new XCTest test begins.
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

    /// Returns the expected finding of the child, or fails the test if there is none.
    func evaluate(_ result: ChildRun.Result) -> Finding? {
        let findings = result.findings.map { GuardRuntime.symbolicate($0) }
        let first = findings.first
        let what = first.map { ": \($0.message)" } ?? ""
        if !result.reachedCall {
            fail("\(notReachedText(result.outcome))\(what)\(result.outputNote)", report: first?.report)
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
        case .unknown: return "\(none): other code waited for the child process"
        case .ended(let status):
            if finding != nil { return "\(none), but something else was found" }
            if let error = result.thrown { return "\(none): the body threw \(visible(error))" }
            if result.endedBody { return "\(none): the body ended normally" }
            return "\(none): the body ended the process with status \(status)"
        }
    }

    private func notReachedText(_ outcome: ChildRun.Outcome) -> String {
        let call = "the child process did not get to this call of expectZombie"
        switch outcome {
        case .killed: return "\(call) within \(max(ChildRun.longestStart, timeLimit)) and was killed"
        case .cancelled: return "\(call) before the test was cancelled"
        case .signal(let number): return "\(call), it crashed with \(signalName(number)) before"
        case .ended, .unknown:
            return "\(call), because the test took another path, or its arguments have another description"
        }
    }

    private func fail(_ message: String, report: String? = nil) {
        CurrentTest.fail(message, at: location, report: report)
    }
}

extension Finding {
    /// Whether the finding concerns a freed object or block.
    fileprivate var isZombie: Bool { [.useAfterFree, .writeAfterFree, .doubleFree].contains(kind) }
}

/// The signal's name, such as "SIGSEGV", or "signal 64" if it has none.
private func signalName(_ number: CInt) -> String {
    let names: [CInt: String] = [
        SIGABRT: "SIGABRT", SIGALRM: "SIGALRM", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE", SIGILL: "SIGILL",
        SIGINT: "SIGINT", SIGKILL: "SIGKILL", SIGPIPE: "SIGPIPE", SIGSEGV: "SIGSEGV", SIGTERM: "SIGTERM",
        SIGTRAP: "SIGTRAP",
    ]
    return names[number] ?? "signal \(number)"
}

/// 64-bit FNV-1a hash, which is equal in all processes, unlike `Hasher`.
private enum StableKey {
    static func of(_ text: String) -> String {
        let hash = text.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
