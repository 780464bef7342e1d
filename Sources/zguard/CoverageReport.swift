// Shows the allocation and free pairs of a build as text, JSON and HTML.

import ZombieGuard

/// The report of `zguard coverage`.
struct CoverageReport {
    /// Counts of the pairs whose allocation is in one source file, or in one module if its source files are unknown.
    struct Row {
        var name: String
        var seen = 0
        var watched = 0
    }
    /// A pair that no run has watched.
    struct Unwatched {
        var alloc: String
        var free: String
        /// Number of pairs with these two calls. The pairs differ only in the callers.
        var pairs = 0
        /// Sum, over these pairs, of the number of runs that saw the pair.
        var runs = 0
    }

    static let unwatchedShown = 20
    private let coverage: PairCoverage
    private let rows: [Row]
    private let unwatched: [Unwatched]

    /// Finds the function names of all pairs.
    ///
    /// - Parameters:
    ///   - coverage: the pairs to show.
    ///   - symbols: where to look for programs, libraries and debug files.
    init(_ coverage: PairCoverage, symbols: SymbolSources = SymbolSources()) {
        self.coverage = coverage
        var naming = Naming(coverage, Symbolicator(sources: symbols))
        var rows: [String: Row] = [:]
        var unwatched: [[String]: Unwatched] = [:]
        for (pair, count) in coverage.pairs {
            let name = naming.place(of: pair.alloc).group
            rows[name, default: Row(name: name)].seen += 1
            if count.watched > 0 {
                rows[name]?.watched += 1
            } else {
                let calls = [naming.place(of: pair.alloc).call, naming.place(of: pair.free).call]
                unwatched[calls, default: Unwatched(alloc: calls[0], free: calls[1])].pairs += 1
                unwatched[calls]?.runs += count.seen
            }
        }
        self.rows = rows.values.sorted { ($1.seen - $1.watched, $0.name) < ($0.seen - $0.watched, $1.name) }
        self.unwatched = unwatched.values.sorted { ($1.runs, $0.alloc, $0.free) < ($0.runs, $1.alloc, $1.free) }
    }

    private var summary: String {
        let watched = grouped(coverage.watchedCount)
        let seen = grouped(coverage.seenCount)
        return "\(counted(coverage.runs.count, "run")): watched \(watched) of \(seen) allocation and free pairs"
    }

    private var forecast: String? {
        guard coverage.seenCount > coverage.watchedCount else { return nil }
        return coverage.expectedInTenRuns.map {
            "10 more runs would watch about \(grouped($0)) more"
        }
    }

    /// For a terminal.
    var text: String {
        var text = summary + "\n"
        if let forecast { text += forecast + "\n" }
        if !coverage.runs.isEmpty {
            let lines = coverage.runs.enumerated().map { number, run in
                [number + 1, run.pairs, run.watched].map(grouped)
            }
            text += "\n" + table([["run", "    pairs", "  watched"]] + lines, rightAligned: [0, 1, 2])
        }
        if !rows.isEmpty {
            let lines = rows.map { [grouped($0.seen), grouped($0.watched), visible($0.name)] }
            text += "\n" + table([["    pairs", "  watched", "allocated in"]] + lines, rightAligned: [0, 1])
        }
        if !unwatched.isEmpty {
            let lines = unwatched.prefix(Self.unwatchedShown).map {
                [grouped($0.pairs), "\(visible($0.alloc)), \(visible($0.free))"]
            }
            text += "\nnot watched yet:\n"
            text += table([["    pairs", "allocated in, freed in"]] + lines, rightAligned: [0])
            let more = unwatched.count - Self.unwatchedShown
            if more > 0 { text += "  … and \(grouped(more)) more\n" }
        }
        return text
    }

    private func grouped(_ number: Int) -> String { groupedText(UInt64(max(0, number))) }

    /// One JSON object on one line.
    var json: String {
        JSONText.object([
            ("schema", .string("zguard.coverage/1")), ("runs", .array(coverage.runs.map(json(of:)))),
            ("pairs", .integer(Int64(coverage.seenCount))), ("pairs_watched", .integer(Int64(coverage.watchedCount))),
            ("expected_in_10_runs", coverage.expectedInTenRuns.map { .integer(Int64($0)) } ?? .null),
            (
                "files",
                .array(
                    rows.map {
                        .object([
                            ("file", .string($0.name)), ("pairs", .integer(Int64($0.seen))),
                            ("pairs_watched", .integer(Int64($0.watched))),
                        ])
                    })
            ),
            (
                "unwatched",
                .array(
                    unwatched.map {
                        .object([
                            ("alloc", .string($0.alloc)), ("free", .string($0.free)),
                            ("pairs", .integer(Int64($0.pairs))),
                            ("runs", .integer(Int64($0.runs))),
                        ])
                    })
            ),
        ]).line + "\n"
    }

