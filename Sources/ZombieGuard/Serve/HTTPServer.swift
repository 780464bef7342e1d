// A server of HTTP/1.1 for this machine alone: GET, small requests, one answer a connection.

import Glibc

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
                guard digits.count == 2, let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16) else {
                    return nil
                }
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

/// Listens on 127.0.0.1.
public final class HTTPServer: Sendable {
    private let listener: Descriptor
    /// The port that it listens on.
    public let port: UInt16

    private static let longestHead = 16 << 10
    private static let longestSeconds = 10.0
    private static let waiting: Int32 = 256

    /// Begins to listen.
    ///
    /// - Parameter port: 0: one that is free.
    /// - Throws: ``SystemError`` where the port cannot be had.
    public init(port: UInt16) throws(SystemError) {
        let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if number < 0 { throw .last }
        listener = Descriptor(adopting: number)
        var yes: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        // Who connects and says nothing, as browsers do ahead of time, keeps no thread waiting.
        var seconds = Int32(Self.longestSeconds)
        setsockopt(number, Int32(IPPROTO_TCP), TCP_DEFER_ACCEPT, &seconds, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(number, $0, length) }
        }
        if bound != 0 || listen(number, Self.waiting) != 0 { throw .last }
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
        }
        self.port = UInt16(bigEndian: address.sin_port)
    }

    /// Answers one connection after the other, for ever. Several threads may do so.
    ///
    /// - Parameter answer: makes the answer.
    public func serve(_ answer: (HTTPRequest) -> HTTPResponse) {
        while true {
            let number = accept(listener.number, nil, nil)
            if number < 0 {
                // Too many files are open, say: not to be asked again at once.
                if errno != EINTR, errno != ECONNABORTED { usleep(100_000) }
                continue
            }
            handle(Descriptor(adopting: number), answer)
        }
    }

    private func handle(_ connection: Descriptor, _ answer: (HTTPRequest) -> HTTPResponse) {
        var second = timeval(tv_sec: 1, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(connection.number, SOL_SOCKET, option, &second, socklen_t(MemoryLayout<timeval>.size))
        }
        let began = MonotonicTime.seconds
        var head: [UInt8] = []
        let end = Array("\r\n\r\n".utf8)
        var response: HTTPResponse?
        while response == nil {
            if let found = Self.firstIndex(of: end, in: head) {
                let (request, status) = HTTPRequest.parse(Array(head[..<found]), port: port)
                response = request.map(answer) ?? .init(status: status, type: "text/plain", body: "\(status)\n")
            } else if head.count > Self.longestHead {
                response = .init(status: 431, type: "text/plain", body: "431\n")
            } else if MonotonicTime.seconds - began > Self.longestSeconds {
                response = .init(status: 408, type: "text/plain", body: "408\n")
            } else {
                var part = [UInt8](repeating: 0, count: 4096)
                let count = recv(connection.number, &part, part.count, 0)
                if count == 0 { return }
                if count < 0, ![EAGAIN, EINTR].contains(errno) { return }
                if count > 0 { head += part[..<count] }
            }
        }
        send(response?.bytes ?? [], to: connection, until: MonotonicTime.seconds + Self.longestSeconds)
        // What was sent arrives before the connection is reset for what nobody has read.
        shutdown(connection.number, Int32(SHUT_WR))
    }

    private func send(_ bytes: [UInt8], to connection: Descriptor, until end: Double) {
        var rest = bytes[...]
        while !rest.isEmpty, MonotonicTime.seconds < end {
            let count = rest.withUnsafeBytes {
                Glibc.send(connection.number, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 { rest = rest.dropFirst(count) } else if ![EAGAIN, EINTR].contains(errno) { return }
        }
    }

    private static func firstIndex(of end: [UInt8], in bytes: [UInt8]) -> Int? {
        guard bytes.count >= end.count else { return nil }
        return (0...(bytes.count - end.count)).first { bytes[$0..<($0 + end.count)].elementsEqual(end) }
    }
}
