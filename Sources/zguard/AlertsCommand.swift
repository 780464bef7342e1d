// zguard alerts: watches a store of findings, and tells a team of new bugs, regressions, rates, stalls and deadlocks.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct AlertsCommand {
    private let watcher: AlertWatcher
    private let name: String
    /// Seconds between two passes; nil for a single pass.
    private let interval: Double?
    private let isDry: Bool
    private let isTest: Bool
    private let isQuiet: Bool

    private static let standardInterval = 30.0

    init(_ arguments: Arguments) throws(Failure) {
        let address = try arguments.store(to: "watch", otherwise: "holds no findings that can be watched")
        name = address.name
        guard let path = arguments.value("--rules") else {
            throw .usage("'zguard alerts' needs '--rules'", hint: "--rules FILE")
        }
        let rules: AlertRules
        do {
            rules = try AlertRules(String(decoding: Self.read(path), as: UTF8.self), file: path)
        } catch let failure as Failure {
            throw failure
        } catch let error as SystemError {
            throw .usage("cannot read rules '\(visible(path))': \(error)")
        } catch {
            throw .usage("\(error)", hint: (error as? FleetError)?.hint)
        }
        isDry = arguments.has("--dry-run")
        isTest = arguments.has("--test")
        isQuiet = arguments.has("--quiet")
        interval = try arguments.value("--watch").map { text throws(Failure) in
            text.isEmpty ? Self.standardInterval : try StatsCommand.interval(text)
        }
        for (flag, isGiven) in [("--dry-run", isDry), ("--test", isTest)] where isGiven && interval != nil {
            throw .usage("options '\(flag)' and '--watch' exclude each other")
        }
        watcher = AlertWatcher(
            address, rules: rules, tenant: arguments.value("--tenant"), takesOld: arguments.has("--old"))
    }

    /// Reads the rules. Rejects a file that any user can change: rules contain commands that run with the rights of
    /// this process.
    private static func read(_ path: String) throws -> [UInt8] {
        let file = try Descriptor(opening: path)
        if let mode = file.status?.st_mode, mode & S_IFMT == S_IFREG, mode & S_IWOTH != 0 {
            throw Failure.usage("rules '\(visible(path))' can be changed by any user", hint: "chmod o-w FILE")
        }
        return try file.readWhole()
    }

    func run() throws -> Int32 {
        if isTest {
            let results = watcher.test()
            for (line, isSent) in results {
                if isSent { Output.out("sent: \(line)\n") } else { Output.print(Failure(line)) }
            }
            return results.allSatisfy(\.isSent) ? ExitStatus.success : ExitStatus.failure
        }
        guard let interval else { return pass(isDry ? .none : .all).isEmpty ? ExitStatus.success : ExitStatus.failure }
        var before: Set<Failure> = []
        while true {
            // Print a failure that persists over several passes only once.
            before = pass(.due, except: before)
            var time = timespec(tv_sec: Int(interval), tv_nsec: Int((interval - interval.rounded(.down)) * 1e9))
            nanosleep(&time, nil)
        }
    }

    /// Makes one pass, prints what was sent, and returns the failures. Does not print failures that are in `known`.
    private func pass(_ sending: AlertWatcher.Sending, except known: Set<Failure> = []) -> Set<Failure> {
        var failures: Set<Failure> = []
        do {
            let passed = try watcher.pass(sending)
            failures = Set(passed.failed.map { Failure($0) })
            if !isQuiet {
                if passed.began > 0, !isDry {
                    Output.out("\(visible(name)): \(counted(passed.began, "alert")) watched from now on\n")
                }
                for line in passed.sent { Output.out("\(isDry ? "would send" : "sent"): \(line)\n") }
                if interval == nil, passed.sent.isEmpty, failures.isEmpty { Output.out("nothing to send\n") }
            }
        } catch {
            failures = [Failure("\(error)", hint: error.hint)]
        }
        for failure in failures where !known.contains(failure) { Output.print(failure) }
        return failures
    }
}

extension AlertsCommand {
    static let command = Command(
        name: "alerts", operands: "STORE", operandCount: 1...1,
        text:
            "tell a team of new bugs, regressions, rates, stalls and deadlocks in a store: by command, webhook, Slack, Teams or mail, each once",
        flags: [
            Flag(name: "--rules", value: .required("FILE"), text: "what is worth an alert, and where it goes"),
            Flag(
                name: "--watch", value: .optionalNumber("SECONDS"),
                text: "look again every SECONDS seconds (default 30), for ever"),
            Flag(name: "--dry-run", text: "print what would be sent; send and remember nothing"),
            Flag(name: "--test", text: "send a test message by each way"),
            Flag(name: "--old", text: "also alert about what the store had before the first look"),
            Flag(
                name: "--tenant", value: .required("TEXT"), text: "tenant whose findings they are (default: default)"),
            Flag(name: "--quiet", text: "do not print what was sent"),
        ], run: { try AlertsCommand($0).run() })
}
