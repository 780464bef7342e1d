// Watches a store of findings: records each event once, and retries each message until the recipient accepts it.

import Glibc
import ZombieGuard

/// Watches a store by rules. Several watchers, on several machines, may watch one store. Used by one thread at a time.
public final class AlertWatcher {
    /// How messages are sent.
    public enum Sending: Sendable {
        /// Messages that are due. After a failure, both the message and its destination pause.
        case due
        /// All messages that no other watcher is sending.
        case all
        /// No messages: the pass lists what would be sent, and changes nothing.
        case none
    }

    /// What a pass did.
    public struct Passed: Sendable {
        /// A line for each message that was sent, safe to print.
        public var sent: [String] = []
        /// A line for each message that could not be sent, safe to print.
        public var failed: [String] = []
        /// Number of watches that began in this pass.
        public var began = 0
    }

    private let store: AlertStore
    private let rules: AlertRules
    private let tenant: String
    /// Whether findings from before a watch began are events, too.
    private let takesOld: Bool
    private let sender: AlertSender
    private let kinds = AlertKinds()
    /// Pauses of destinations that have failed, by id: number of failures, and the end of the pause in milliseconds
    /// since 1970.
    private var pauses: [String: (failures: Int64, until: Int64)] = [:]
    /// The message tried last, until its result is recorded in the store.
    private var last: (unit: Unit, isSent: Bool)?

    /// - Parameters:
    ///   - address: a directory or a database.
    ///   - rules: what is watched.
    ///   - tenant: owner of the findings; nil: the default one.
    ///   - takesOld: whether findings from before a watch began are events, too.
    public init(_ address: FleetAddress, rules: AlertRules, tenant: String? = nil, takesOld: Bool = false) {
        self.rules = rules
        self.tenant = ShippedFinding.short(tenant ?? ShippedFinding.Sender.standardTenant)
        self.takesOld = takesOld
        store = AlertStore(address, tenant: self.tenant)
        sender = AlertSender(sendmail: rules.sendmail)
    }

    /// Records new events, then sends messages.
    ///
    /// - Parameter sending: which messages to send.
    /// - Returns: what was done.
    /// - Throws: ``FleetError`` if the store cannot be read, or the result of sending cannot be recorded.
    public func pass(_ sending: Sending) throws(FleetError) -> Passed {
        var passed = Passed()
        if case .none = sending {
            let shown = try store.transaction(isKept: false) { (reader, table) throws(FleetError) in
                passed.began = try enter(reader, &table)
                var shown: [String] = []
                var done: Set<String> = []
                while let unit = try next(.all, except: &done, reader, &table) { shown.append(Self.line(unit)) }
                return shown
            }
            passed.sent = shown
            return passed
        }
        passed.began = try store.transaction { (reader, table) throws(FleetError) in try enter(reader, &table) }
        // In one pass, try each message once, and each destination until it fails.
        var tried: Set<String> = []
        while true {
            let unit = try store.transaction { (reader, table) throws(FleetError) in
                if let last { try settle(last.unit, isSent: last.isSent, &table) }
                return try next(sending, except: &tried, reader, &table)
            }
            last = nil
            guard let unit else { return passed }
            do throws(FleetError) {
                try sender.send(unit.message, by: unit.way)
                last = (unit, true)
                pauses[unit.way.id] = nil
                passed.sent.append(Self.line(unit))
            } catch {
                last = (unit, false)
                let failures = (pauses[unit.way.id]?.failures ?? 0) + 1
                pauses[unit.way.id] = (failures, Timestamp.now.milliseconds + Self.pause(failures))
                tried.insert(unit.way.id)
                passed.failed.append("cannot send by '\(visible(unit.way.name))': \(error)")
            }
        }
    }

