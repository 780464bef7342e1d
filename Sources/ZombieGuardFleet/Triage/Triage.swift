// The state of a group of findings, which follows from the decisions about it and from where it was seen since.

import ZombieGuard

/// The state of a group of equal findings.
public struct Triage: Hashable, Sendable {
    /// What is to be done about a group.
    public enum State: String, CaseIterable, Sendable {
        /// Nothing has been decided, the group was reopened, or its mute is over.
        case open
        /// A resolved group that was seen again, in the version of the repair or a later one.
        case regression
        case muted
        case resolved
    }

    /// Where a group was seen: a version of the program, and when it was seen there last.
    struct Sighting {
        var version: String
        var last: Timestamp
    }

    /// What is known of a group's occurrences.
    struct Occurrences {
        var sightings: [Sighting] = []
        /// Occurrences after the last decision; 0 if that decision does not depend on their number.
        var count: Int64 = 0

        /// The oldest version, from `version` on, whose last occurrence was after `time` and not after `latest`; nil if
        /// there is none.
        func sighting(after time: Timestamp, until latest: Timestamp, from version: String?) -> Sighting? {
            let least = versionKey(version)
            return sightings.filter { $0.last > time && $0.last <= latest && versionKey($0.version) >= least }
                .min { versionKey($0.version) < versionKey($1.version) }
        }
    }

    public var state = State.open
    /// Who looks after the group; nil: nobody.
    public var assigned: String?
    /// The version in which the bug is repaired; nil if none was named.
    public var version: String?
    /// Until when the group is muted; nil: until somebody reopens it.
    public var limit: TriageEvent.Limit?
    /// The decision that led to the state; nil if there was none.
    public var decision: TriageEvent?
    /// The version in which a resolved group was seen again; "" if the findings have no version.
    public var seenAgain: String?
    /// All events, oldest first.
    public var events: [TriageEvent] = []

    /// Derives the state.
    ///
    /// - Parameters:
    ///   - events: the events of the group, in any order.
    ///   - occurrences: where the group was seen.
    ///   - now: the current time.
    init(_ events: [TriageEvent], _ occurrences: Occurrences, now: Timestamp) {
        self.events = events.sorted { ($0.time, $0.id) < ($1.time, $1.id) }
        for event in self.events {
            switch event.action {
            case .resolve(let version): decide(.resolved, event, version: version)
            case .mute(let limit): decide(.muted, event, limit: limit)
            case .reopen: decide(.open, event)
            case .assign(let name): assigned = name
            case .comment: break
            }
        }
        guard let decision else { return }
        // Ignore times more than `clockTolerance` ahead: a machine with a wrong clock must not cause a regression.
        let latest = now.earlier(bySeconds: -Self.clockTolerance)
        switch (state, limit) {
        case (.resolved, _):
            if let seen = occurrences.sighting(after: decision.time, until: latest, from: version) {
                state = .regression
                seenAgain = seen.version
            }
        case (.muted, .time(let time)?): if now >= time { state = .open }
        case (.muted, .occurrences(let count, _)?):
            if occurrences.count >= count { state = .open }
        case (.muted, .version(let version)?):
            if occurrences.sighting(after: decision.time, until: latest, from: version) != nil { state = .open }
        default: break
        }
    }

    /// In seconds.
    static let clockTolerance: Int64 = 86400

    /// The time after which occurrences count for the last decision; nil if that decision does not depend on their
    /// number.
    static func countedSince(_ events: [TriageEvent]) -> Timestamp? {
        let last = events.sorted { ($0.time, $0.id) < ($1.time, $1.id) }.last { $0.action.isDecision }
        guard case .mute(until: .occurrences)? = last?.action else { return nil }
        return last?.time
    }

    private mutating func decide(
        _ state: State, _ event: TriageEvent, version: String? = nil, limit: TriageEvent.Limit? = nil
    ) {
        (self.state, decision, self.version, self.limit) = (state, event, version, limit)
    }

    /// The state as reports show it; nil if nothing was decided and nobody is assigned.
    public var note: Finding.TriageNote? {
        text.map { Finding.TriageNote(state: state.rawValue, text: $0, assigned: assigned) }
    }

    /// The state in words, such as "regression: resolved in 1.11 by anna on 2026-11-26, seen again in 1.12; assigned to
    /// bob"; nil if nothing was decided and nobody is assigned.
    public var text: String? {
        var parts: [String] = []
        if let decision {
            let by = "by \(decision.author) on \(decision.time.day)"
            let resolved = "resolved\(version.map { " in \($0)" } ?? "") \(by)"
            let muted = "muted\(limit.map { " until \($0)" } ?? "") \(by)"
            switch state {
            case .resolved: parts.append(resolved)
            case .regression:
                let again = seenAgain.map { $0.isEmpty ? "" : " in \($0)" } ?? ""
                parts.append("regression: \(resolved), seen again\(again)")
            case .muted: parts.append(muted)
            case .open: parts.append(limit == nil ? "open again \(by)" : "open: was \(muted)")
            }
        }
        if let assigned { parts.append("assigned to \(assigned)") }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }
}

extension TriageEvent.Limit: CustomStringConvertible {
    public var description: String {
        switch self {
        case .time(let time): time.description
        case .occurrences(let count, _): "\(count) more occurrence\(count == 1 ? "" : "s")"
        case .version(let version): "version \(version)"
        }
    }
}
