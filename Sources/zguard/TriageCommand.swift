// zguard triage: lists the groups of a store with the decisions about them, and records decisions.

import Glibc
import ZombieGuard
import ZombieGuardFleet

struct TriageCommand {
    private let address: FleetAddress
    private let tenant: String?
    private let filter: FleetFilter
    private let verb: Verb
    private let signatures: [String]
    private let arguments: Arguments

    private enum Verb: String, CaseIterable {
        case list, show, resolve, mute, reopen, assign, comment, suppressions

        var isDecision: Bool { ![.list, .show, .suppressions].contains(self) }
    }

    static let actions = Verb.allCases.map(\.rawValue)
    private static let nobody = "nobody"
    /// Flags that belong to one verb.
    private static let owners: [String: Verb] = [
        "--in": .resolve, "--until": .mute, "--until-count": .mute, "--until-version": .mute, "--to": .assign,
        "--state": .list, "--limit": .list,
    ]

    init(_ arguments: Arguments) throws(Failure) {
        address = try arguments.store(to: "triage", otherwise: "holds no findings that can be triaged")
        let word = arguments.operands.dropFirst().first ?? Verb.list.rawValue
        guard let verb = Verb(rawValue: word) else {
            let nearest = nearestName(to: word, among: Self.actions)
            throw .usage(
                "unknown action '\(visible(word))'",
                hint: nearest.map { "did you mean '\($0)'?" }
                    ?? "one of \(Self.actions.joined(separator: ", "))")
        }
        for (flag, owner) in Self.owners where arguments.has(flag) && verb != owner {
            throw .usage("option '\(flag)' is for 'zguard triage STORE \(owner.rawValue)'")
        }
        self.verb = verb
        self.arguments = arguments
        signatures = Array(arguments.operands.dropFirst(2))
        tenant = arguments.value("--tenant")
        var filter = FleetFilter()
        filter.tenant = tenant
        filter.states = try arguments.states()
        self.filter = filter
        try check()
    }

    private func check() throws(Failure) {
        if [.list, .suppressions].contains(verb) {
            if let more = signatures.first { throw .usage("unexpected operand '\(visible(more))'") }
        } else if signatures.isEmpty {
            throw .usage(
                "'\(verb.rawValue)' needs the signature of a group",
                hint: "'zguard triage \(visible(address.name))' lists them")
        }
        if verb == .assign, !arguments.has("--to") {
            throw .usage("'assign' needs --to NAME", hint: "--to \(Self.nobody) clears the assignment")
        }
        if verb == .comment, (arguments.value("--comment") ?? "").isEmpty {
            throw .usage("'comment' needs --comment TEXT")
        }
        for flag in ["--comment", "--author"] where !verb.isDecision && arguments.has(flag) {
            throw .usage("option '\(flag)' is for a decision, such as 'resolve'")
        }
        if ![.list, .show].contains(verb), arguments.has("--format") {
            throw .usage("option '--format' is for 'list' and 'show'")
        }
        if ["--until", "--until-count", "--until-version"].filter(arguments.has).count > 1 {
            throw .usage("options '--until', '--until-count' and '--until-version' exclude each other")
        }
    }

    func run() throws -> Int32 {
        do {
            let source = FleetSource(address)
            if try source.ask({ (reader) throws(FleetError) in try reader.hidesTriage }) {
                Output.warn("what was decided may not be read: all groups are shown as open")
            }
            switch verb {
            case .list: try list(source)
            case .show: for signature in signatures { try show(try group(signature, source), source) }
            case .suppressions: try suppressions(source)
            default: try decide(source)
            }
            return ExitStatus.success
        } catch let error as FleetError {
            throw Failure("\(error)", hint: error.hint)
        }
    }

    // MARK: Reading

    private func group(_ signature: String, _ source: FleetSource) throws -> FleetReader.Group {
        let groups = try source.ask { (reader) throws(FleetError) in
            try reader.groups(signed: signature, tenant: tenant)
        }
        guard let group = groups.first else {
            throw Failure("'\(visible(address.name))' has no group with the signature '\(visible(signature))'")
        }
        if groups.count > 1 {
            throw Failure(
                "several groups had the signature '\(visible(signature))'",
                hint: "one of \(groups.prefix(5).map { visible($0.signature) }.joined(separator: ", "))")
        }
        return group
    }

    private func list(_ source: FleetSource) throws {
        let limit = try arguments.limit()
        let (groups, triage) = try source.ask { (reader) throws(FleetError) in
            (try reader.groups(filter, order: .last, limit: limit + 1), try reader.triage(tenant))
        }
        if arguments.value("--format") == "json" {
            for group in groups.prefix(limit) { Output.out(group.json(triage[group.signature]).line + "\n") }
        } else {
            let rows = groups.prefix(limit).map { group in
                let state = triage[group.signature]
                return [
                    state?.state.rawValue ?? Triage.State.open.rawValue, visible(group.signature),
                    "×\(group.occurrences)",
                    group.last.day, visible(state?.assigned ?? "–"), visible(withoutAddresses(group.headline)),
                ]
            }
            let header = ["state", "signature", "seen", "last", "assigned", "finding"]
            Output.out(rows.isEmpty ? "no findings\n" : table([header] + rows, rightAligned: [2]))
        }
        if groups.count > limit { Output.warn("there are more groups", hint: "--limit N shows more") }
    }