    /// Sends a test message to each destination.
    ///
    /// - Returns: for each destination, a line of text, and whether its message was accepted.
    public func test() -> [(line: String, isSent: Bool)] {
        rules.ways.map { way in
            var digest = Digest()
            digest.add("\(way.id) \(Timestamp.now.rawValue)")
            let message = AlertMessage(test: digest.digits(16), way: way.name)
            do throws(FleetError) {
                try sender.send(message, by: way)
                return ("\(visible(way.name)): \(message.title)", true)
            } catch {
                return ("cannot send by '\(visible(way.name))': \(error)", false)
            }
        }
    }

    private static func line(_ unit: Unit) -> String { "\(visible(unit.way.name)): \(unit.message.title)" }

    private func way(_ id: String) -> AlertWay? { rules.ways.first { $0.id == id } }

    /// The pause after `failures` failures in a row, in milliseconds: at most 5 s after the first failure, twice as
    /// long after each further one, but never more than 10 minutes. A random part of up to a fifth is left out.
    static func pause(_ failures: Int64) -> Int64 {
        let seconds = min(600, 5 * (Int64(1) << min(10, max(1, failures) - 1)))
        // Random, so that watchers that failed together do not try again together.
        return seconds * Int64.random(in: 800...1000)
    }

    // MARK: Events

    /// Records new events; returns the number of watches that began.
    private func enter(_ reader: FleetReader, _ table: inout AlertTable) throws(FleetError) -> Int {
        try reader.requireTriage()
        let now = Timestamp.now
        let queries = try AlertQueries(reader, tenant: tenant, now: now, kinds: kinds)
        let triage = try reader.triage(tenant, now: now)
        let look = try table.enterGroups()
        var began = 0
        for watch in rules.watches {
            let seen = try table.seen(by: watch)
            if seen == nil { began += 1 }
            switch watch.trigger {
            case .new(let version):
                try enterNew(watch, since: version, after: seen ?? (takesOld ? 0 : look), queries, &table)
            case .regression:
                try enterRegressions(watch, isFirst: seen == nil, triage, queries, &table)
            case .over(let measure, let limit, let seconds):
                let window = Window(measure: measure, limit: limit, seconds: seconds)
                try enterMeasured(watch, window, isFirst: seen == nil, triage, queries, &table)
            }
            if seen != look { try table.setSeen(by: watch, look) }
        }
        return began
    }

    private func add(
        _ event: AlertEvent, _ identity: String, _ watch: AlertWatch, isOld: Bool = false, _ table: inout AlertTable
    ) throws(FleetError) {
        try table.add(
            id(event.event, identity, watch.way), way: watch.way, body: event.body,
            state: isOld ? AlertTable.dropped : AlertTable.waiting, now: Timestamp.now.milliseconds)
    }

    /// The id of the message about an event.
    private func id(_ event: String, _ identity: String, _ way: AlertWay) -> String {
        var digest = Digest()
        for text in [tenant, way.id, event, identity] { digest.add(text) }
        return digest.digits(16)
    }

    private func enterNew(
        _ watch: AlertWatch, since version: String?, after look: Int64, _ queries: AlertQueries,
        _ table: inout AlertTable
    ) throws(FleetError) {
        let entered = try table.groups(after: look)
        if entered.isEmpty { return }
        let known = try table.known(entered, queries.earlier, until: look)
        let signatures = Set(entered.filter { !known.contains($0) }.map { queries.current($0) })
        for signature in try queries.matching(signatures.sorted(), watch.conditions, since: version) {
            let reason = version.map { "no version before \($0) had it" } ?? ""
            try add(AlertEvent(event: "new", signature: signature, reason: visible(reason)), signature, watch, &table)
        }
    }

