// The kinds of findings as documents explain them: rules of SARIF, headings of HTML.

import CZombie

/// What a kind of finding means.
public struct FindingKind: Sendable {
    /// How serious a finding of the kind is by itself, in SARIF's words.
    public enum Level: String, Sendable {
        /// A bug.
        case error
        /// Probably a bug.
        case warning
        /// Worth knowing.
        case note
    }

    /// The kind that this is about.
    public var kind: Finding.Kind
    /// "UseAfterFree"
    public var name: String
    /// One sentence.
    public var summary: String
    /// What happened, in a few sentences.
    public var explanation: String
    /// What to do about it.
    public var help: String
    /// Number in the Common Weakness Enumeration.
    public var weakness: Int?
    /// How serious it is where the finding is certain.
    public var level: Level = .error

    /// Every kind that this version knows, the gravest first: the runtime's table.
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

    /// The entry of a kind; one that says little for kinds of later versions.
    ///
    /// - Parameter kind: may be of a later version.
    /// - Returns: the entry.
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
