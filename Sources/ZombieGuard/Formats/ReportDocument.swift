// Defines the contents of a report document, from which SARIF, HTML and JUnit are rendered.

/// The contents of a report. Findings are already grouped and symbolicated. Text is untrusted; renderers escape it.
public struct ReportDocument: Sendable {
    /// A finding that a suppression excludes from the report.
    public struct Suppressed: Hashable, Sendable {
        /// The suppressed finding.
        public var finding: Finding
        /// The suppression's name or comment.
        public var reason: String?

        /// Creates a suppressed finding.
        ///
        /// - Parameters:
        ///   - finding: the suppressed finding.
        ///   - reason: the suppression's name or comment.
        public init(_ finding: Finding, reason: String? = nil) {
            self.finding = finding
            self.reason = reason
        }
    }

    /// The findings, one for each group of equal findings.
    public var findings: [Finding]
    /// The suppressed findings; may be empty if only their number is known.
    public var suppressedFindings: [Suppressed]
    /// Number of suppressed findings; equal findings count once.
    public var suppressedCount: Int
    /// Samples of one or several processes, in any order.
    public var timeline: [TimelineSample]
    /// The heading of the report; nil to use the programs' names.
    public var title: String?
    /// Version of zguard that made the report.
    public var version: String
    /// zguard's command line including its own name; empty if unknown.
    public var commandLine: [String]
    /// When the report was made.
    public var made: Timestamp
    /// Notes to the reader, such as "no names for …". Safe to print.
    public var notes: [String]
    /// Absolute path of the source root; files below it are named relative to it.
    public var sourceRoot: String?
    /// Whether all input could be read, and the run's processes could write all their findings.
    public var isComplete: Bool
    /// Exit status of the guarded program as shells report it; nil if no program was run.
    public var exitStatus: Int32?
    /// How the program ended and the cause; nil if no program was run.
    public var end: ProgramEnd?
    /// Coverage of the run that made the report; nil if there was no run or the coverage is unknown.
    public var coverage: Coverage?

    /// Creates a document. Each parameter sets the property of the same name.
    public init(
        findings: [Finding], suppressedFindings: [Suppressed] = [], suppressedCount: Int? = nil,
        timeline: [TimelineSample] = [], title: String? = nil, version: String = zombieGuardVersion,
        commandLine: [String] = [], made: Timestamp = .now, notes: [String] = [], sourceRoot: String? = nil,
        isComplete: Bool = true, exitStatus: Int32? = nil, coverage: Coverage? = nil, end: ProgramEnd? = nil
    ) {
        self.findings = findings
        self.suppressedFindings = suppressedFindings
        self.suppressedCount = suppressedCount ?? suppressedFindings.count
        self.timeline = timeline
        self.title = title
        self.version = version
        self.commandLine = commandLine
        self.made = made
        self.notes = notes
        self.sourceRoot = sourceRoot
        self.isComplete = isComplete
        self.exitStatus = exitStatus
        self.coverage = coverage
        self.end = end
    }

    /// Paths of all programs with findings or samples, without duplicates, in order of first appearance.
    public var programs: [String] {
        var seen: Set<String> = []
        return (findings.compactMap(\.program) + timeline.compactMap(\.program)).filter { seen.insert($0).inserted }
    }

    /// Number of findings, including equal ones.
    public var occurrences: Int { findings.reduce(0) { $0.addingSaturated($1.count) } }

    /// The command line, quoted for a shell.
    public var commandText: String? {
        commandLine.isEmpty ? nil : commandLine.map(Self.quoted).joined(separator: " ")
    }

    private static func quoted(_ word: String) -> String {
        let isPlain = word.unicodeScalars.allSatisfy {
            $0.properties.isAlphabetic || "0123456789-_./=:,+@%".unicodeScalars.contains($0)
        }
        return isPlain && !word.isEmpty
            ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
