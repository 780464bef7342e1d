// Composes and checks the value of ZGUARD_OPTIONS for a guarded program.

import ZombieGuard

/// The value of ZGUARD_OPTIONS for a guarded program.
struct RuntimeOptions {
    static let variable = "ZGUARD_OPTIONS"

    private let inherited: String
    private let given: String

    /// Joins the environment's value, the profile and the `-o` values; later values override earlier ones. An unknown
    /// key is an error on the command line. In the environment, which may be meant for another version, it is ignored
    /// with a warning.
    init(inherited: String?, profile: String?, given: [String]) throws(Failure) {
        for entry in given.flatMap({ $0.split(separator: ":") })
        where entry.prefix(while: { $0 != "=" }) == "report_path" {
            throw .usage(
                "option 'report_path' cannot be given to 'zguard run', which reads the raw findings itself",
                hint: "zguard run --report PATH")
        }
        let given = ((profile.map { ["profile=\($0)"] } ?? []) + given).joined(separator: ":")
        try Self.check(given) { name, nearest throws(Failure) in
            throw .usage(
                "unknown option '\(visible(name))'",
                hint: nearest.map { "did you mean '\($0)'?" } ?? "'zguard options' lists them")
        }
        var warned: Set<String> = []
        try Self.check(inherited ?? "") { name, nearest in
            guard warned.insert(name).inserted else { return }
            Output.warn(
                "unknown option '\(visible(name))' in \(Self.variable) is ignored",
                hint: nearest.map { "did you mean '\($0)'?" })
        }
        self.inherited = OptionTable.withoutUnknown(inherited ?? "")
        self.given = given
    }

    /// Whether the user set the option collect, rather than a profile.
    var userSetCollect: Bool {
        "\(inherited):\(given)".split(separator: ":").contains { $0.hasPrefix("collect=") }
    }

    /// Default of zguard run: no backtrace of the Swift runtime, because zguard prints the same crash with symbol
    /// names.
    private static let ours = "swift_backtrace=skip"

    /// The variable's value with the paths of the raw findings file and of the file of focused stacks, if any. If
    /// findings may be suppressed, Swift's backtrace stays on, so that a suppressed crash is not silent.
    func text(reportPath: String, focusPath: String? = nil, maySuppress: Bool = false) -> String {
        let focus = focusPath.map { "focus=\($0)" } ?? ""
        let parts = [maySuppress ? "" : Self.ours, inherited, "report_path=\(reportPath)", given, focus]
        return parts.filter { !$0.isEmpty }.joined(separator: ":")
    }

    /// The variable's value for a program that prints its findings itself.
    var textWithoutReportPath: String { [inherited, given].filter { !$0.isEmpty }.joined(separator: ":") }

    /// Throws for an invalid value. Calls `unknown` for each unknown key, with the most similar known key.
    private static func check(_ text: String, unknown: (String, String?) throws(Failure) -> Void) throws(Failure) {
        for problem in OptionTable.parse(text).problems {
            switch problem {
            case .unknown(let name, let nearest): try unknown(name, nearest)
            case .badValue(let name, let value, let expected): throw badValue(name, value, expected)
            }
        }
    }

    static func badValue(_ name: String, _ value: String, _ expected: String) -> Failure {
        .usage("option '\(name)' has the bad value '\(visible(value))': expected \(expected)")
    }
}
