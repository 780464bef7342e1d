// Parses the flags of the report store.

import Glibc
import ZombieGuard
import ZombieGuardFleet

extension Arguments {
    static let keepFlags = ["--keep-age", "--keep-count", "--keep-bytes"]

    /// Limits of the report store: those of `standard`, except the ones that flags set.
    func retention(standard: Retention = .standard) throws(Failure) -> Retention {
        var retention = standard
        if value("--keep-age") != nil { retention.age = try parsed("--keep-age", Retention.age) }
        if value("--keep-count") != nil { retention.count = try parsed("--keep-count", Retention.count) }
        if value("--keep-bytes") != nil { retention.bytes = try parsed("--keep-bytes", Retention.bytes) }
        return retention
    }

    /// The store of findings that the first operand names.
    ///
    /// - Parameters:
    ///   - use: verb for the error message, such as "serve".
    ///   - refusal: predicate of the error message for an address to which findings can only be sent.
    func store(to use: String, otherwise refusal: String) throws(Failure) -> FleetAddress {
        try Self.store(operands[0], to: use, otherwise: refusal)
    }

    /// The store of findings that `text` names. `use` and `refusal` are as for ``store(to:otherwise:)``.
    static func store(_ text: String, to use: String, otherwise refusal: String) throws(Failure) -> FleetAddress {
        let address: FleetAddress
        do throws(ValueError) { address = try FleetAddress(text) } catch {
            throw .usage("cannot \(use) '\(visible(text))': expected a directory, sqlite:FILE or postgresql://…")
        }
        switch address {
        case .directory, .sqlite, .postgres: return address
        case .web, .openTelemetry: throw .usage("'\(visible(text))' \(refusal)")
        }
    }

    /// Which of several equal findings are stored with their stacks (`--keep-share`); nil for all.
    func sampling() throws(Failure) -> Sampling? {
        func parse(_ text: String) throws(ValueError) -> Sampling? { try Sampling(text) }
        return try parsed("--keep-share", parse)
    }

    /// The time given with `--since`; nil if not given.
    func since() throws(Failure) -> Timestamp? {
        func parse(_ text: String) throws(ValueError) -> Timestamp? { try Timestamp(since: text) }
        return try parsed("--since", parse)
    }

    private func parsed<Value>(_ flag: String, _ parse: (String) throws(ValueError) -> Value?) throws(Failure) -> Value?
    {
        guard let text = value(flag) else { return nil }
        do throws(ValueError) {
            return try parse(text)
        } catch {
            throw .usage("option '\(flag)' has the bad value '\(visible(text))': expected \(error.expected)")
        }
    }
}

extension ReportStore {
    /// Whether a path given with `--report` names a store: an existing directory or a path with a trailing slash.
    static func isNamed(by path: String) -> Bool {
        var status = stat()
        return path.hasSuffix("/") || stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
