// A request of HTTP/1.1, parsed, and a response, as bytes: GET, one response a connection. No state, no locks.

/// What is asked for.
public struct HTTPRequest: Hashable, Sendable {
    /// Decoded, without the query: "/group/0123456789abcdef".
    public var path: String
    /// What stands behind the question mark, decoded; the last value of a name.
    public var query: [String: String]

    /// Parses the head of a request; nil where it is none that is answered, and with which status.
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
        // A page of elsewhere whose name leads to this machine is not to read what is here.
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

/// What is answered.
public struct HTTPResponse: Hashable, Sendable {
    /// As in HTTP.
    public var status: Int
    /// The body's, as in Content-Type.
    public var type: String
    /// What the page may load and run.
    public var policy: String
    /// What is sent.
    public var body: String

    /// Makes an answer of its parts. Each parameter is the property of its name.
    public init(
        status: Int = 200, type: String = "text/html; charset=utf-8", policy: String = HTTPResponse.strict, body: String
    ) {
        self.status = status
        self.type = type
        self.policy = policy
        self.body = body
    }

    /// Style and script of the server's own, as files; nothing of anywhere else, and nothing that stands in a page.
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
