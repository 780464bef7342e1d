// Renders occurrences by version and time as a table whose cells are coloured. It is a table for screen readers, too.

import ZombieGuard

/// A heat map: a row for each version, the newest first, and a column for each week or day.
struct HeatMap {
    /// Columns of the map.
    enum Unit: String {
        case day, week

        var days: Int64 { self == .day ? 1 : 7 }
    }

    private struct Row {
        var name: String
        var counts: [String: Int64] = [:]
    }

    private let unit: Unit
    private let columns: [String]
    private var rows: [Row] = []
    private let most: Int64

    private static let mostRows = 12
    private static let levels = 5

    /// - Parameters:
    ///   - cells: counts.
    ///   - unit: the period that a column stands for.
    ///   - first: the first day of the first column.
    ///   - last: a day in the last column.
    /// - Returns: nil if there are no counts in the period.
    init?(_ cells: [FleetReader.Heat], by unit: Unit, from first: String, to last: String) {
        self.unit = unit
        var columns: [String] = []
        var day = Timestamp(first)
        while let next = day, next.day <= last, columns.count < 400 {
            columns.append(next.day)
            day = next.earlier(bySeconds: -unit.days * 86400)
        }
        let known = Set(columns)
        let cells = cells.filter { known.contains($0.column) && $0.occurrences > 0 }
        if cells.isEmpty { return nil }
        // Leave out the empty time before the first occurrence.
        let start = cells.map(\.column).min() ?? first
        self.columns = columns.filter { $0 >= start }
        let versions = Dictionary(grouping: cells, by: \.version).sorted {
            ($0.value[0].versionKey, $0.key) > ($1.value[0].versionKey, $1.key)
        }
        let shown = versions.count > Self.mostRows ? Self.mostRows - 1 : versions.count
        for (version, cells) in versions.prefix(shown) {
            rows.append(Self.row(version.isEmpty ? "none" : version, cells))
        }
        let rest = versions.dropFirst(shown)
        if !rest.isEmpty { rows.append(Self.row("\(rest.count) older", rest.flatMap(\.value))) }
        most = rows.flatMap(\.counts.values).max() ?? 1
    }

    private static func row(_ name: String, _ cells: [FleetReader.Heat]) -> Row {
        var row = Row(name: name)
        for cell in cells {
            let sum = row.counts[cell.column, default: 0].addingReportingOverflow(cell.occurrences)
            row.counts[cell.column] = sum.overflow ? .max : sum.partialValue
        }
        return row
    }

    /// The smallest count of a level: levels are equal steps of the logarithm.
    private func least(_ level: Int) -> Int64 {
        var limit = 1.0
        let step = nthRoot(Double(most), Self.levels)
        for _ in 1..<level { limit *= step }
        return level == 1 ? 1 : Int64(limit.rounded(.up))
    }

    private func nthRoot(_ value: Double, _ degree: Int) -> Double {
        var (low, high) = (1.0, max(1, value))
        for _ in 0..<80 {
            let middle = (low + high) / 2
            var power = 1.0
            for _ in 0..<degree { power *= middle }
            if power < value { low = middle } else { high = middle }
        }
        return high
    }

    /// The heading and the table.
    ///
    /// - Parameter subject: whose occurrences are counted, such as "program shop", as HTML.
    func section(_ subject: String) -> String {
        let limits = (1...Self.levels).map(least)
        func level(_ count: Int64) -> Int { max(1, limits.lastIndex { count >= $0 }.map { $0 + 1 } ?? 1) }
        var text = """
            <section><h3>Versions over time</h3><table class="heat"><caption>occurrences of \(subject) by version and \(unit.rawValue)\
            </caption><thead><tr><th scope="col">version</th>
            """
        var labelled = -Self.columnsOfLabel(columns.count)
        var month = ""
        for (index, column) in columns.enumerated() {
            // Label a column if there is room. If columns are weeks, label only the first week of a month.
            var label = ""
            let isCandidate = unit == .day || column.prefix(7) != month
            if isCandidate, index - labelled >= Self.columnsOfLabel(columns.count) {
                label = unit == .week ? "\(column.prefix(7))" : "\(column.dropFirst(5))"
                labelled = index
            }
            month = String(column.prefix(7))
            text += "<th scope=\"col\">" + (label.isEmpty ? "" : "<span aria-hidden=\"true\">\(label)</span>")
            text += "<span class=\"vh\">\(unit == .week ? "week of " : "")\(column)</span>"
        }
        text += "</thead><tbody>"
        for row in rows {
            let name = htmlText(row.name, cutAt: 60)
            text += "\n<tr><th scope=\"row\" title=\"\(name)\">\(name)"
            for column in columns {
                guard let count = row.counts[column] else {
                    text += "<td>"
                    continue
                }
                let place = "\(name), \(unit == .week ? "week of " : "")\(column): \(count)"
                text += "<td class=\"h\(level(count))\" title=\"\(place)\">\(count)"
            }
        }
        text += "</tbody></table><p class=\"scale\" aria-hidden=\"true\">"
        // If several levels have the same limit, cells get the last of these levels: omit the others from the scale.
        for (index, limit) in limits.enumerated() where index + 1 == limits.count || limits[index + 1] > limit {
            text += "<span><i class=\"h\(index + 1)\"></i>from \(limit)</span>"
        }
        return text + "</p></section>\n"
    }

    /// Number of columns that the text of a label takes.
    private static func columnsOfLabel(_ columns: Int) -> Int { max(1, (columns + 4) / 5) }
}

extension FleetPages {
    private static let weeks: Int64 = 53
    /// Groups that were first seen within this many days are shown by day, others by week.
    private static let mostDays: Int64 = 45

    private func firstWeek() -> String {
        FleetWeeks.monday(of: now.earlier(bySeconds: (Self.weeks - 1) * 7 * 86400).day)
    }

    /// The heat map of a program, for the list of groups. Empty if the filter names no program, because versions of
    /// several programs have nothing in common. Also empty if the filter names a machine, or if there are no counts of
    /// weeks.
    func heatMap(_ filter: FleetFilter, _ reader: FleetReader) throws(FleetError) -> String {
        guard let program = filter.program, filter.host == nil else { return "" }
        let first = firstWeek()
        guard let cells = try reader.weeks(filter, since: first) else { return "" }
        let others = filter.words.isEmpty && filter.names.isEmpty && filter.kind == nil && filter.newSince == nil
        let subject = (others ? "" : "these findings in ") + "program <b>\(htmlText(program, cutAt: 120))</b>"
        return HeatMap(cells, by: .week, from: first, to: now.day)?.section(subject) ?? ""
    }

    /// The heat map of a group, by days if the group was first seen recently.
    func heatMap(of group: FleetReader.Group, _ tenant: String?, _ reader: FleetReader) throws(FleetError) -> String {
        let recent = now.earlier(bySeconds: (Self.mostDays - 1) * 86400).day
        let subject = "this group"
        if group.first.day >= recent {
            let cells = try reader.days(of: group.signature, since: recent, tenant: tenant)
            return HeatMap(cells, by: .day, from: recent, to: now.day)?.section(subject) ?? ""
        }
        var filter = FleetFilter()
        (filter.signature, filter.tenant) = (group.signature, tenant)
        let first = firstWeek()
        guard let cells = try reader.weeks(filter, since: first) else { return "" }
        return HeatMap(cells, by: .week, from: first, to: now.day)?.section(subject) ?? ""
    }
}
