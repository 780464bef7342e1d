// Groups equal findings and counts them, in bounded memory.

/// Findings grouped by signature, in order of the first finding of each group. A finding that has only a signature of
/// an earlier version of ZombieGuard joins the group with that former signature. Memory is bounded: see ``Limits``.
public struct FindingGroups: Sendable {
    /// Limits on the stored groups. When a limit is reached, findings of stored groups are still counted in their
    /// group; findings of new groups are only counted in ``further``.
    public struct Limits: Hashable, Sendable {
        /// Number of groups, each of which stores one complete finding.
        public var groups = 10_000
        /// Approximate memory for the groups' findings, in bytes.
        public var bytes = 128 << 20

        /// Creates the limits that `zguard` uses.
        public init() {}
    }

    /// One finding of each group: the first one, or the first one with stacks. Each has the group's count and the times
    /// of the group's first and last finding.
    public private(set) var findings: [Finding] = []
    /// Number of findings that were only counted, because the limits were reached.
    public private(set) var further = 0
    /// Suppression rules, which count the findings that they suppress.
    public private(set) var suppressions: Suppressions
    /// The limits on the stored groups.
    public let limits: Limits

    private var indices: [String: Int] = [:]
    /// Maps each former signature to the index of the first group that has it.
    private var formerIndices: [String: Int] = [:]
    /// For each signature from an earlier version of ZombieGuard: sort key of the oldest program version stored with
    /// it.
    private var storedVersions: [String: String] = [:]
    private var known = FindingCache()
    private var sources = FindingSources()
    private var texts = TextPool()
    private var bytes = 0

    /// Creates an empty set of groups.
    ///
    /// - Parameters:
    ///   - limits: limits on the stored groups.
    ///   - suppressions: rules for findings to leave out.
    public init(limits: Limits = Limits(), suppressions: Suppressions = Suppressions()) {
        self.limits = limits
        self.suppressions = suppressions
    }

    /// Adds a finding and sets its signature if missing.
    ///
    /// `name` symbolicates a raw finding. It is not called if an earlier finding had equal frames and details.
    ///
    /// - Parameters:
    ///   - raw: a finding, raw or finished.
    ///   - name: symbolicates a raw finding; called only if needed.
    /// - Returns: whether the finding is the first of its group. It is then the last element of ``findings``.
    @discardableResult
    public mutating func add(_ raw: Finding, naming name: (Finding) -> Finding = { $0 }) -> Bool {
        recordVersion(raw)
        let identity = FindingCache.Identity(raw)
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
            // The first finding of the group has no stacks: keep the new finding instead.
            sources.add(finding)
            finding.merge(findings[index])
            bytes += texts.share(&finding)
            findings[index] = finding
        } else {
            count(finding, at: place)
        }
        return isNew
    }

    private mutating func place(of finding: inout Finding) -> (FindingCache.Place, isNew: Bool) {
        finding.addSignature()
        if let rule = suppressions.match(finding) { return (.suppressed(rule: rule), false) }
        guard let signature = finding.signature else { return (.further, false) }
        if let index = indices[signature] ?? earlierGroup(of: finding) { return (.group(index), false) }
        if isFull { return (.further, false) }
        indices[signature] = findings.count
        remember(finding.formerSignatures, of: findings.count)
        return (.group(findings.count), true)
    }

    /// The group that has a former signature in common with the finding. If only the finding has a signature of this
    /// version, the group takes that signature over.
    private mutating func earlierGroup(of finding: Finding) -> Int? {
        guard let signature = finding.signature else { return nil }
        if finding.formerSignatures.isEmpty { return formerIndices[signature] }
        for former in finding.formerSignatures {
            guard let index = indices[former], findings[index].formerSignatures.isEmpty else { continue }
            findings[index].signature = signature
            findings[index].formerSignatures = finding.formerSignatures
            indices[signature] = index
            remember(finding.formerSignatures, of: index)
            return index
        }
        return nil
    }

    private mutating func remember(_ formers: [String], of index: Int) {
        for former in formers where formerIndices[former] == nil { formerIndices[former] = index }
    }

    private mutating func recordVersion(_ finding: Finding) {
        guard let signature = finding.signature, finding.formerSignatures.isEmpty,
            storedVersions.count < FindingCache.most
        else { return }
        let version = versionKey(finding.origin?.version)
        storedVersions[signature] = min(storedVersions[signature] ?? version, version)
    }

    /// Whether an earlier version of ZombieGuard stored the bug, under a former signature of the group, for a program
    /// version before `version`.
    ///
    /// - Parameters:
    ///   - group: one of ``findings``.
    ///   - version: a version of the program.
    /// - Returns: whether the bug was known.
    package func wasStored(_ group: Finding, before version: String) -> Bool {
        let limit = versionKey(version)
        return group.formerSignatures.contains { storedVersions[$0].map { $0 < limit } ?? false }
    }

    private mutating func keep(_ finding: Finding) {
        var finding = finding
        bytes += texts.share(&finding)
        findings.append(finding)
    }

    private mutating func count(_ finding: Finding, at place: FindingCache.Place) {
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

    /// Removes groups that are not to be shown. Call it after all findings have been added.
    ///
    /// - Parameter isKept: returns whether a group stays.
    public mutating func keep(where isKept: (Finding) -> Bool) { findings.removeAll { !isKept($0) } }

    /// Whether a limit is reached, so that findings of new groups are only counted.
    public var isFull: Bool { findings.count >= limits.groups || bytes >= limits.bytes }

    /// Number of findings, including equal ones, without suppressed ones.
    public var occurrences: Int { findings.reduce(further) { $0.addingSaturated($1.count) } }

    /// Number of distinct processes named by the findings; a lower bound if there are very many processes.
    public var processes: Int { sources.processes }

    /// Number of distinct programs named by the findings; a lower bound if there are very many programs.
    public var programs: Int { sources.programs }

    /// The numbers of findings as text: "2 findings (1 double-free, 1 write-after-free)", "no findings (3 suppressed)".
    public var summary: String {
        let suppressed = suppressions.occurrences
        let rest = suppressed == 0 ? [] : ["\(suppressed) suppressed"]
        if findings.isEmpty, further == 0 { return "no findings" + (rest.isEmpty ? "" : " (\(rest[0]))") }
        var counts: [Finding.Kind: Int] = [:]
        for finding in findings { counts[finding.kind, default: 0] += 1 }
        var parts = counts.sorted { $0.key.rawValue < $1.key.rawValue }.map {
            "\($0.value) \(visible($0.key.rawValue))"
        }
        if further > 0 { parts.append("\(further) of further bugs counted but not stored") }
        if occurrences != findings.count { parts.append("seen \(occurrences) times") }
        let list = (parts + rest).joined(separator: ", ")
        return "\(findings.count) finding\(findings.count == 1 ? "" : "s") (\(list))"
    }
}

