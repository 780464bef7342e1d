// The value of ZGUARD_OPTIONS for a guarded program: put together and checked before anything is started.

import ZombieGuard

/// What a guarded program finds in ZGUARD_OPTIONS.
struct RuntimeOptions {
    static let variable = "ZGUARD_OPTIONS"

    private let inherited: String
    private let given: String

    /// The environment's value, the profile, then `-o` values, each of which overrides what stands before it. An unknown key is a
    /// mistake on the command line; in the environment, which may be meant for another version, it is warned of and left out.
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

    /// Somebody said what is to be collected: it is not a profile's choice.
    var namesCollected: Bool {
        "\(inherited):\(given)".split(separator: ":").contains { $0.hasPrefix("collect=") }
    }

    /// What whoever prints findings with names wants, unless somebody says otherwise: no second report of the same crash.
    private static let ours = "swift_backtrace=skip"

    /// The variable's value, with the file that raw findings go to. Where findings may be suppressed, somebody has to say what the process
    /// died of.
    func text(reportPath: String, maySuppress: Bool = false) -> String {
        [maySuppress ? "" : Self.ours, inherited, "report_path=\(reportPath)", given].filter { !$0.isEmpty }.joined(
            separator: ":")
    }

    /// The same for a program that reports what is found itself.
    var textOfAlone: String { [inherited, given].filter { !$0.isEmpty }.joined(separator: ":") }

    /// Throws for a bad value; calls `unknown` for each unknown key, with the nearest name that is known.
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
