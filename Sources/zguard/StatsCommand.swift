// zguard stats: what guarded processes say of themselves.

import Glibc
import ZombieGuard

struct StatsCommand {
    private enum Form { case text, json, prometheus }

    private let processID: Int?
    private let form: Form
    /// Seconds between two looks; nil for one look.
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
        guard let seconds = Double(text), (0.1...86400).contains(seconds) else {
            throw .usage("option '--watch' has the bad value '\(visible(text))': expected 0.1 to 86400 seconds")
        }
        return seconds
    }

    func run() throws -> Int32 {
        guard let interval else {
            Output.out(try look())
            return ExitStatus.success
        }
        let clearsScreen = form == .text && isatty(STDOUT_FILENO) == 1
        while true {
            let text = try look()
            Output.out(clearsScreen ? "\u{1b}[H\u{1b}[2J" + text : text + (form == .text ? "\n" : ""))
            if Output.failure != nil { return ExitStatus.success }
            usleep(UInt32(min(interval * 1e6, Double(UInt32.max))))
        }
    }

    private func look() throws(ProcessError) -> String {
        let statistics: [Statistics]
        var others: [Int] = []
        if let processID {
            statistics = [try GuardedProcess(processID: processID).statistics()]
        } else {
            let found = GuardedProcess.survey()
            statistics = found.processes.compactMap { try? $0.statistics() }
            others = found.withoutStatistics
        }
        switch form {
        case .json: return StatisticsText.json(statistics)
        case .prometheus: return StatisticsText.prometheus(statistics)
        case .text where processID != nil: return StatisticsText.details(statistics[0])
        case .text: return StatisticsText.overview(statistics, withoutStatistics: others)
        }
    }
}
