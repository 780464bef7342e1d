// Addresses of fleet stores and receivers, as given to `--to` and `zguard report`.

import ZombieGuard

/// A place that findings are stored in or sent to.
public enum FleetAddress: Hashable, Sendable {
    /// A directory of reports.
    case directory(String)
    /// A SQLite file.
    case sqlite(String)
    /// A PostgreSQL server, as a libpq URI.
    case postgres(String)
    /// An HTTP receiver of JSON lines.
    case web(String)
    /// A receiver of OpenTelemetry log records: the base URL, to which "/v1/logs" is appended.
    case openTelemetry(String)

    /// Parses "sqlite:FILE", "postgresql://…", "https://…", "otlp+https://…", "http://127.0.0.1:…". Any other text
    /// without "://" is the path of a directory.
    ///
    /// - Parameter text: an address.
    /// - Throws: ``ValueError`` for other schemes, and for unencrypted http to another machine.
    public init(_ text: String) throws(ValueError) {
        let expected = ValueError(
            expected: "a directory, sqlite:FILE, postgresql://…, https://…, otlp+https://…, or http://… on this machine"
        )
        if text.hasPrefix("sqlite:") {
            let path = String(text.dropFirst("sqlite:".count))
            if path.isEmpty { throw expected }
            self = .sqlite(path)
        } else if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
            self = .postgres(text)
        } else if Self.isWeb(text) {
            self = .web(text)
        } else if text.hasPrefix("otlp+"), Self.isWeb(String(text.dropFirst(5))) {
            var base = String(text.dropFirst(5))
            while base.hasSuffix("/") { base.removeLast() }
            self = .openTelemetry(base)
        } else if text.contains("://") || text.isEmpty {
            throw expected
        } else {
            self = .directory(text)
        }
    }

    private static func isWeb(_ text: String) -> Bool {
        if text.hasPrefix("https://") { return true }
        guard text.hasPrefix("http://") else { return false }
        let host = text.dropFirst("http://".count).prefix { $0 != "/" && $0 != "?" }
        return ["127.0.0.1", "localhost", "[::1]"].contains { host == $0 || host.hasPrefix($0 + ":") }
    }

    /// The address for files and messages, without its user, password and query.
    public var name: String {
        switch self {
        case .directory(let path): path
        case .sqlite(let path): "sqlite:" + path
        case .postgres(let address), .web(let address): Self.withoutPassword(address)
        case .openTelemetry(let address): "otlp+" + Self.withoutPassword(address)
        }
    }

    private static func withoutPassword(_ address: String) -> String {
        guard let scheme = address.firstRange(of: "://") else { return address }
        let rest = address[scheme.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        var path = String(rest.dropFirst(authority.count))
        if let query = path.firstIndex(of: "?") { path = String(path[..<query]) }
        let host = authority.split(separator: "@", omittingEmptySubsequences: false).last.map(String.init) ?? ""
        return address[..<scheme.upperBound] + host + path
    }

    /// Whether it is an HTTP receiver of JSON lines.
    public var isWeb: Bool {
        switch self {
        case .web: true
        case .directory, .sqlite, .postgres, .openTelemetry: false
        }
    }

    /// Whether the address is that of a database, which can also be queried.
    public var isDatabase: Bool {
        switch self {
        case .sqlite, .postgres: true
        case .directory, .web, .openTelemetry: false
        }
    }

    /// - Parameters:
    ///   - sender: identity of this machine.
    ///   - tokenFile: path of the file with the token for an HTTP receiver; nil: none.
    func destination(_ sender: ShippedFinding.Sender, tokenFile: String? = nil) throws(FleetError) -> any Destination {
        switch self {
        case .directory(let path): DirectoryDestination(path)
        case .sqlite(let path): DatabaseDestination { () throws(FleetError) in try SQLiteFleet(path: path) }
        case .postgres(let address):
            DatabaseDestination { () throws(FleetError) in try PostgresFleet(address: address) }
        case .web(let address): WebDestination(address, tokenFile: tokenFile)
        case .openTelemetry(let address): OpenTelemetryDestination(address)
        }
    }
}
