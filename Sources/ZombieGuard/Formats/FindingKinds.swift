// Describes the kinds of findings for SARIF rules and HTML headings.

import CZombie

/// The description of a kind of finding.
public struct FindingKind: Sendable {
    /// The severity of a kind, as SARIF names it.
    public enum Level: String, Sendable {
        /// A bug.
        case error
        /// Probably a bug.
        case warning
        /// Information.
        case note
    }

    /// The described kind.
    public var kind: Finding.Kind
    /// The name for SARIF rules, such as "UseAfterFree".
    public var name: String
    /// One sentence that summarizes the kind.
    public var summary: String
    /// What happened, in a few sentences.
    public var explanation: String
    /// How to fix the bug.
    public var help: String
    /// Number in the Common Weakness Enumeration (CWE).
    public var weakness: Int?
    /// The severity of a finding with exact confidence. Inferred findings are warnings, whatever their kind.
    public var level: Level = .error

    /// All kinds of this version, most severe first, from the runtime's table.
    public static let all: [FindingKind] = withUnsafeBytes(of: zg_finding_kind_table) { bytes in
        zip(Finding.Kind.all, bytes.bindMemory(to: zg_finding_kind_info.self)).map { kind, row in
            guard let level = Level(rawValue: String(cString: row.level)) else {
                preconditionFailure("\(kind.rawValue) has no level of SARIF")
            }
            return FindingKind(
                kind: kind, name: kind.rawValue.split(separator: "-").map(\.capitalized).joined(),
                summary: String(cString: row.summary), explanation: String(cString: row.explanation),
                help: String(cString: row.help), weakness: Int(row.weakness), level: level)
        }
    }

    /// Returns the description of a kind, or a generic one for a kind of a later version.
    ///
    /// - Parameter kind: a kind, possibly of a later version.
    /// - Returns: the description.
    public static func of(_ kind: Finding.Kind) -> FindingKind {
        all.first { $0.kind == kind }
            ?? FindingKind(
                kind: kind, name: "Other", summary: "A kind of finding that this version of zguard does not know.",
                explanation: "A later version of the runtime reported it.", help: "Read the report with that version.")
    }
}

extension Substring {
    fileprivate var capitalized: String { prefix(1).uppercased() + dropFirst() }
}
