// Equal findings become one, with a count.

/// Findings grouped by signature, in the order in which each was first seen.
public struct FindingGroups: Sendable {
    public private(set) var findings: [Finding] = []
    private var indices: [String: Int] = [:]

    public init() {}

    /// Adds a finding, giving it its signature if it has none. Returns whether it is the first of its group.
    @discardableResult
    public mutating func add(_ finding: Finding) -> Bool {
        var finding = finding
        let signature = finding.signature ?? finding.computeSignature()
        finding.signature = signature
        if let index = indices[signature] {
            findings[index].count += finding.count
            return false
        }
        indices[signature] = findings.count
        findings.append(finding)
        return true
    }

    /// How many findings there were, equal ones included.
    public var occurrences: Int { findings.reduce(0) { $0 + $1.count } }

    /// "2 findings (1 double-free, 1 write-after-free)", "no findings".
    public var summary: String {
        if findings.isEmpty { return "no findings" }
        var counts: [Finding.Kind: Int] = [:]
        for finding in findings { counts[finding.kind, default: 0] += 1 }
        let kinds = counts.sorted { $0.key.rawValue < $1.key.rawValue }
        let list = kinds.map { "\($0.value) \(visible($0.key.rawValue))" }.joined(separator: ", ")
        let seen = occurrences == findings.count ? "" : ", seen \(occurrences) times"
        return "\(findings.count) finding\(findings.count == 1 ? "" : "s") (\(list)\(seen))"
    }
}