    private func enterRegressions(
        _ watch: AlertWatch, isFirst: Bool, _ triage: [String: Triage], _ queries: AlertQueries,
        _ table: inout AlertTable
    ) throws(FleetError) {
        var decisions: [String: String] = [:]
        for (signature, state) in triage where state.state == .regression {
            decisions[queries.current(signature)] = state.decision?.id
        }
        for signature in try queries.matching(decisions.keys.sorted(), watch.conditions) {
            let decision = decisions[signature] ?? ""
            try add(
                AlertEvent(event: "regression", signature: signature, reason: "", decision: decision), decision, watch,
                isOld: isFirst && !takesOld, &table)
        }
    }

    /// What is measured, and how.
    struct Window {
        var measure: AlertWatch.Measure
        var limit: Int64
        /// Length of the window.
        var seconds: Int64

        /// Time for which a measure must stay within its limit before it can raise the next alert, in milliseconds.
        var calm: Int64 { min(seconds, 3600) * 1000 }
        /// Whether the first check of a watch raises no alerts: the stalls and deadlocks that it finds happened before
        /// the watch began. In contrast, a rate above its limit is current, and raises an alert.
        var skipsFirst: Bool { measure == .duration || measure == .deadlocks }

        /// Bounds that every group above the limit exceeds.
        func least(hosts: Int64) -> AlertQueries.Least {
            switch measure {
            case .occurrences, .deadlocks: AlertQueries.Least(occurrences: limit)
            // A group on more than `limit` machines has more than `limit` occurrences.
            case .hosts: AlertQueries.Least(occurrences: limit, hosts: limit)
            case .hostShare: AlertQueries.Least(occurrences: limit * hosts / 100, hosts: limit * hosts / 100)
            case .duration: AlertQueries.Least(hasDurations: true)
            }
        }

        func value(of seen: AlertQueries.Seen, hosts: Int64) -> Int64 {
            switch measure {
            case .occurrences, .deadlocks: seen.occurrences
            case .hosts: Int64(seen.hosts.count)
            case .hostShare: Int64(seen.hosts.count) * 100 / max(1, hosts)
            case .duration: seen.duration
            }
        }

        func isAbove(_ seen: AlertQueries.Seen, hosts: Int64) -> Bool {
            // 5.4 % is more than 5 %.
            if measure == .hostShare { return Int64(seen.hosts.count) * 100 > limit * max(1, hosts) }
            return value(of: seen, hosts: hosts) > limit
        }

        func reason(_ seen: AlertQueries.Seen, hosts: Int64) -> String {
            let span = spanText(seconds)
            let value = value(of: seen, hosts: hosts)
            return switch measure {
            case .occurrences: "seen \(value) times within \(span), more than \(limit)"
            case .hosts: "on \(value) machines within \(span), more than \(limit)"
            case .hostShare: "on \(seen.hosts.count) of \(hosts) machines within \(span), more than \(limit) %"
            case .duration: "up to \(durationText(value)) within \(span), more than \(durationText(limit))"
            case .deadlocks: "seen \(value == 1 ? "once" : "\(value) times") within \(span)"
            }
        }
    }

    private func enterMeasured(
        _ watch: AlertWatch, _ window: Window, isFirst: Bool, _ triage: [String: Triage], _ queries: AlertQueries,
        _ table: inout AlertTable
    ) throws(FleetError) {
        let now = queries.now
        let hosts = window.measure == .hostShare ? try queries.hostCount() : 0
        let seen = try queries.seen(
            since: now.earlier(bySeconds: window.seconds), more: window.least(hosts: hosts), watch.conditions)
        let episodes = try table.episodes(of: watch, queries.current)
        for (signature, one) in seen.sorted(by: { $0.key < $1.key }) where window.isAbove(one, hosts: hosts) {
            if let state = triage[signature]?.state, state == .muted || state == .resolved { continue }
            let episode = episodes[signature]
            let isAbove = episode?.state == AlertTable.above
            // The time of the last excess need not be exact: update it once per quarter of `calm`.
            if isAbove, let episode, now.milliseconds - episode.at < window.calm / 4 { continue }
            let number = (episode?.serial ?? 0) + (isAbove ? 0 : 1)
            try table.setEpisode(of: watch, signature, number: number, isAbove: true, at: now.milliseconds)
            if isAbove { continue }
            let event = AlertEvent(event: watch.event, signature: signature, reason: window.reason(one, hosts: hosts))
            try add(
                event, "\(watch.id) \(signature) \(number)", watch, isOld: isFirst && window.skipsFirst && !takesOld,
                &table)
        }
        for (signature, episode) in episodes where episode.state == AlertTable.above {
            let isCalm = now.milliseconds - episode.at >= window.calm
            let isAbove = seen[signature].map { window.isAbove($0, hosts: hosts) } ?? false
            let state = triage[signature]?.state
            if state == .muted || state == .resolved || isCalm && !isAbove {
                try table.setEpisode(of: watch, signature, number: episode.serial, isAbove: false, at: episode.at)
            }
        }
    }