    private func show(_ group: FleetReader.Group, _ source: FleetSource) throws {
        let triage = try source.ask { (reader) throws(FleetError) in try reader.triage(tenant)[group.signature] }
        if arguments.value("--format") == "json" {
            Output.out(group.json(triage).line + "\n")
            return
        }
        var text = visible("\(group.signature) \(group.headline)") + "\n"
        text +=
            "seen \(group.occurrences == 1 ? "once" : "\(group.occurrences) times"), first \(group.first), last \(group.last)\n"
        text += visible(triage?.text ?? "open") + "\n"
        for event in triage?.events ?? [] {
            let comment = event.comment.isEmpty ? "" : ": " + event.comment
            text += "  \(event.time)  " + visible("\(event.author) \(event.action)\(comment)") + "\n"
        }
        Output.out(text)
    }

    private func suppressions(_ source: FleetSource) throws {
        var muted = FleetFilter()
        (muted.tenant, muted.states) = (tenant, [.muted])
        let groups = try source.ask { (reader) throws(FleetError) in try reader.groups(muted) }
        // Symbolicate the findings: suppression rules name functions.
        var intake = FindingIntake(try ReportOptions(arguments))
        intake.use(SymbolStore(address, tenant: tenant))
        for finding in groups.compactMap(\.finding) { intake.add(finding) }
        for note in intake.notes { Output.warn(note) }
        Output.out(intake.groups.findings.map { Suppressions.suggestion(for: $0) }.joined(separator: "\n"))
    }

    // MARK: Deciding

    private func decide(_ source: FleetSource) throws {
        let author = arguments.value("--author") ?? Self.user
        var groups: [FleetReader.Group] = []
        for wanted in signatures {
            let group = try group(wanted, source)
            if !groups.contains(where: { $0.signature == group.signature }) { groups.append(group) }
        }
        let triage = try source.ask { (reader) throws(FleetError) in try reader.triage(tenant) }
        var events: [TriageEvent] = []
        for group in groups {
            let time = TriageEvent.time(after: triage[group.signature]?.events.last?.time)
            events.append(
                TriageEvent(
                    try action(on: group, source), of: group.signature, by: author,
                    comment: arguments.value("--comment") ?? "", tenant: tenant, time: time))
        }
        try TriageStore(address).add(events)
        for (group, event) in zip(groups, events) {
            Output.out(
                visible("\(group.signature): \(author) \(event.action), \(withoutAddresses(group.headline))") + "\n")
        }
        if verb == .resolve, arguments.has("--in") {
            for group in groups where group.version == nil {
                Output.warn("findings of '\(visible(group.signature))' have no version: none of these is a regression")
            }
        }
    }

    private func action(on group: FleetReader.Group, _ source: FleetSource) throws -> TriageEvent.Action {
        switch verb {
        case .resolve: return .resolve(version: arguments.value("--in"))
        case .mute: return .mute(until: try limit(group, source))
        case .reopen: return .reopen
        case .assign: return .assign(to: arguments.value("--to").flatMap { $0 == Self.nobody ? nil : $0 })
        default: return .comment
        }
    }

    private func limit(_ group: FleetReader.Group, _ source: FleetSource) throws -> TriageEvent.Limit? {
        let now = Timestamp.now
        if let version = arguments.value("--until-version") { return .version(version) }
        if let text = arguments.value("--until-count") {
            guard let count = Int64(signedDigits: text), count > 0 else {
                throw Failure.usage(
                    "option '--until-count' has the bad value '\(visible(text))': expected a number from 1 on")
            }
            let before = try source.ask { (reader) throws(FleetError) in
                try reader.count(of: group.signature, from: now.day, tenant: tenant)
            }
            return .occurrences(count, before: before)
        }
        guard let text = arguments.value("--until") else { return nil }
        do throws(ValueError) {
            return try .until(text, now: now)
        } catch {
            throw Failure.usage("option '--until' has the bad value '\(visible(text))': expected \(error.expected)")
        }
    }

    /// The name of the user who runs zguard.
    private static var user: String {
        getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) } ?? "user \(getuid())"
    }
}

extension Arguments {
    /// The states given with `--state`; empty if none were.
    func states() throws(Failure) -> Set<Triage.State> {
        var states: Set<Triage.State> = []
        guard let text = value("--state") else { return [] }
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let state = Triage.State(rawValue: String(word)) else {
                let known = Triage.State.allCases.map(\.rawValue).joined(separator: ", ")
                throw .usage("option '--state' has the bad value '\(visible(String(word)))': expected some of \(known)")
            }
            states.insert(state)
        }
        return states
    }
}

extension Flag {
    static let state = Flag(
        name: "--state", value: .required("STATE"),
        text: "only findings that are open, regression, muted or resolved (several: separated by commas)")
}

extension TriageCommand {
    static let command = Command(
        name: "triage", operands: "STORE [ACTION] [SIGNATURE…]", operandCount: 1...1000,
        text:
            "list the findings of a store with what was decided about them, or decide: resolve, mute, reopen, assign, comment; show prints the history of one, suppressions prints rules for what is muted",
        flags: [
            .state,
            Flag(
                name: "--in", value: .required("VERSION"), text: "resolve: the version of the program with the repair"),
            Flag(name: "--until", value: .required("TIME"), text: "mute: until a date, or for a span such as 7d"),
            Flag(name: "--until-count", value: .required("N"), text: "mute: until it was seen N times more"),
            Flag(
                name: "--until-version", value: .required("VERSION"),
                text: "mute: until this version of the program has it, or a later one"),
            Flag(name: "--to", value: .required("NAME"), text: "assign: who looks after it; 'nobody' clears this"),
            Flag(name: "--comment", value: .required("TEXT"), text: "a remark that is kept with the decision"),
            Flag(name: "--author", value: .required("NAME"), text: "who decides (default: the user's name)"),
            Flag(
                name: "--tenant", value: .required("TEXT"), text: "tenant whose findings they are (default: default)"),
            Flag(name: "--limit", value: .required("N"), text: "list: at most N groups (default 20)"),
            .objectFormat, .symbols,
        ], run: { try TriageCommand($0).run() })
}
