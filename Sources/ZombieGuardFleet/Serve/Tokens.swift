// The file of tokens of `zguard serve`: who may do what with whose findings.

import Glibc
import Synchronization
import ZombieGuard

/// What a token allows.
public enum Role: String, CaseIterable, Sendable {
    /// See pages, JSON and metrics.
    case read
    /// Decide about groups of findings.
    case triage
    /// Store findings.
    case ship
}

/// The tenants that a token is for.
public enum Tenants: Hashable, Sendable {
    case all
    /// Only these tenants. Requests that name no tenant are for the first one.
    case only([String])
}

/// The owner of a token.
public struct User: Hashable, Sendable {
    public var name: String
    public var roles: Set<Role>
    public var tenants: Tenants

    /// Creates an owner. Each parameter sets the property of the same name.
    public init(name: String, roles: Set<Role>, tenants: Tenants) {
        (self.name, self.roles, self.tenants) = (name, roles, tenants)
    }

    /// The tenant that a request is about.
    ///
    /// - Parameter asked: the tenant that the request names; nil: none.
    /// - Returns: the tenant, as the file of tokens spells it; nil if the token is not for this tenant.
    func tenant(asked: String?) -> String? {
        switch tenants {
        case .all: return asked ?? ShippedFinding.Sender.standardTenant
        case .only(let tenants):
            guard let asked else { return tenants.first }
            // Compare bytes: databases distinguish texts that Unicode regards as equal.
            return tenants.first { $0.utf8.elementsEqual(asked.utf8) }
        }
    }
}

/// A token of the file, by its hash.
public struct Token: Hashable, Sendable {
    public var user: User
    /// SHA-256 of the token, 64 hexadecimal digits.
    var hash: String

    private static let mark = "sha256:"
    private static let every = "*"
    private static let longestName = 100

    /// Makes a token.
    ///
    /// - Parameter user: its owner.
    /// - Returns: the line of the file, and the text of the token, which is in no file.
    public static func make(for user: User) -> (token: Token, text: String) {
        let text = "zgt_" + Secret.random()
        return (Token(user: user, hash: Secret.hash(text)), text)
    }

    /// Reads names of roles, separated by commas; nil if one is unknown.
    public static func roles(_ text: String) -> Set<Role>? {
        let roles = text.split(separator: ",", omittingEmptySubsequences: false).map { Role(rawValue: String($0)) }
        return roles.contains(nil) ? nil : Set(roles.compactMap(\.self))
    }

    /// Reads names of tenants, separated by commas, or "*" for all; nil if one is empty or has characters that a line
    /// of the file cannot have.
    public static func tenants(_ text: String) -> Tenants? {
        if text == every { return .all }
        let tenants = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        return tenants.allSatisfy { isWord($0) && $0 != every } ? .only(tenants) : nil
    }

    /// Whether a text can be a name in a line of the file.
    public static func isWord(_ text: String) -> Bool {
        !text.isEmpty && text.unicodeScalars.count <= longestName && !text.hasPrefix("#") && visible(text) == text
            && text.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "," }
    }

    /// Reads a line of the file.
    init?(line: Substring) {
        let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" }).map(String.init)
        guard words.count == 4, Self.isWord(words[0]), let roles = Self.roles(words[1]),
            let tenants = Self.tenants(words[2]),
            words[3].hasPrefix(Self.mark)
        else { return nil }
        hash = String(words[3].dropFirst(Self.mark.count))
        guard ShippedFinding.isDigits(hash, count: 64) else { return nil }
        user = User(name: words[0], roles: roles, tenants: tenants)
    }

    init(user: User, hash: String) { (self.user, self.hash) = (user, hash) }

    /// The line of the file.
    public var line: String {
        let roles = Role.allCases.filter(user.roles.contains).map(\.rawValue).joined(separator: ",")
        let tenants =
            switch user.tenants {
            case .all: Self.every
            case .only(let tenants): tenants.joined(separator: ",")
            }
        return "\(user.name) \(roles) \(tenants) \(Self.mark)\(hash)"
    }
}

/// The file of tokens. It is read again when it has changed.
public final class TokenFile: Sendable {
    private struct State {
        var version: [Int] = []
        var tokens: Result<[Token], FleetError> = .success([])
    }

    private let path: String
    private let warn: @Sendable (String) -> Void
    private let state = Mutex(State())

    private static let mostBytes = 1 << 20

    /// Creates an object for a file of tokens, and reads the file.
    ///
    /// - Parameters:
    ///   - path: path of the file.
    ///   - warn: called when the file cannot be read any more; the text is safe to print.
    /// - Throws: ``FleetError`` if it cannot be read, others may read or change it, or a line is wrong.
    public init(_ path: String, warn: @escaping @Sendable (String) -> Void) throws(FleetError) {
        self.path = path
        self.warn = warn
        _ = try tokens()
    }

