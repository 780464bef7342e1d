// Everything that a report as a whole document says: SARIF and HTML are made of it.

/// The contents of a report. Findings are grouped and symbolicated already; texts may be hostile, renderers escape them.
public struct ReportDocument: Sendable {
    /// A finding that a suppression keeps out of the report.
    public struct Suppressed: Hashable, Sendable {
        /// What was suppressed.
        public var finding: Finding
        /// What the suppression says, such as its name or comment.
        public var reason: String?

        /// Makes a suppressed finding, with what its rule says of it.
        ///
        /// - Parameters:
        ///   - finding: what was suppressed.
        ///   - reason: what the rule says, such as its name.
        public init(_ finding: Finding, reason: String? = nil) {
            self.finding = finding
            self.reason = reason
        }
    }

    /// What the report is about, each group of equal findings once.
    public var findings: [Finding]
    /// May be empty where only their number is known.
    public var suppressedFindings: [Suppressed]
    /// How many findings were suppressed, equal ones once.
    public var suppressedCount: Int
    /// In any order, of one process or several.
    public var timeline: [TimelineSample]
    /// What stands above the report; the programs' names where it is nil.
    public var title: String?
    /// Version of the zguard that made the report.
    public var version: String
    /// The command line of zguard, its own name first; empty where it is not known.
    public var commandLine: [String]
    /// When the report was made.
    public var made: Timestamp
    /// What the reader has to know, such as "no names for …". Safe to print.
    public var notes: [String]
    /// An absolute path: files below it are named relative to it.
    public var sourceRoot: String?
    /// Whether everything that there was to read could be read.
    public var isComplete: Bool
    /// How the guarded program ended, as shells see it; nil where it was not watched.
    public var exitStatus: Int32?
    /// How the program ended, and what ended it; nil where it was not watched.
    public var end: ProgramEnd?
    /// What was watched by the run that made the report; nil where there was none, or nothing is known.
    public var coverage: Coverage?

    /// Makes a document of its parts. Each parameter is the property of its name.
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

    /// Paths of the programs that there are findings or samples of, each once, in the order in which they come.
    public var programs: [String] {
        var seen: Set<String> = []
        return (findings.compactMap(\.program) + timeline.compactMap(\.program)).filter { seen.insert($0).inserted }
    }

    /// How many findings there were, equal ones included.
    public var occurrences: Int { findings.reduce(0) { $0.addingSaturated($1.count) } }

    /// The command line as a shell would take it.
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
