// Which findings are asked for: the same questions to directories and to databases.

/// What findings must be. Whatever is nil does not matter.
public struct FleetFilter: Hashable, Sendable {
    /// Found since then. Databases count whole days.
    public var since: Timestamp?
    /// The kind's name, such as "use-after-free".
    public var kind: String?
    /// The program's path, or the last part of it.
    public var program: String?
    /// The machine's name.
    public var host: String?
    /// Sixteen hexadecimal digits.
    public var signature: String?
    /// Of bugs that no older version, and none without a version, had.
    public var newSince: String?
    /// Whose findings.
    public var tenant: String?
    /// Words that all stand somewhere in a finding; databases alone look for them.
    public var words: [String] = []

    /// Lets everything pass.
    public init() {}

    /// Whether a finding is to be counted. ``newSince`` is a question about all findings of a bug: see ``isNew(_:)``.
    ///
    /// - Parameter finding: raw or finished.
    /// - Returns: whether it passes.
    public func accepts(_ finding: Finding) -> Bool {
        // A finding without a time may be a recent one.
        if let since, let time = (finding.lastSeen ?? finding.time).flatMap({ Timestamp($0) }), time < since {
            return false
        }
        if let kind, finding.kind.rawValue != kind { return false }
        if let host, finding.origin?.host != host { return false }
        if let tenant, (finding.origin?.tenant ?? ShippedFinding.Sender.standardTenant) != tenant { return false }
        if let program {
            guard let path = finding.program else { return false }
            if path != program, !path.hasSuffix("/" + program) { return false }
        }
        return true
    }

    /// Whether a group of equal findings, one of whose versions is the oldest, is that of a new bug.
    ///
    /// - Parameter group: with the oldest version as its origin's.
    /// - Returns: whether it passes.
    public func isNew(_ group: Finding) -> Bool {
        guard let newSince else { return true }
        return versionKey(group.origin?.version) >= versionKey(newSince)
    }
}
