// Equal findings become one, with a count, however many there are.

/// Findings grouped by signature, in the order in which each was first added. Memory is bounded: see ``Limits``.
public struct FindingGroups: Sendable {
    /// How much is kept. Findings of a group that is kept are counted for ever; those of bugs that come when it is full
    /// are only counted, in ``further``.
    public struct Limits: Hashable, Sendable {
        /// Groups, each with all of one finding.
        public var groups = 10_000
        /// Memory that their stacks may take, about.
        public var bytes = 128 << 20

        /// The limits that `zguard` has.
        public init() {}
    }

    /// One finding for each group: the first that was added, with the count of all, and when they came.
    public private(set) var findings: [Finding] = []
    /// Findings that were only counted, because there were more different ones than are kept.
    public private(set) var further = 0
    /// Rules for findings that are not to be seen; they count what they suppress.
    public private(set) var suppressions: Suppressions
    /// How much is kept.
    public let limits: Limits

    private var indices: [String: Int] = [:]
    private var known = KnownFindings()
    private var sources = FindingSources()
    private var texts = TextPool()
    private var bytes = 0

    /// Makes groups without a finding.
    ///
    /// - Parameters:
    ///   - limits: how much is kept.
    ///   - suppressions: rules for findings that are not to be seen.
    public init(limits: Limits = Limits(), suppressions: Suppressions = Suppressions()) {
        self.limits = limits
        self.suppressions = suppressions
    }

    /// Adds a finding, giving it its signature if it has none. Returns whether it is the first of its group, which is
    /// then the last of ``findings``.
    ///
    /// `name` gives a raw finding its names. It is not asked for what is known: findings whose frames are equal to those
    /// of one that was added before.
    ///
    /// - Parameters:
    ///   - raw: a finding, raw or finished.
    ///   - name: makes it a finished one; called only where that is needed.
    /// - Returns: whether it is the first of its group, and to be shown.
    @discardableResult
    public mutating func add(_ raw: Finding, naming name: (Finding) -> Finding = { $0 }) -> Bool {
        let identity = KnownFindings.Identity(raw)
        if let place = known[identity] {
            count(raw, at: place)
            return false
        }
        var finding = name(raw)
        let (place, isNew) = place(of: &finding)
        known[identity] = place
        if isNew {
            sources.add(finding)
            keep(finding)
        } else if case .group(let index) = place, findings[index].stacks == Finding.Stacks(),
            finding.stacks != findings[index].stacks
        {
            // The first one was only counted: this one has something to show.
            sources.add(finding)
            finding.merge(findings[index])
            bytes += texts.share(&finding)
            findings[index] = finding
        } else {
            count(raw, at: place)
        }
        return isNew
    }

    private mutating func place(of finding: inout Finding) -> (KnownFindings.Place, isNew: Bool) {
        if let rule = suppressions.match(finding) { return (.suppressed(rule: rule), false) }
        let signature = finding.signature ?? finding.computeSignature()
        finding.signature = signature
        if let index = indices[signature] { return (.group(index), false) }
        if isFull { return (.further, false) }
        indices[signature] = findings.count
        return (.group(findings.count), true)
    }

    private mutating func keep(_ finding: Finding) {
        var finding = finding
        bytes += texts.share(&finding)
        findings.append(finding)
    }

    private mutating func count(_ finding: Finding, at place: KnownFindings.Place) {
        switch place {
        case .suppressed(let rule): suppressions.count(rule: rule, finding.count)
        case .further:
            sources.add(finding)
            further = further.addingSaturated(finding.count)
        case .group(let index):
            sources.add(finding)
            findings[index].merge(finding)
        }
    }

    /// Takes groups out that are not to be shown, once all findings are there.
    ///
    /// - Parameter isKept: whether a group stays.
    public mutating func keep(where isKept: (Finding) -> Bool) { findings.removeAll { !isKept($0) } }

    /// Whether findings of other bugs are only counted from now on.
    public var isFull: Bool { findings.count >= limits.groups || bytes >= limits.bytes }

    /// How many findings there were, equal ones included and suppressed ones left out.
    public var occurrences: Int { findings.reduce(further) { $0.addingSaturated($1.count) } }

    /// How many processes the findings are of, as far as they say it; at least so many where there are very many.
    public var processes: Int { sources.processes }

    /// How many programs.
    public var programs: Int { sources.programs }

    /// "2 findings (1 double-free, 1 write-after-free)", "no findings (3 suppressed)".
    public var summary: String {
        let suppressed = suppressions.occurrences
        let rest = suppressed == 0 ? [] : ["\(suppressed) suppressed"]
        if findings.isEmpty, further == 0 { return "no findings" + (rest.isEmpty ? "" : " (\(rest[0]))") }
        var counts: [Finding.Kind: Int] = [:]
        for finding in findings { counts[finding.kind, default: 0] += 1 }
        var parts = counts.sorted { $0.key.rawValue < $1.key.rawValue }.map {
            "\($0.value) \(visible($0.key.rawValue))"
        }
        if further > 0 { parts.append("\(further) of further bugs only counted") }
        if occurrences != findings.count { parts.append("seen \(occurrences) times") }
        let list = (parts + rest).joined(separator: ", ")
        return "\(findings.count) finding\(findings.count == 1 ? "" : "s") (\(list))"
    }
}

extension Finding {
    /// Counts another finding of the same bug, and keeps when the first and the last of them were.
    mutating func merge(_ other: Finding) {
        count = count.addingSaturated(other.count)
        if let more = other.stall { stall?.add(more) }
        let first = [firstSeen, time, other.firstSeen, other.time].compactMap { Moment($0) }.min()
        let last = [lastSeen, time, other.lastSeen, other.time].compactMap { Moment($0) }.max()
        firstSeen = first?.text == time ? nil : first?.text
        lastSeen = last?.text == time ? nil : last?.text
        // The oldest version that has the bug.
        if origin != nil, versionKey(other.origin?.version) < versionKey(origin?.version) {
            origin?.version = other.origin?.version
        }
    }

    /// A time in a finding, if it is one that can be compared.
    private struct Moment: Comparable {
        var text: String

        init?(_ text: String?) {
            guard let text, text.utf8.count <= 40, text.utf8.prefix(4).allSatisfy({ (0x30...0x39).contains($0) }),
                text.utf8.last == UInt8(ascii: "Z")
            else { return nil }
            self.text = text
        }

        // ISO 8601 in UTC: the order of the texts, where "05Z" comes before "05.1Z".
        static func < (a: Moment, b: Moment) -> Bool { a.text.dropLast() < b.text.dropLast() }
    }
}
