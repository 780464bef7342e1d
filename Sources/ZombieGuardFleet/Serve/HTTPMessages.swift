// Parses HTTP/1.1 requests and encodes responses: GET only, one response per connection. No state, no locks.

import ZombieGuard

/// A parsed request.
public struct HTTPRequest: Hashable, Sendable {
    /// Percent-decoded path without the query: "/group/0123456789abcdef".
    public var path: String
    /// Decoded parameters of the query. If a name is repeated, the last value counts.
    public var query: [String: String]

    /// Parses the head of a request. For a malformed or unsupported head, returns nil and the status of the response.
    static func parse(_ head: [UInt8], port: UInt16) -> (request: HTTPRequest?, status: Int) {
        guard let text = String(validating: head, as: UTF8.self) else { return (nil, 400) }
        let lines = text.split(separator: "\r\n", omittingEmptySubsequences: false)
        let words = lines[0].split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0", words[1].hasPrefix("/"),
            lines[0].utf8.allSatisfy({ (0x20...0x7e).contains($0) })
        else { return (nil, 400) }
        guard words[0] == "GET" else { return (nil, 405) }
        var host: Substring?
        for line in lines.dropFirst() where !line.isEmpty {
            guard let colon = line.firstIndex(of: ":") else { return (nil, 400) }
            if line[..<colon].lowercased() == "host" {
                if host != nil { return (nil, 400) }
                host = line[line.index(after: colon)...].trimmingPrefix { $0 == " " }
            }
        }
        // Only local host names. A site whose name resolves to 127.0.0.1 (DNS rebinding) must not read findings.
        guard let host, ["127.0.0.1:\(port)", "localhost:\(port)", "[::1]:\(port)"].contains(String(host)) else {
            return (nil, 421)
        }
        let parts = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = decoded(parts[0]) else { return (nil, 400) }
        var query: [String: String] = [:]
        for pair in (parts.count > 1 ? parts[1] : "").split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decoded(sides[0]), let value = decoded(sides.count > 1 ? sides[1] : "") else {
                return (nil, 400)
            }
            query[name] = value
        }
        return (HTTPRequest(path: path, query: query), 200)
    }

    /// The owner of the findings that the query names; nil: the default one.
    static func tenant(in query: [String: String]) -> String? { query["tenant"].flatMap { $0.isEmpty ? nil : $0 } }

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
    /// Text of the body.
    public var body: String

    /// Makes a response. Each parameter sets the property of the same name.
    public init(
        status: Int = 200, type: String = "text/html; charset=utf-8", policy: String = HTTPResponse.strict, body: String
    ) {
        self.status = status
        self.type = type
        self.policy = policy
        self.body = body
    }

    /// Allows style sheets and scripts as files from this server only; nothing from other hosts and nothing inline.
    public static let strict =
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

    private static let words = [
        200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout",
        421: "Misdirected Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable",
    ]

    var bytes: [UInt8] {
        let content = Array(body.utf8)
        let head = """
            HTTP/1.1 \(status) \(Self.words[status] ?? "Error")\r
            Content-Type: \(type)\r
            Content-Length: \(content.count)\r
            Content-Security-Policy: \(policy)\r
            X-Content-Type-Options: nosniff\r
            Referrer-Policy: no-referrer\r
            Cross-Origin-Resource-Policy: same-origin\r
            Cache-Control: no-store\r
            Connection: close\r
            \r

            """
        return Array(head.utf8) + content
    }
}