extension Finding {
    /// Merges another finding of the same bug: adds counts, stall samples and leaked bytes, extends the times of the
    /// first and last finding, and combines triage state, former signatures and program version.
    mutating func merge(_ other: Finding) {
        count = count.addingSaturated(other.count)
        if let more = other.stall { stall?.add(more) }
        if let more = other.leak { leak?.add(more) }
        // A store may have several groups for one bug: keep the triage state that most needs attention.
        if Self.urgency(other.triage) > Self.urgency(triage) { triage = other.triage }
        for one in other.formerSignatures where formerSignatures.count < Self.mostFormer && !isSigned(one) {
            formerSignatures.append(one)
        }
        let first = [firstSeen, time, other.firstSeen, other.time].compactMap { Moment($0) }.min()
        let last = [lastSeen, time, other.lastSeen, other.time].compactMap { Moment($0) }.max()
        firstSeen = first?.text == time ? nil : first?.text
        lastSeen = last?.text == time ? nil : last?.text
        // Keep the oldest version that has the bug.
        if origin != nil, versionKey(other.origin?.version) < versionKey(origin?.version) {
            origin?.version = other.origin?.version
        }
    }

    private static func urgency(_ triage: TriageNote?) -> Int {
        triage.flatMap { ["resolved", "muted", "open", "regression"].firstIndex(of: $0.state) } ?? 2
    }

    /// Maximum number of former signatures of a group. Each build without symbols may add one.
    private static let mostFormer = 16

    /// A comparable time of a finding; nil if the text is malformed.
    private struct Moment: Comparable {
        var text: String

        init?(_ text: String?) {
            guard let text, text.utf8.count <= 40, text.utf8.prefix(4).allSatisfy({ (0x30...0x39).contains($0) }),
                text.utf8.last == UInt8(ascii: "Z")
            else { return nil }
            self.text = text
        }

        // ISO 8601 texts in UTC sort chronologically without the "Z", with which "05.1Z" would sort before "05Z".
        static func < (a: Moment, b: Moment) -> Bool { a.text.dropLast() < b.text.dropLast() }
    }
}