    /// The tokens that are valid now.
    ///
    /// - Returns: the tokens.
    /// - Throws: ``FleetError`` if the file cannot be read: then no token is valid.
    func tokens() throws(FleetError) -> [Token] {
        let (result, problem) = state.withLock { state -> (Result<[Token], FleetError>, FleetError?) in
            let version = Self.version(path)
            if version == state.version, !version.isEmpty { return (state.tokens, nil) }
            let before = state.tokens
            do throws(FleetError) {
                let opened = try PrivateFile.open(path)
                // Take the version before reading, so that a write during the reading is noticed at the next call.
                state.version = opened.status.flatMap(Self.settledVersion) ?? []
                state.tokens = .success(try Self.read(opened, path))
            } catch {
                // Retry at each call: a shortage of resources may have caused the error, and may end without a change
                // of the file.
                state.version = []
                state.tokens = .failure(error)
                if case .failure(let known) = before, known == error { return (state.tokens, nil) }
                return (state.tokens, error)
            }
            return (state.tokens, nil)
        }
        if let problem { warn("\(problem); no token is valid until then") }
        return try result.get()
    }

    /// Adds a token to a file, which is made if it is missing.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - path: path of the file.
    /// - Throws: ``FleetError`` if the file has a token of this name, or cannot be used or written.
    public static func add(_ token: Token, to path: String) throws(FleetError) {
        let file = try PrivateFile.open(path, flags: O_RDWR | O_CREAT | O_APPEND)
        while flock(file.number, LOCK_EX) != 0 {
            if errno != EINTR { throw FleetError("cannot lock '\(visible(path))': \(SystemError.last)") }
        }
        if try read(file, path).contains(where: { $0.user.name == token.user.name }) {
            throw FleetError(
                "'\(visible(path))' has a token with the name '\(visible(token.user.name))'",
                hint: "remove its line to revoke it")
        }
        do throws(SystemError) {
            let size = file.status?.st_size ?? 0
            let last = size > 0 ? try file.read(at: UInt64(size - 1), upTo: 1) : []
            let isCut = last.first.map { $0 != UInt8(ascii: "\n") } ?? false
            try file.write((isCut ? "\n" : "") + token.line + "\n")
            if fsync(file.number) != 0 { throw .last }
        } catch {
            throw FleetError("cannot write '\(visible(path))': \(error)")
        }
    }

    // Empty if there is no such file.
    private static func version(_ path: String) -> [Int] {
        var status = stat()
        return stat(path, &status) == 0 ? version(status) : []
    }

    // nil if the file was changed so lately that another change might get the same time.
    private static func settledVersion(_ status: stat) -> [Int]? {
        Timestamp.now.milliseconds - Timestamp(status.st_ctim).milliseconds > 100 ? version(status) : nil
    }

    private static func version(_ status: stat) -> [Int] {
        [
            Int(status.st_dev), Int(status.st_ino), Int(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
            status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
        ]
    }

    private static func read(_ file: Descriptor, _ path: String) throws(FleetError) -> [Token] {
        let bytes: [UInt8]
        do throws(SystemError) { bytes = try file.read(at: 0, upTo: mostBytes + 1) } catch {
            throw FleetError("cannot read tokens '\(visible(path))': \(error)")
        }
        if bytes.count > mostBytes { throw FleetError("tokens '\(visible(path))' are more than \(mostBytes) bytes") }
        var tokens: [Token] = []
        for (index, line) in String(decoding: bytes, as: UTF8.self).split(
            omittingEmptySubsequences: false, whereSeparator: \.isNewline
        ).enumerated() where !line.allSatisfy(\.isWhitespace) && !line.hasPrefix("#") {
            guard let token = Token(line: line) else {
                throw FleetError("\(visible(path)):\(index + 1): expected NAME ROLES TENANTS sha256:HASH")
            }
            tokens.append(token)
        }
        return tokens
    }
}

/// Random texts that prove who sends them.
enum Secret {
    private static let bytes = 32

    /// 256 random bits from the kernel, as hexadecimal digits.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<bytes / 8).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }

    /// SHA-256. A slow hash is not needed: it protects guessable secrets, but these have 256 random bits.
    static func hash(_ text: String) -> String {
        var digest = Digest()
        digest.add(Array(text.utf8))
        return digest.digits()
    }

    /// Whether two hashes of equal length are equal. Looks at every byte, so that the time says nothing about where
    /// they differ.
    static func isEqual<Bytes: RandomAccessCollection<UInt8>>(_ one: Bytes, _ other: Bytes) -> Bool {
        guard one.count == other.count else { return false }
        var difference: UInt8 = 0
        for (left, right) in zip(one, other) { difference |= left ^ right }
        return difference == 0
    }

    /// The token with this text; nil if there is none. Compares the hash with those of all tokens.
    static func token(_ text: String, among tokens: [Token]) -> Token? {
        let wanted = Array(hash(text).utf8)
        var found: Token?
        for token in tokens where isEqual(wanted, Array(token.hash.utf8)) { found = token }
        return found
    }
}
