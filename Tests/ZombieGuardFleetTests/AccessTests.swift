// Tests tokens, sessions, and which requests are admitted: Serve/Tokens.swift, Sessions.swift, AccessControl.swift.

import Glibc
import Testing
import ZombieGuard

@testable import ZombieGuardFleet

@Suite struct AccessTests {
    /// Bytes that count how often they are read.
    private struct CountedBytes: RandomAccessCollection {
        final class Count { var reads = 0 }

        let bytes: [UInt8]
        let counter = Count()
        var startIndex: Int { 0 }
        var endIndex: Int { bytes.count }

        subscript(index: Int) -> UInt8 {
            counter.reads += 1
            return bytes[index]
        }
    }

    @Test func comparisonLooksAtEveryByte() {
        let hash = Array(Secret.hash("a token").utf8)
        // The comparison reads all bytes, wherever the difference is. `place` nil: the bytes are equal.
        for place in [nil] + (0..<hash.count).map(Optional.some) {
            var other = hash
            if let place { other[place] ^= 1 }
            let (one, two) = (CountedBytes(bytes: hash), CountedBytes(bytes: other))
            #expect(Secret.isEqual(one, two) == (place == nil))
            #expect(one.counter.reads == hash.count)
            #expect(two.counter.reads == hash.count)
        }
        #expect(!Secret.isEqual(hash, Array(hash.dropLast())))
    }

    @Test func tokensAreRandomAndFound() {
        let made = (0..<20).map { Token.make(for: User(name: "user\($0)", roles: [.read], tenants: .all)) }
        #expect(Set(made.map(\.text)).count == 20)
        for (token, text) in made {
            #expect(Secret.token(text, among: made.map(\.token)) == token)
            #expect(Token(line: token.line[...]) == token)
            #expect(!token.line.contains(text))
        }
        #expect(Secret.token("zgt_", among: made.map(\.token)) == nil)
        #expect(Secret.token("", among: made.map(\.token)) == nil)
    }

