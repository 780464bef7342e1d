// The value of ZGUARD_OPTIONS for a guarded program: put together and checked before anything is started.

import ZombieGuard

/// What a guarded program finds in ZGUARD_OPTIONS.
struct RuntimeOptions {
    static let variable = "ZGUARD_OPTIONS"

    private let inherited: String
    private let given: String

    /// The environment's value, the profile, then `-o` values, each of which overrides what stands before it. Warns of
    /// unknown keys and leaves them out.
    init(inherited: String?, profile: String?, given: [String]) throws(Failure) {
        for entry in given.flatMap({ $0.split(separator: ":") })
        where entry.prefix(while: { $0 != "=" }) == "report_path" {
            throw .usage(
                "option 'report_path' cannot be given to 'zguard run', which reads the raw findings itself",
                hint: "zguard run --report PATH")
        }
        let given = ((profile.map { ["profile=\($0)"] } ?? []) + given).joined(separator: ":")
        try Self.check((inherited ?? "") + ":" + given)
        self.inherited = OptionTable.withoutUnknown(inherited ?? "")
        self.given = OptionTable.withoutUnknown(given)
    }

    /// The variable's value, with the file that raw findings go to.
    func text(reportPath: String) -> String {
        [inherited, "report_path=\(reportPath)", given].filter { !$0.isEmpty }.joined(separator: ":")
    }

    /// Throws for a bad value; warns of unknown keys, once for each.
    static func check(_ text: String) throws(Failure) {
        var warned: Set<String> = []
        for problem in OptionTable.parse(text).problems {
            switch problem {
            case .unknown(let name, let nearest):
                guard warned.insert(name).inserted else { continue }
                Output.warn(
                    "unknown option '\(visible(name))' is ignored", hint: nearest.map { "did you mean '\($0)'?" })
            case .badValue(let name, let value, let expected): throw badValue(name, value, expected)
            }
        }
    }

    static func badValue(_ name: String, _ value: String, _ expected: String) -> Failure {
        .usage("option '\(name)' has the bad value '\(visible(value))': expected \(expected)")
    }
}
