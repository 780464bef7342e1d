// zguard stats: prints the statistics of guarded processes.

import Glibc
import ZombieGuard

struct StatsCommand {
    private enum Form { case text, json, prometheus }

    private let processID: Int?
    private let form: Form
    /// Seconds between two refreshes; nil to print once.
    private let interval: Double?

    init(_ arguments: Arguments) throws(Failure) {
        processID = arguments.operands.isEmpty ? nil : try arguments.processID()
        if arguments.has("--json"), arguments.has("--prometheus") {
            throw .usage("options '--json' and '--prometheus' exclude each other")
        }
        form = arguments.has("--json") ? .json : arguments.has("--prometheus") ? .prometheus : .text
        interval = try arguments.value("--watch").map { text throws(Failure) in try Self.interval(text) }
    }

    static func interval(_ text: String) throws(Failure) -> Double {
        if text.isEmpty { return 2 }
        guard let seconds = Double(digits: text), (0.1...86400).contains(seconds) else {
            throw .usage("option '--watch' has the bad value '\(visible(text))': expected 0.1 to 86400 seconds")
        }
        return seconds
    }

    func run() throws -> Int32 {
        guard let interval else {
            var growth: ClassGrowth?
            Output.out(try look(&growth))
            return ExitStatus.success
        }
        let drawsScreen = form == .text && isatty(STDOUT_FILENO) == 1
        // An empty handler suffices: a resize of the terminal then interrupts the pause.
        if drawsScreen { signal(SIGWINCH) { _ in } }
        var growth = form == .text ? ClassGrowth() : nil
        while true {
            let text = try look(&growth)
            if drawsScreen {
                Output.out(Self.screen(text, on: TerminalSize(of: STDOUT_FILENO)))
            } else {
                Output.out(text + (form == .text ? "\n" : ""))
            }
            if Output.failure != nil { return ExitStatus.success }
            Self.pause(interval)
        }
    }

    // Sleeps until the time has passed or a signal arrives.
    private static func pause(_ seconds: Double) {
        var time = timespec(tv_sec: Int(seconds), tv_nsec: Int((seconds - seconds.rounded(.down)) * 1e9))
        nanosleep(&time, nil)
    }

    /// Escape sequences that draw a text over the terminal's contents from its upper left corner without scrolling.
    /// Lines are cut to the terminal's width. If there are too many lines, the last line gives the number of missing
    /// lines.
    static func screen(_ text: String, on size: TerminalSize?) -> String {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        if let size {
            let room = max(1, size.rows - 1)
            if lines.count > room { lines = lines.prefix(room - 1) + ["… \(lines.count - room + 1) more lines"] }
            lines = lines.map { FittingText($0, width: size.columns).text }
        }
        // Move the cursor home. Erase each line before writing it: after a full line, the cursor is already on the next
        // line. Erase everything below the last line.
        return "\u{1b}[H" + lines.map { "\u{1b}[K" + $0 + "\n" }.joined() + "\u{1b}[J"
    }

    // `growth`: watches the growth of classes; nil if it is not watched.
    private func look(_ growth: inout ClassGrowth?) throws(ProcessError) -> String {
        let statistics: [Statistics]
        var others: [Int] = []
        if let processID {
            statistics = [try GuardedProcess(processID: processID).statistics()]
        } else {
            let found = GuardedProcess.survey()
            statistics = found.processes.compactMap { try? $0.statistics() }
            others = found.withoutStatistics
        }
        growth?.look(at: statistics, areNamed: processID != nil)
        let classes = growth?.text
        switch form {
        case .json: return StatisticsText.json(statistics)
        case .prometheus: return StatisticsText.prometheus(statistics)
        case .text where processID != nil: return StatisticsText.details(statistics[0], classes: classes)
        case .text:
            return StatisticsText.overview(statistics, withoutStatistics: others)
                + (statistics.isEmpty ? "" : classes.map { "\n" + $0 } ?? "")
        }
    }
}

extension StatsCommand {
    static let command = Command(
        name: "stats", operands: "[PID]", operandCount: 0...1,
        text: "show statistics of all guarded processes, or of one",
        flags: [
            Flag(
                name: "--watch", value: .optionalNumber("SECONDS"),
                text: "refresh every SECONDS seconds (default 2), and show the classes that grow fastest"),
            Flag(name: "--json", text: "print one line of JSON"),
            Flag(name: "--prometheus", text: "print in the Prometheus text format"),
        ], run: { try StatsCommand($0).run() })
}