    // MARK: Messages

    /// A message, and the rows of the table that it covers.
    private struct Unit {
        var way: AlertWay
        var message: AlertMessage
        var rows: [AlertTable.Row]
    }

    /// Duration of a watcher's claim on a message that it sends, in milliseconds. If the watcher is killed, the message
    /// is sent again after that time.
    private static let claim: Int64 = 2 * 1000 * Int64(AlertSender.longest)
    private static let mostInFull = 20

    /// Claims the next message to send; nil if there is none. Drops messages that are obsolete in the current state of
    /// their group.
    private func next(
        _ sending: Sending, except tried: inout Set<String>, _ reader: FleetReader, _ table: inout AlertTable
    ) throws(FleetError) -> Unit? {
        let now = Timestamp.now
        let triage = try reader.triage(tenant, now: now)
        let queries = try AlertQueries(reader, tenant: tenant, now: now, kinds: kinds)
        var due: [String: [AlertTable.Row]] = [:]
        for row in try withoutDoubles(table.unsent(), queries, now, &table) where !tried.contains(row.key) {
            if !row.isClaimed(now), isDue(row, sending, now.milliseconds) { due[row.way, default: []].append(row) }
        }
        for way in rules.ways where !tried.contains(way.id) {
            var rows: [(row: AlertTable.Row, event: AlertEvent)] = []
            for row in due[way.id] ?? [] {
                guard var event = AlertEvent(body: row.body) else { continue }
                event.signature = queries.current(event.signature)
                switch fate(of: event, triage[event.signature]) {
                case .send: rows.append((row, event))
                case .hold: break
                case .drop: try settle([row], AlertTable.dropped, at: row.at, &table)
                }
            }
            guard let first = rows.first else { continue }
            // Retry a combined message with the same events, without newer ones.
            if let batch = rows.first(where: { !$0.row.batch.isEmpty })?.row.batch {
                rows = rows.filter { $0.row.batch == batch }
            } else if rows.count <= rules.digest {
                rows = [first]
            } else {
                var digest = Digest()
                for (row, _) in rows { digest.add(row.key) }
                let id = digest.digits(16)
                for index in rows.indices { rows[index].row.batch = id }
            }
            var messages: [AlertMessage] = []
            for (row, event) in rows.prefix(rows.count == 1 ? 1 : Self.mostInFull) {
                guard let facts = try queries.facts(of: event.signature, triage) else { continue }
                messages.append(AlertMessage(id: row.name, event, facts, tenant: tenant, pages: rules.pages))
            }
            for index in rows.indices { tried.insert(rows[index].row.key) }
            guard let message = messages.first else {
                // The groups were removed from the store, or split, meanwhile.
                try settle(rows.map(\.row), AlertTable.dropped, at: now.milliseconds, &table)
                return try next(sending, except: &tried, reader, &table)
            }
            let batch = rows[0].row.batch
            let unit = Unit(
                way: way,
                message: batch.isEmpty
                    ? message
                    : AlertMessage(
                        overview: batch, messages, of: rows.map(\.event), tenant: tenant, pages: rules.pages),
                rows: rows.map(\.row))
            try settle(unit.rows, AlertTable.claimed, at: now.milliseconds + Self.claim, &table)
            return unit
        }
        return nil
    }