    @Test func wrongLinesAreRefused() {
        let hash = "sha256:" + String(repeating: "a", count: 64)
        for line in [
            "", "anna", "anna read default", "anna read default \(hash) more", "anna write default \(hash)",
            "anna read, default \(hash)", "anna read a,,b \(hash)", "anna read a,* \(hash)",
            "anna read default sha256:abc", "anna read default \(hash.uppercased())", "anna,b read default \(hash)",
            "an\u{1b}na read default \(hash)",
        ] { #expect(Token(line: line[...]) == nil, "\(line)") }
        let token = Token(line: "anna read,ship a,b \(hash)")
        #expect(token?.user == User(name: "anna", roles: [.read, .ship], tenants: .only(["a", "b"])))
        #expect(Token(line: "anna\tread   *\t\(hash)")?.user.tenants == .all)
    }

    @Test func tenantsAreThoseOfTheToken() {
        let bound = User(name: "a", roles: [.read], tenants: .only(["shop", "caf\u{e9}"]))
        #expect(bound.tenant(asked: nil) == "shop")
        #expect(bound.tenant(asked: "shop") == "shop")
        #expect(bound.tenant(asked: "default") == nil)
        // This name is canonically equal to an allowed one, but in a database it is another tenant.
        #expect(bound.tenant(asked: "cafe\u{301}") == nil)
        let all = User(name: "a", roles: [.read], tenants: .all)
        #expect(all.tenant(asked: nil) == "default")
        #expect(all.tenant(asked: "x") == "x")
    }

    @Test func sessionsEnd() {
        let sessions = Sessions()
        let token = Token.make(for: User(name: "a", roles: [.read], tenants: .all)).token
        let id = sessions.open(for: token, now: 1000)
        let end = 1000 + Sessions.seconds * 1000
        #expect(sessions.token(of: id, now: end - 1) == token.hash)
        #expect(sessions.token(of: token.hash, now: 1000) == nil)
        #expect(sessions.token(of: id, now: end) == nil)
        // The expired session stays closed, even if the clock goes back.
        #expect(sessions.token(of: id, now: 1000) == nil)
        let other = sessions.open(for: token, now: 1000)
        sessions.close(other)
        #expect(sessions.token(of: other, now: 1000) == nil)
    }

    /// The number of sessions is bounded. A token with many sessions loses its own before other tokens lose theirs.
    @Test func sessionsAreBounded() {
        let sessions = Sessions(most: 100)
        let tokens = (0..<12).map { Token.make(for: User(name: "\($0)", roles: [.read], tenants: .all)).token }
        let first = sessions.open(for: tokens[0], now: 1000)
        let ids = (0..<500).map { sessions.open(for: tokens[1], now: 1001 + UInt64($0)) }
        #expect(sessions.token(of: first, now: 30_000) == tokens[0].hash)
        #expect(ids.count { sessions.token(of: $0, now: 30_000) != nil } == 20)
        #expect(sessions.token(of: ids.last!, now: 30_000) != nil)
        let more = (0..<300).map { sessions.open(for: tokens[$0 % 12], now: 2000 + UInt64($0)) }
        let valid = more.count { sessions.token(of: $0, now: 30_000) != nil }
        #expect(valid <= 100 && valid > 80)
    }

    @Test func fileIsReadAgainAndMustBePrivate() throws {
        let path = "/tmp/zguard-tokens-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        defer { unlink(path) }
        let (token, text) = Token.make(for: User(name: "anna", roles: [.read], tenants: .all))
        try TokenFile.add(token, to: path)
        let file = try TokenFile(path, warn: { _ in })
        #expect(Secret.token(text, among: try file.tokens()) == token)
        #expect(throws: FleetError.self) { try TokenFile.add(token, to: path) }
        // Revoked.
        let fd = open(path, O_WRONLY | O_TRUNC)
        close(fd)
        #expect(try file.tokens().isEmpty)
        try TokenFile.add(token, to: path)
        #expect(try file.tokens() == [token])
        for mode: mode_t in [0o644, 0o620, 0o602, 0o601] {
            chmod(path, mode)
            #expect(throws: FleetError.self, "\(mode)") { try file.tokens() }
            #expect(throws: FleetError.self) { try TokenFile(path, warn: { _ in }) }
        }
        chmod(path, 0o640)
        #expect(try file.tokens() == [token])
        unlink(path)
        #expect(throws: FleetError.self) { try file.tokens() }
    }

    @Test func loginLeadsToThisServerOnly() {
        for (text, target) in [
            ("/group/1?tenant=a", "/group/1?tenant=a"), ("//evil", "/"), ("https://evil", "/"), ("/\\evil", "/"),
            ("/a\r\nSet-Cookie: x", "/"), ("/logout", "/"), ("", "/"),
        ] { #expect(LoginPage.target(text) == target) }
    }

    @Test func addressesOfThisMachine() {
        for (text, isLoopback) in [
            ("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("0.0.0.0", false), ("::", false),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
        ] { #expect(ListenAddress(text)?.isLoopback == isLoopback) }
        for text in ["localhost", "", "1.2.3", "[::1]", "127.0.0.1:80"] { #expect(ListenAddress(text) == nil) }
    }

    /// Returns the status of the response if a request with this head is refused; nil if the request is admitted.
    private func refusal(_ access: AccessControl, _ method: String, _ target: String, _ headers: [(String, String)])
        -> Int?
    {
        let head = HTTPHead(method: method, target: target, headers: headers.map { (name: $0.0, value: $0.1) })
        guard case .refused(let response, _) = access.admit(head) else { return nil }
        return response.status
    }

    @Test func ambiguousHeadsAreRefused() {
        let access = AccessControl(nil, isEncrypted: false)
        access.port = 7070
        let host = ("Host", "127.0.0.1:7070")
        #expect(refusal(access, "GET", "/", [host]) == nil)
        #expect(refusal(access, "GET", "/?q=%41", [("HOST", "localhost:7070")]) == nil)
        for (target, headers, status) in [
            ("/", [host, host], 400), ("/", [host, ("Content-Length", "1"), ("content-length", "2")], 400),
            ("/", [host, ("Content-Length", "1"), ("Transfer-Encoding", "chunked")], 400),
            ("/", [host, ("Transfer-Encoding", "gzip")], 501),
            ("/", [host, ("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], 501),
            ("http://127.0.0.1:7070/", [host], 400), ("*", [host], 400), ("/%zz", [host], 400),
            ("/?a=%ff", [host], 400),
            ("/", [("Host", "evil.example:7070")], 421), ("/", [("Host", "127.0.0.1")], 421), ("/", [], 421),
        ] { #expect(refusal(access, "GET", target, headers) == status, "\(target) \(headers)") }
        for method in ["POST", "HEAD", "get", "PUT", ""] { #expect(refusal(access, method, "/", [host]) == 405) }
    }
}
