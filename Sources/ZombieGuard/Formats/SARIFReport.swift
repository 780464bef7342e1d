// Writes reports in the Static Analysis Results Interchange Format (SARIF) 2.1.0: the log and its one run.

/// A report document as SARIF, for code scanning services and editors.
public struct SARIFReport: Sendable {
    private let document: ReportDocument
    private let files: FileURI
    private let kinds: [FindingKind]

    /// Creates the report for a document.
    ///
    /// - Parameter document: the report; its text is untrusted.
    public init(_ document: ReportDocument) {
        self.document = document
        files = FileURI(root: document.sourceRoot)
        // List all known kinds first, so that a rule has the same index in every report; append kinds of later
        // versions.
        var kinds = FindingKind.all
        for finding in document.findings + document.suppressedFindings.map(\.finding)
        where !kinds.contains(where: { $0.kind == finding.kind }) {
            kinds.append(.of(finding.kind))
        }
        self.kinds = kinds
    }

    /// The log, including its final line feed.
    public var text: String { json.line + "\n" }

    var json: JSONText {
        .object([
            (
                "$schema",
                .string("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json")
            ),
            ("version", .string("2.1.0")), ("runs", .array([run])),
        ])
    }

    private var run: JSONText {
        // If one result has `suppressions`, all results must have them.
        let saysSuppressed = !document.suppressedFindings.isEmpty
        var results = document.findings.map { finding in
            result(finding, suppressions: saysSuppressed ? .array([]) : nil)
        }
        for suppressed in document.suppressedFindings {
            let reason = suppressed.reason.map { JSONText.string(visible($0)) }
            let suppression = JSONText.object([
                ("kind", .string("external")), ("status", .string("accepted")), ("justification", reason),
            ])
            results.append(result(suppressed.finding, suppressions: .array([suppression])))
        }
        return .object([
            ("tool", .object([("driver", driver)])), ("invocations", .array([invocation])),
            (
                "originalUriBaseIds",
                files.rootURI.map { .object([(FileURI.rootName, .object([("uri", .string($0))]))]) }
            ), ("columnKind", .string("unicodeCodePoints")), ("results", .array(results)),
            (
                "properties",
                .object([
                    ("suppressedFindings", .integer(Int64(document.suppressedCount))),
                    ("coverage", document.coverage?.json), ("end", document.end?.json),
                ])
            ),
        ])
    }

    private func result(_ finding: Finding, suppressions: JSONText?) -> JSONText {
        let rule = kinds.firstIndex { $0.kind == finding.kind } ?? 0
        return SARIFResult(finding: finding, kind: kinds[rule], rule: rule, files: files).json(
            suppressions: suppressions)
    }

    private var driver: JSONText {
        .object([
            ("name", .string("zguard")), ("fullName", .string("zguard \(document.version)")),
            ("version", .string(document.version)), ("semanticVersion", .string(document.version)),
            ("rules", .array(kinds.map(Self.rule))),
        ])
    }

    private static func rule(_ kind: FindingKind) -> JSONText {
        let tags = ["memory-safety", "security"] + (kind.weakness.map { ["external/cwe/cwe-\($0)"] } ?? [])
        return .object([
            ("id", .string(ruleID(kind.kind))), ("name", .string(kind.name)),
            ("shortDescription", message(kind.summary)), ("fullDescription", message(kind.explanation)),
            ("defaultConfiguration", .object([("level", .string(kind.level.rawValue))])),
            ("help", message("\(kind.explanation) \(kind.help)")),
            (
                "properties",
                .object([
                    ("tags", .array(tags.map { .string($0) })), ("precision", .string("very-high")),
                    ("problem.severity", .string(kind.level.rawValue)),
                ])
            ),
        ])
    }

    static func ruleID(_ kind: Finding.Kind) -> String { visible(kind.rawValue) }

    private var invocation: JSONText {
        let notifications = document.notes.map { note in
            JSONText.object([("level", .string("note")), ("message", Self.message(note))])
        }
        let arguments = document.commandLine.dropFirst().map { JSONText.string(visible($0)) }
        return .object([
            ("executionSuccessful", .bool(document.isComplete && document.end?.needsExplanation != true)),
            ("exitSignalName", (document.end?.signalName).map { .string($0) }),
            ("exitSignalNumber", (document.end?.signal).map { .integer(Int64($0)) }),
            ("commandLine", document.commandText.map { .string(visible($0)) }),
            ("arguments", document.commandLine.isEmpty ? nil : .array(arguments)),
            ("endTimeUtc", .string(document.made.description)),
            ("workingDirectory", files.rootURI.map { .object([("uri", .string($0))]) }),
            ("toolExecutionNotifications", notifications.isEmpty ? nil : .array(notifications)),
            ("properties", document.exitStatus.map { .object([("programExitStatus", .integer(Int64($0)))]) }),
        ])
    }

    /// A message object whose text is escaped, so that it contains no links or placeholders.
    static func message(_ text: String) -> JSONText { .object([("text", .string(escaped(text)))]) }

    /// Escapes square brackets, which begin links, and braces, which begin placeholders (sections 3.11.5 and 3.11.6 of
    /// the standard).
    static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in visible(text).unicodeScalars {
            switch character {
            case "[", "]", "\\": escaped += "\\\(character)"
            case "{", "}": escaped += "\(character)\(character)"
            default: escaped.unicodeScalars.append(character)
            }
        }
        return escaped
    }
}
