// Defines how a guarded program ended, and the report line that records the end.

import Glibc

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// How a guarded program ended and the cause, as seen from outside the process.
public struct ProgramEnd: Hashable, Sendable {
    /// The cause of the end.
    public enum Cause: String, Hashable, Sendable, CaseIterable {
        /// The program itself: it exited, or it or one of its instructions raised the signal.
        case program
        /// One of the program's own signal handlers, which exited, raised a signal, or faulted.
        case handler
        /// The limit on processor time (`RLIMIT_CPU`).
        case processorLimit = "processor_limit"
        /// The limit on file size (`RLIMIT_FSIZE`).
        case fileLimit = "file_limit"
        /// A seccomp filter.
        case seccomp
        /// The kernel's OOM killer.
        case memory
        /// Another process, or the cause is unknown.
        case unknown
    }

    /// The exit status as shells report it: 128 + signal if a signal terminated the program.
    public var status: Int32
    /// Number of the signal that terminated the program; nil if it exited.
    public var signal: Int32?
    /// The cause of the end.
    public var cause: Cause
    /// Whether the cause is only the most likely one: the kernel does not report which process the OOM killer chose.
    public var isCauseInferred = false
    /// Wall-clock seconds since the start of the program.
    public var seconds: Double
    /// Whether a finding in the report explains the end.
    public var isExplained: Bool
    /// Whether the program was under a seccomp filter when it ended.
    public var isFiltered = false
    /// Whether zguard received a signal that asks the program to end, such as SIGTERM.
    package var wasAskedToEnd = false

    /// Creates an end. Each parameter sets the property of the same name.
    public init(
        status: Int32, signal: Int32? = nil, cause: Cause = .program, seconds: Double = 0, isExplained: Bool = false
    ) {
        self.status = status
        self.signal = signal
        self.cause = cause
        self.seconds = seconds
        self.isExplained = isExplained
    }

    /// Whether the program exited outside a signal handler.
    public var isOwn: Bool { signal == nil && cause != .handler }

    /// Whether the report must mention the end even if it has no findings: the program was terminated, and no finding
    /// explains the end.
    public var needsExplanation: Bool { !isOwn && !isExplained }

    /// Name of the signal, such as "SIGKILL"; nil if the program exited.
    public var signalName: String? { signal.map(Self.name) }

    /// "killed by SIGKILL after 3.2 s"; nil if the program exited normally with an unremarkable status.
    public var text: String? {
        guard let name = signalName else {
            if cause == .handler { return "ended with status \(status), in one of its own signal handlers" }
            return status > 128 && Self.names[status - 128] != nil
                ? "ended with status \(status), which shells return where \(Self.name(status - 128)) ended a program"
                : nil
        }
        let time = "after \(Self.timeText(seconds))"
        let likely = isCauseInferred ? ", most likely" : ""
        switch cause {
        case .program: return "ended by \(name)"
        case .handler: return "ended by \(name), in one of its own signal handlers"
        case .processorLimit: return "killed by \(name) \(time) (its limit on processor time)"
        case .fileLimit: return "killed by \(name) \(time) (its limit on the size of files)"
        case .seccomp: return "killed by a seccomp filter (\(name)) \(time)"
        case .memory: return "killed by \(name) \(time) (the kernel was out of memory)\(likely)"
        case .unknown: return "killed by \(name) \(time)"
        }
    }

    /// The end as written in SARIF and in the run line of a report.
    public var json: JSONText {
        .object([
            ("status", .integer(Int64(status))), ("signal", signalName.map { .string($0) } ?? .null),
            ("by", .string(cause.rawValue)), ("seconds", .permille(Int((seconds * 10).rounded()))),
            ("text", text.map { .string($0) } ?? .null),
        ])
    }

    // "0.04 s", "0.8 s", "12 s", "5 min 3 s".
    static func timeText(_ seconds: Double) -> String {
        if seconds >= 60 { return "\(Int(seconds) / 60) min \(Int(seconds) % 60) s" }
        if seconds >= 10 { return "\(Int(seconds)) s" }
        let scale = seconds < 0.1 ? 1000.0 : 10.0
        return "\((seconds * scale).rounded() / scale) s"
    }

    /// Returns the name of a signal.
    ///
    /// - Parameter signal: A signal's number.
    /// - Returns: `SIGKILL`, or `signal 40` for a signal without a name.
    public static func name(_ signal: Int32) -> String { names[signal] ?? "signal \(signal)" }

    private static let names: [Int32: String] = [
        SIGHUP: "SIGHUP", SIGINT: "SIGINT", SIGQUIT: "SIGQUIT", SIGILL: "SIGILL", SIGTRAP: "SIGTRAP",
        SIGABRT: "SIGABRT",
        SIGBUS: "SIGBUS", SIGFPE: "SIGFPE", SIGKILL: "SIGKILL", SIGUSR1: "SIGUSR1", SIGSEGV: "SIGSEGV",
        SIGUSR2: "SIGUSR2", SIGPIPE: "SIGPIPE", SIGALRM: "SIGALRM", SIGTERM: "SIGTERM", 16: "SIGSTKFLT",
        SIGXCPU: "SIGXCPU", SIGXFSZ: "SIGXFSZ", SIGVTALRM: "SIGVTALRM", SIGPROF: "SIGPROF", SIGIO: "SIGIO",
        30: "SIGPWR", SIGSYS: "SIGSYS",
    ]
}

/// The report line that records how the run ended: `{"schema":"zguard.run/1","program":"…","pid":7,"end":{…}}`.
public struct RunLine: Hashable, Sendable {
    /// The JSON schema that this version reads and writes.
    public static let schema = "zguard.run/1"

    /// The program as named on the command line.
    public var program: String
    /// Process id of the program.
    public var processID: Int
    /// How the program ended.
    public var end: ProgramEnd

    /// Creates a line. Each parameter sets the property of the same name.
    public init(program: String, processID: Int, end: ProgramEnd) {
        self.program = program
        self.processID = processID
        self.end = end
    }

    /// The line, without the line feed.
    public var jsonLine: String {
        JSONText.object([
            ("schema", .string(Self.schema)), ("program", .string(program)), ("pid", .integer(Int64(processID))),
            ("end", end.json),
        ]).line
    }

    private struct Wire: Decodable {
        struct End: Decodable {
            var status: Int32
            var signal: String?
            var by: String?
            var seconds: Double?
        }
        var schema: String
        var program: String
        var pid: Int
        var end: End
    }

    /// Parses one line of a report; nil if the line does not have the schema ``schema``.
    ///
    /// - Parameter jsonLine: a line without its line feed.
    public init?(jsonLine: String) {
        guard let wire = try? JSONDecoder().decode(Wire.self, from: Data(jsonLine.utf8)), wire.schema == Self.schema
        else { return nil }
        let signal = wire.end.signal.map { name in
            (1...64).first { ProgramEnd.name($0) == name } ?? max(1, min(wire.end.status &- 128, 64))
        }
        let seconds = wire.end.seconds ?? 0
        self.init(
            program: wire.program, processID: wire.pid,
            end: ProgramEnd(
                status: wire.end.status, signal: signal,
                cause: wire.end.by.flatMap { ProgramEnd.Cause(rawValue: $0) } ?? .unknown,
                seconds: min(max(seconds, 0), 1e9)))
    }
}