    private func json(of run: PairCoverage.Run) -> JSONText {
        .object([("pairs", .integer(Int64(run.pairs))), ("pairs_watched", .integer(Int64(run.watched)))])
    }

    /// A web page without scripts.
    var html: String {
        let style =
            "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color-scheme:light dark}"
            + "table{border-collapse:collapse;width:100%}td,th{padding:.2em .4em;text-align:left}td{overflow-wrap:anywhere}"
            + "td.n,th.n{text-align:right;white-space:nowrap}tr{border-bottom:1px solid #8884}meter{width:min(8em,18vw)}"
        var page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        page +=
            "<title>Coverage – zguard</title>\n<style>\(style)</style>\n</head>\n<body>\n<main>\n<h1>Coverage</h1>\n"
        page += "<p>\(htmlText(summary)).</p>\n"
        if let forecast { page += "<p>\(htmlText(forecast)).</p>\n" }
        page += htmlTable(
            "Runs", ["run", "pairs", "watched"],
            coverage.runs.enumerated().map { number, run in
                ([number + 1, run.pairs, run.watched].map { "\($0)" }, nil, run.watched, run.pairs)
            })
        page += htmlTable(
            "By place of the allocation", ["pairs", "watched", "file or module"],
            rows.map { row in
                (["\(row.seen)", "\(row.watched)"], row.name, row.watched, row.seen)
            })
        if !unwatched.isEmpty {
            page += "<h2>Not watched yet</h2>\n<table>\n<tr><th class=\"n\">pairs<th>allocated in<th>freed in\n"
            for pair in unwatched.prefix(1000) {
                page += "<tr><td class=\"n\">\(pair.pairs)<td>\(htmlText(pair.alloc))<td>\(htmlText(pair.free))\n"
            }
            page += "</table>\n"
        }
        return page + "</main>\n</body>\n</html>\n"
    }

    private typealias TableRow = (numbers: [String], name: String?, part: Int, whole: Int)

    private func htmlTable(_ title: String, _ heads: [String], _ rows: [TableRow]) -> String {
        if rows.isEmpty { return "" }
        var text = "<h2>\(title)</h2>\n<table>\n<tr>"
        for head in heads { text += "<th\(head.contains("file") ? "" : " class=\"n\"")>\(head)" }
        text += "<th>share\n"
        for row in rows {
            text += "<tr>" + row.numbers.map { "<td class=\"n\">\($0)" }.joined()
            if let name = row.name { text += "<td>\(htmlText(name))" }
            text +=
                "<td><meter max=\"\(max(row.whole, 1))\" value=\"\(row.part)\">\(row.part) of \(row.whole)</meter>\n"
        }
        return text + "</table>\n"
    }
}

/// Finds the place of a stack: the innermost call in the program's own code.
private struct Naming {
    struct Place {
        /// Source file, or the module's name.
        var group: String
        /// "function (file:line)".
        var call: String
    }

    private let coverage: PairCoverage
    private let symbolicator: Symbolicator
    private var known: [UInt64: Place] = [:]

    init(_ coverage: PairCoverage, _ symbolicator: Symbolicator) {
        self.coverage = coverage
        self.symbolicator = symbolicator
    }

    mutating func place(of identity: UInt64) -> Place {
        if let place = known[identity] { return place }
        let frames = (coverage.stacks[identity] ?? []).compactMap { $0 }.map { frame in
            let module = coverage.modules[frame.module]
            return Finding.Frame(
                pc: Address(frame.offset), module: module.path, buildID: module.buildID, offset: Address(frame.offset))
        }
        let named = symbolicator.symbolicate(frames)
        let own = named.origin
        let module = own?.module.map { String($0.split(separator: "/").last ?? $0[...]) } ?? "?"
        var call = own?.function ?? "\(module)+\(own?.offset.map { "\($0)" } ?? "?")"
        if let file = own?.file {
            call += " (\(file.split(separator: "/").last ?? file[...])\(own?.line.map { ":\($0)" } ?? ""))"
        }
        let place = Place(group: own?.file ?? module, call: call)
        known[identity] = place
        return place
    }
}
