// Formats statistics as text, JSON and Prometheus metrics.

import Glibc
import ZombieGuard

enum StatisticsText {
    /// One line per process, and one line that lists guarded processes without statistics.
    static func overview(_ all: [Statistics], withoutStatistics silent: [Int] = []) -> String {
        let rest = silent.map(String.init).joined(separator: ", ")
        let note = silent.isEmpty ? "" : "guarded, but without statistics: \(rest)\n"
        let none =
            OwnProgram.isInProc ? "no guarded processes" : "no guarded processes can be seen: /proc is not mounted"
        if all.isEmpty { return silent.isEmpty ? "\(none)\n" : note }
        let head = [
            "PID", "LIVE", "BYTES", "QUARANTINED", "BYTES", "RETIRED", "BYTES", "EVICTIONS", "FINDINGS", "DEGRADED",
            "PROGRAM",
        ]
        let rows = all.map { statistics in
            [
                "\(statistics.processID)", "\(statistics["live_blocks"])", byteText(statistics["live_bytes"]),
                "\(statistics["quarantined_blocks"])", byteText(statistics["quarantined_bytes"]),
                "\(statistics["retired_blocks"])", byteText(statistics["retired_bytes"]),
                "\(statistics["evictions"])", "\(statistics["findings"])", "\(statistics.degradations.count)",
                visible(statistics.program),
            ]
        }
        return table([head] + rows, rightAligned: Set(0..<head.count - 1)) + note
    }

    /// All statistics of one process.
    ///
    /// - Parameter classes: text about growing classes, to show in front of the counters; nil if classes are not
    ///   watched.
    static func details(_ statistics: Statistics, classes: String? = nil) -> String {
        var text =
            "\(visible(statistics.program)) [\(statistics.processID)], guarded by \(visible(statistics.runtimeVersion))"
        text += " for \(duration(statistics.started))\n"
        text += "options: \(statistics.options.isEmpty ? "defaults" : visible(statistics.options))\n"
        text += "maintenance thread: \(statistics.hasMaintenanceThread ? "yes" : "no")\n"
        text += allocator(statistics)
        text += coverage(statistics) + "\n"
        if let classes { text += classes + "\n" }
        text += table(
            statistics.counters.map { counter in
                let value =
                    switch counter.unit {
                    case "bytes": byteText(counter.value)
                    case "per mille": percent(counter.value)
                    default: "\(counter.value)"
                    }
                return ["  " + counter.name, value, counter.text]
            }, rightAligned: [1])
        if statistics.degradations.isEmpty { return text + "\nno degradations\n" }
        text += "\ndegradations:\n"
        return text + table(statistics.degradations.map { ["  " + $0.name, $0.text] })
    }

    /// Names an allocator other than libc's and the runtime's, if the program has one.
    private static func allocator(_ statistics: Statistics) -> String {
        if statistics.allocator.isEmpty { return "" }
        let isInFront = statistics.degradations.contains { $0.name == "allocator_in_front" }
        let place =
            isInFront
            ? "in front of the runtime's: its blocks are not guarded" : "behind the runtime's: all blocks are guarded"
        return "other allocator: \(visible(statistics.allocator)), \(place)\n"
    }

    /// Describes the coverage and its overhead.
    private static func coverage(_ statistics: Statistics) -> String {
        var text = ""
        let contexts = statistics["contexts"]
        let isolated = statistics["contexts_fenced"]
        if contexts > 0 {
            text += "contexts: \(isolated) of \(contexts) had "
            text += statistics["tagged_blocks"] > 0 ? "a tagged or isolated block" : "an isolated block"
            text += " (\(percent(UInt64(clamping: UInt128(isolated) * 1000 / UInt128(contexts)))))\n"
        }
        text += "coverage: \(statistics.coverage.text)\n"
        let budget = statistics["overhead_budget_permille"]
        if budget > 0 {
            text += "overhead: \(percent(statistics["overhead_permille"])) of a budget of \(percent(budget)), "
            text += "\(percent(statistics["guarded_share_permille"])) of the blocks are guarded\n"
        }
        return text
    }

    private static func percent(_ permille: UInt64) -> String { "\(permille / 10).\(permille % 10) %" }

    /// All processes as one JSON object on one line.
    static func json(_ all: [Statistics]) -> String {
        let processes = all.map { statistics -> JSONText in
            .object([
                ("pid", .integer(Int64(statistics.processID))), ("program", .string(statistics.program)),
                ("runtime_version", .string(statistics.runtimeVersion)), ("options", .string(statistics.options)),
                ("started_ns", .natural(statistics.started)),
                ("maintenance_thread", .bool(statistics.hasMaintenanceThread)),
                ("allocator", .string(statistics.allocator)),
                ("degradations", .array(statistics.degradations.map { .string($0.name) })),
                ("coverage", statistics.coverage.json),
                ("counters", .object(statistics.counters.map { ($0.name, .natural($0.value)) })),
            ])
        }
        return JSONText.object([("schema", .string("zguard.stats/1")), ("processes", .array(processes))]).line + "\n"
    }

    /// The Prometheus text format.
    static func prometheus(_ all: [Statistics]) -> String {
        var text = ""
        for counter in Statistics.counterTable {
            let name = "zguard_\(counter.name)" + (counter.type == "counter" ? "_total" : "")
            text += "# HELP \(name) \(counter.text)\n# TYPE \(name) \(counter.type)\n"
            for statistics in all { text += "\(name){\(labels(statistics))} \(statistics[counter.name])\n" }
        }
        text += "# HELP zguard_degraded 1 for each degradation of the runtime\n# TYPE zguard_degraded gauge\n"
        for statistics in all {
            for degradation in statistics.degradations {
                text += "zguard_degraded{\(labels(statistics)),degradation=\"\(degradation.name)\"} 1\n"
            }
        }
        return text
    }

    private static func labels(_ statistics: Statistics) -> String {
        var program = ""
        // Iterate over scalars, because CR LF is a single Character. Escape control characters, because the text may be
        // shown in a terminal.
        for scalar in statistics.program.unicodeScalars {
            switch scalar {
            case "\\": program += "\\\\"
            case "\"": program += "\\\""
            case "\n": program += "\\n"
            case _ where scalar.properties.generalCategory == .control: program += "\\" + visible(String(scalar))
            default: program.unicodeScalars.append(scalar)
            }
        }
        return "pid=\"\(statistics.processID)\",program=\"\(program)\""
    }

    // Time since `started` (nanoseconds since 1970), such as "2 h 5 min".
    private static func duration(_ started: UInt64) -> String {
        let now = UInt64(max(0, time(nil)))
        let seconds = now - min(now, started / 1_000_000_000)
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min \(seconds % 60) s" }
        return "\(seconds / 3600) h \(seconds / 60 % 60) min"
    }
}