    /// If new groups were merged into one group, drops their messages except the first; drops all if one was sent
    /// already.
    private func withoutDoubles(
        _ rows: [AlertTable.Row], _ queries: AlertQueries, _ now: Timestamp, _ table: inout AlertTable
    ) throws(FleetError) -> [AlertTable.Row] {
        var kept: [AlertTable.Row] = []
        var told: Set<[String]> = []
        // Start with the messages that another watcher is sending: they cannot be dropped, so their duplicates must be.
        for row in rows.filter({ $0.isClaimed(now) }) + rows.filter({ !$0.isClaimed(now) }) {
            guard let way = way(row.way) else { continue }
            if let event = AlertEvent(body: row.body), event.event == "new" {
                let signature = queries.current(event.signature)
                var isDouble = !told.insert([way.id, signature]).inserted
                let others = [signature] + (queries.earlier[signature] ?? [])
                for other in others where !isDouble && other != event.signature {
                    isDouble = try table.row(.send, id(event.event, other, way))?.state == AlertTable.sent
                }
                if isDouble, !row.isClaimed(now) {
                    try settle([row], AlertTable.dropped, at: row.at, &table)
                    continue
                }
            }
            kept.append(row)
        }
        return kept
    }

    private func isDue(_ row: AlertTable.Row, _ sending: Sending, _ now: Int64) -> Bool {
        if case .due = sending { return row.at <= now && pauses[row.way]?.until ?? 0 <= now }
        return true
    }

    private enum Fate { case send, hold, drop }

    /// Whether to send, hold or drop an event, depending on the current state of its group.
    private func fate(of event: AlertEvent, _ triage: Triage?) -> Fate {
        let state = triage?.state ?? .open
        switch event.event {
        case "new": return state == .muted ? .hold : state == .resolved ? .drop : .send
        case "regression": return state == .regression && triage?.decision?.id == event.decision ? .send : .drop
        default: return state == .muted || state == .resolved ? .drop : .send
        }
    }

    private func settle(
        _ rows: [AlertTable.Row], _ state: String, at time: Int64, _ table: inout AlertTable
    ) throws(FleetError) {
        for row in rows {
            var row = row
            (row.state, row.at) = (state, time)
            // A sent or dropped message needs no body: the row's key prevents another addition.
            if state == AlertTable.sent || state == AlertTable.dropped { row.body = "" }
            try table.write(row)
        }
    }

    private func settle(_ unit: Unit, isSent: Bool, _ table: inout AlertTable) throws(FleetError) {
        let now = Timestamp.now.milliseconds
        if isSent { return try settle(unit.rows, AlertTable.sent, at: now, &table) }
        for row in unit.rows {
            var row = row
            // Another watcher may have taken the message over, and sent it.
            guard try table.row(.send, row.name)?.state == AlertTable.claimed else { continue }
            row.tries += 1
            try settle([row], AlertTable.waiting, at: now + Self.pause(row.tries), &table)
        }
    }
}

/// A span of time in words: "an hour", "2 days".
private func spanText(_ seconds: Int64) -> String {
    for (size, one, name) in [
        (7 * 86400, "a week", "weeks"), (86400, "a day", "days"), (3600, "an hour", "hours"),
        (60, "a minute", "minutes"),
    ] as [(Int64, String, String)]
    where seconds % size == 0 {
        return seconds == size ? one : "\(seconds / size) \(name)"
    }
    return "\(seconds) s"
}

/// Milliseconds as "812 ms" or "2.5 s".
private func durationText(_ milliseconds: Int64) -> String {
    if milliseconds < 1000 { return "\(milliseconds) ms" }
    let tenths = milliseconds / 100
    return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
}
