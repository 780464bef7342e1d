// zguard collect: sends the findings of complete reports in directories to other directories, databases or servers.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct CollectCommand {
    private let targets: [FleetAddress]
    private let directories: [String]
    private let sender: ShippedFinding.Sender
    private let redaction: Redaction?
    private let sampling: Sampling?
    private let retention: Retention?
    private let tokenFile: String?
    /// Seconds between two passes; nil for a single pass.
    private let interval: Double?
    private let isQuiet: Bool

    private static let standardInterval = 10.0
    /// OpenTelemetry's standard environment variable for the receiver's address.
    private static let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

    init(_ arguments: Arguments) throws(Failure) {
        directories = arguments.values["--from"] ?? []
        if directories.isEmpty { throw .usage("'zguard collect' needs '--from'", hint: "--from DIR") }
        var targets: [FleetAddress] = []
        for text in arguments.values["--to"] ?? [] { targets.append(try Self.address(text, of: "--to")) }
        if let endpoint = Preload.environment(Self.endpoint), !endpoint.isEmpty {
            let target = try Self.address("otlp+" + endpoint, of: Self.endpoint)
            if !targets.contains(target) { targets.append(target) }
        }
        if targets.isEmpty {
            throw .usage("'zguard collect' needs '--to'", hint: "--to DIR|sqlite:FILE|postgresql://…|https://…")
        }
        self.targets = targets
        sender = ShippedFinding.Sender(
            host: arguments.value("--host"), version: arguments.value("--program-version"),
            tenant: arguments.value("--tenant"))
        redaction = try arguments.value("--redact").map { path throws(Failure) in
            do {
                return try Redaction(String(decoding: readFile(path), as: UTF8.self), file: path)
            } catch let error as SystemError {
                throw Failure.usage("cannot read redactions '\(visible(path))': \(error)")
            } catch {
                throw Failure.usage("\(error)")
            }
        }
        sampling = try arguments.sampling()
        retention =
            Arguments.keepFlags.contains(where: arguments.has) ? try arguments.retention(standard: .unlimited) : nil
        tokenFile = arguments.value("--token-file")
        // A token for one receiver must not be shown to another.
        if tokenFile != nil, targets.filter(\.isWeb).count != 1 {
            throw .usage("option '--token-file' is for one destination https://…")
        }
        interval = try arguments.value("--watch").map { text throws(Failure) in
            text.isEmpty ? Self.standardInterval : try StatsCommand.interval(text)
        }
        isQuiet = arguments.has("--quiet")
    }

    private static func address(_ text: String, of flag: String) throws(Failure) -> FleetAddress {
        do throws(ValueError) {
            return try FleetAddress(text)
        } catch {
            throw .usage("'\(flag)' has the bad value '\(visible(text))': expected \(error.expected)")
        }
    }

    func run() throws -> Int32 {
        var collectors: [(name: String, collector: Collector)] = []
        for target in targets {
            let collector = try Collector(
                from: directories, to: target, sender: sender, redaction: redaction, sampling: sampling,
                tokenFile: target.isWeb ? tokenFile : nil, attempts: interval == nil ? 5 : nil,
                warn: { Output.warn($0) })
            collectors.append((target.name, collector))
        }
        var status = ExitStatus.success
        while true {
            for (name, collector) in collectors { if !pass(collector, name) { status = ExitStatus.failure } }
            guard let interval else { return status }
            var time = timespec(tv_sec: Int(interval), tv_nsec: Int((interval - interval.rounded(.down)) * 1e9))
            nanosleep(&time, nil)
        }
    }

    // Sends new findings to one destination. Prints errors and returns false, so that other destinations are still
    // served.
    private func pass(_ collector: Collector, _ name: String) -> Bool {
        do {
            let passed = try collector.pass(pruning: retention)
            if !isQuiet, interval == nil || passed.sent > 0 {
                let pending = passed.pending > 0 ? ", \(passed.pending) still being written" : ""
                let skipped = passed.skipped > 0 ? ", \(passed.skipped) lines that are not findings were skipped" : ""
                Output.out(
                    "\(visible(name)): \(passed.sent) findings of \(passed.files) reports sent, \(passed.new) of them new"
                        + "\(pending)\(skipped)\n")
            }
            return true
        } catch {
            Output.print(Failure("\(error)", hint: (error as? FleetError)?.hint))
            return false
        }
    }
}

extension CollectCommand {
    static let command = Command(
        name: "collect",
        text: "ship the findings of complete reports to another directory, a database or a server, each once",
        flags: [
            Flag(name: "--from", value: .required("DIR"), repeats: true, text: "directory of reports"),
            Flag(
                name: "--to", value: .required("PLACE"), repeats: true,
                text: "directory, sqlite:FILE, postgresql://…, https://… (JSON lines) or otlp+https://…"),
            Flag(
                name: "--token-file", value: .required("FILE"),
                text: "file with the token that the server of '--to https://…' asks for"),
            Flag(
                name: "--watch", value: .optionalNumber("SECONDS"),
                text: "look again every SECONDS seconds (default 10), for ever"),
            Flag(
                name: "--tenant", value: .required("TEXT"),
                text: "tenant that the findings belong to (default: default)"),
            Flag(name: "--host", value: .required("TEXT"), text: "name of this machine (default: its own)"),
            Flag(name: "--program-version", value: .required("TEXT"), text: "version of the programs"),
            Flag(
                name: "--redact", value: .required("FILE"), text: "remove the texts that the rules in this file match"),
            .keepShare,
            Flag(
                name: "--keep-age", value: .required("AGE"),
                text: "delete older findings at the destination, such as 30d (default: keep all)"),
            Flag(
                name: "--keep-count", value: .required("N"),
                text: "keep at most N reports in a destination that is a directory"),
            Flag(
                name: "--keep-bytes", value: .required("SIZE"),
                text: "keep at most SIZE of reports in a destination that is a directory"),
            Flag(name: "--quiet", text: "do not print how many findings were sent"),
        ], run: { try CollectCommand($0).run() })
}
