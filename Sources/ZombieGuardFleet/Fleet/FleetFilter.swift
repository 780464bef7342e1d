// Filters for findings, shared by report directories and databases.

import ZombieGuard

/// Conditions that findings must meet. A nil property is no condition.
public struct FleetFilter: Hashable, Sendable {
    /// Only findings since this time. Databases count whole days.
    public var since: Timestamp?
    /// Only findings until this time. Databases count whole days.
    public var until: Timestamp?
    /// Name of the kind, such as "use-after-free".
    public var kind: String?
    /// The program's path, or its last components.
    public var program: String?
    /// The program's version.
    public var version: String?
    /// Name of the machine.
    public var host: String?
    /// Signature of the finding, 16 hexadecimal digits.
    public var signature: String?
    /// Only bugs that were seen neither in an older version nor in findings without a version.
    public var newSince: String?
    /// Name of the tenant.
    public var tenant: String?
    /// Words, all of which a finding must contain.
    public var words: [String] = []
    /// Classes, members and functions, all of which a finding must name.
    public var names: [FleetName] = []
    /// Only groups in these states; empty: in any.
    public var states: Set<Triage.State> = []
    /// The states of groups, if they are known already (``FleetReader/triage(_:now:)``).
    package var triage: [String: Triage]?

    /// Makes a filter that accepts every finding.
    public init() {}

    /// Whether a finding meets the conditions on findings. Conditions on groups are not checked: ``signature``,
    /// ``states`` and ``newSince`` (see ``isNew(_:)``). Nor are words and names, which need symbols: see
    /// ``acceptsTexts(of:)``.
    ///
    /// - Parameter finding: a raw or a symbolicated finding.
    /// - Returns: whether it is accepted.
    public func accepts(_ finding: Finding) -> Bool {
        // Accept a finding without a time, because it may be recent.
        if let since, let time = (finding.lastSeen ?? finding.time).flatMap({ Timestamp($0) }), time < since {
            return false
        }
        if let until, let time = finding.time.flatMap({ Timestamp($0) }), time > until { return false }
        if let version, finding.origin?.version != version { return false }
        if let kind, finding.kind.rawValue != kind { return false }
        if let host, finding.origin?.host != host { return false }
        if let tenant, (finding.origin?.tenant ?? ShippedFinding.Sender.standardTenant) != tenant { return false }
        if let program {
            guard let path = finding.program else { return false }
            if path != program, !path.hasSuffix("/" + program) { return false }
        }
        return true
    }

    /// Whether a group of equal findings is a bug that is new since version ``newSince``.
    ///
    /// - Parameter group: the merged finding, whose origin has the oldest version of the group.
    /// - Returns: whether it is accepted.
    public func isNew(_ group: Finding) -> Bool {
        guard let newSince else { return true }
        return versionKey(group.origin?.version) >= versionKey(newSince)
    }
}
