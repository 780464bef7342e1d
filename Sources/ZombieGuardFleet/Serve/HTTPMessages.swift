// Requests and responses of the web server. No state, no locks.

import ZombieGuard

/// The request line and the headers of a request, as received.
struct HTTPHead {
    var method: String
    /// Path and query, percent-encoded.
    var target: String
    var headers: [(name: String, value: String)]

    /// The values of a header.
    func values(_ name: String) -> [String] {
        headers.filter { $0.name.lowercased() == name }.map(\.value)
    }

    /// The value of a header; nil if there is none.
    func value(_ name: String) -> String? { values(name).first }
}

/// A parsed request.
public struct HTTPRequest: Hashable, Sendable {
    /// Percent-decoded path without the query: "/group/0123456789abcdef".
    public var path: String
    /// Decoded parameters of the query. If a name is repeated, the last value counts.
    public var query: [String: String]
    /// Who asks; nil if the server has no tokens.
    public var user: User?
    /// Content-Type of the body, in lower case and without parameters; "" if there is none.
    public var type = ""
    /// The body of a POST.
    public var body: HTTPBody?

    /// Parses path and query; nil if they are malformed.
    init?(target: String) {
        guard target.hasPrefix("/"), target.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = Self.decoded(parts[0]), let query = Self.fields(parts.count > 1 ? parts[1] : "") else {
            return nil
        }
        (self.path, self.query) = (path, query)
    }

    /// The tenant that the query names; nil: the default one. In each request with a token, ``AccessControl`` sets it.
    static func tenant(in query: [String: String]) -> String? { query["tenant"].flatMap { $0.isEmpty ? nil : $0 } }

    /// Decodes the fields of a form or of a query; nil if they are malformed.
    static func fields(_ text: Substring) -> [String: String]? {
        var fields: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decoded(sides[0]), let value = decoded(sides.count > 1 ? sides[1] : "") else { return nil }
            fields[name] = value
        }
        return fields
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                let digits = rest.prefix(2)
                guard digits.count == 2, let value = UInt8(digits: String(decoding: digits, as: UTF8.self), radix: 16)
                else { return nil }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// A response.
public struct HTTPResponse: Hashable, Sendable {
    /// HTTP status code.
    public var status: Int
    /// Value of Content-Type.
    public var type: String
    /// Value of Content-Security-Policy.
    public var policy: String
    /// The body.
    public var body: String
    /// Further headers.
    public var more: [Header] = []

    /// A header.
    public struct Header: Hashable, Sendable {
        public var name: String
        public var value: String

        init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    /// Creates a response.
    ///
    /// - Parameters:
    ///   - status: HTTP status code.
    ///   - type: value of Content-Type.
    ///   - policy: value of Content-Security-Policy.
    ///   - body: the body.
    public init(
        status: Int = 200, type: String = "text/html; charset=utf-8", policy: String = HTTPResponse.strict, body: String
    ) {
        self.status = status
        self.type = type
        self.policy = policy
        self.body = body
    }

    /// An error as JSON.
    static func problem(_ status: Int, _ text: String) -> HTTPResponse {
        json(status: status, [("error", .string(text))])
    }

    /// An object as JSON.
    static func json(status: Int = 200, _ fields: [(key: String, value: JSONText?)]) -> HTTPResponse {
        HTTPResponse(status: status, type: "application/json", body: JSONText.object(fields).line + "\n")
    }

    /// Allows style sheets and scripts as files from this server only; nothing from other hosts and nothing inline.
    public static let strict =
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

    func adding(_ name: String, _ value: String) -> HTTPResponse {
        var response = self
        response.more.append(Header(name, value))
        return response
    }

    /// All headers but those that the server makes itself. With the policy `no-referrer`, browsers would send the forms
    /// of these pages with `Origin: null`, as if they came from elsewhere.
    var headers: [(String, String)] {
        [
            ("Content-Type", type), ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"), ("Connection", "close"),
        ] + more.map { ($0.name, $0.value) }
    }
}
