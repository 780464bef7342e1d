// How a guarded program ended.

import Glibc

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// How a program ended that was run guarded, and what ended it, as far as that can be told from outside.
public struct ProgramEnd: Hashable, Sendable {
    /// What ended a program.
    public enum Cause: String, Hashable, Sendable, CaseIterable {
        /// The program itself: it exited, raised the signal, or an instruction of it did.
        case program
        /// A handler of the program's own for a signal, which exited, raised a signal or faulted itself.
        case handler
        /// A limit on processor time (`RLIMIT_CPU`).
        case processorLimit = "processor_limit"
        /// A limit on the size of files (`RLIMIT_FSIZE`).
        case fileLimit = "file_limit"
        /// A filter of system calls.
        case seccomp
        /// The kernel, because memory had run out.
        case memory
        /// Another process, or nobody knows.
        case unknown
    }

    /// The program's exit status as shells see it: 128 + signal where one ended it.
    public var status: Int32
    /// The number of the signal that ended it; nil where it exited.
    public var signal: Int32?
    /// What ended it.
    public var cause: Cause
    /// Whether the cause is the likeliest one, and not certain: the kernel does not say which process it killed for memory.
    public var isCauseInferred = false
    /// Since its start, by the clock.
    public var seconds: Double
    /// Whether the report has a finding of what it died of.
    public var isExplained: Bool
    /// Whether it was under a filter of system calls (seccomp) in the end.
    public var isFiltered = false

    /// Makes an end of its parts. Each parameter is the property of its name.
    public init(
        status: Int32, signal: Int32? = nil, cause: Cause = .program, seconds: Double = 0, isExplained: Bool = false
    ) {
        self.status = status
        self.signal = signal
        self.cause = cause
        self.seconds = seconds
        self.isExplained = isExplained
    }

    /// Whether the program exited, and not in a handler for a signal.
    public var isOwn: Bool { signal == nil && cause != .handler }

    /// What a report has to say even where there is no finding: the program was ended, and no finding says by what.
    public var needsExplanation: Bool { !isOwn && !isExplained }

    /// "SIGKILL"; nil where the program exited.
    public var signalName: String? { signal.map(Self.name) }

    /// "killed by SIGKILL after 3.2 s"; nil where the program ended by itself, and its status says nothing else.
    public var text: String? {
        guard let name = signalName else {
            if cause == .handler { return "ended with status \(status), in a handler of the program's own" }
            return status > 128 && Self.names[status - 128] != nil
                ? "ended with status \(status), which shells return where \(Self.name(status - 128)) ended a program"
                : nil
        }
        let time = "after \(Self.timeText(seconds))"
        let likely = isCauseInferred ? ", most likely" : ""
        switch cause {
        case .program: return "ended by \(name)"
        case .handler: return "ended by \(name), in a handler of the program's own"
        case .processorLimit: return "killed by \(name) \(time) (its limit on processor time)"
        case .fileLimit: return "killed by \(name) \(time) (its limit on the size of files)"
        case .seccomp: return "killed by a filter of system calls (seccomp, \(name)) \(time)"
        case .memory: return "killed by \(name) \(time) (the kernel was out of memory)\(likely)"
        case .unknown: return "killed by \(name) \(time)"
        }
    }

    /// As it stands in SARIF and in a report's line about the run.
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

    /// The name of a signal.
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

/// The line of a report that says how the run ended which it is of: `{"schema":"zguard.run/1","program":"…","pid":7,"end":{…}}`.
public struct RunLine: Hashable, Sendable {
    /// The schema that this version reads and writes.
    public static let schema = "zguard.run/1"

    /// The program as it was named.
    public var program: String
    /// Its process.
    public var processID: Int
    /// How it ended.
    public var end: ProgramEnd

    /// Makes a line of its parts. Each parameter is the property of its name.
    public init(program: String, processID: Int, end: ProgramEnd) {
        self.program = program
        self.processID = processID
        self.end = end
    }

    /// The line, without a line feed at its end.
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

    /// Reads one line of a report; nil where it is no line of ``schema``.
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
