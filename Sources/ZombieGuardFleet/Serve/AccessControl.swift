// Decides about each request of `zguard serve` before its body is read: who asks, and whether the call is allowed.

import Synchronization
import ZombieGuard

/// Admits requests. Without tokens, everybody on this machine may read.
public final class AccessControl: @unchecked Sendable {
    /// An admitted request, which is answered once its body has arrived.
    struct Call {
        enum Kind {
            /// Only reads.
            case page
            /// Changes something; answered one at a time.
            case change
            /// Uploads a part of a file. Uploads are answered one at a time, but in parallel with other changes.
            case upload
            case login
        }

        var kind: Kind
        var request: HTTPRequest
        /// Limit of the body's size.
        var mostBytes = 0
        /// For a login: whether the browser uses TLS, and so gets a `Secure` cookie.
        var isEncrypted = false
    }

    enum Admission {
        case accepted(Call)
        /// `isSlow`: the credentials were wrong, so the response is delayed.
        case refused(HTTPResponse, isSlow: Bool)
    }

    private let tokens: TokenFile?
    private let isEncrypted: Bool
    private let sessions = Sessions()
    /// The port that the server listens on; set before it serves.
    var port: UInt16 = 0

    /// Name of the cookie. Browsers accept the prefix `__Host-` only over TLS and from this host itself, so that no
    /// sibling domain can set the cookie.
    private static func cookie(_ isSecure: Bool) -> String { (isSecure ? "__Host-" : "") + "zguard_session" }

    private func isSecure(_ head: HTTPHead) -> Bool {
        isEncrypted || head.value("x-forwarded-proto") == "https"
    }

    private static let mostFormBytes = 64 << 10, mostLoginBytes = 4 << 10
    private static let mostReportBytes = 16 << 20
    /// If a request is refused, a body of up to this size is read before the response is sent.
    static let mostIgnored = 64 << 10

    static let tooLarge = HTTPResponse.problem(413, "the body is too large")
    static let busy = HTTPResponse.problem(503, "too many requests wait").adding("Retry-After", "5")
    static let tooMany = HTTPResponse.problem(429, "too many wrong tokens").adding("Retry-After", "10")

    /// - Parameters:
    ///   - tokens: who may do what; nil: everybody on this machine may read.
    ///   - isEncrypted: whether the server itself speaks TLS.
    public init(_ tokens: TokenFile?, isEncrypted: Bool) { (self.tokens, self.isEncrypted) = (tokens, isEncrypted) }

    // MARK: Calls

    /// The role that a changing call needs, and the size limit of its body; nil if the path changes nothing.
    private static func change(_ path: String) -> (role: Role, mostBytes: Int)? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        switch parts.count {
        case 3 where path == "/api/findings": return (.ship, mostReportBytes)
        case 3 where path == uploads: return (.ship, mostReportBytes)
        case 4 where parts[1] == "group" && parts[3] == "triage": return (.triage, mostFormBytes)
        case 5 where parts[1] == "api" && parts[2] == "groups" && parts[4] == "triage": return (.triage, mostFormBytes)
        default: return nil
        }
    }

    private static let uploads = "/api/symbols"
    private static let login = "/login", logout = "/logout"
    /// Files without findings, which the login page needs.
    private static let assets: Set<String> = ["/style.css", "/keys.js"]

    /// Decides about a request.
    func admit(_ head: HTTPHead) -> Admission {
        if let problem = Self.malformed(head) { return .refused(problem, isSlow: false) }
        guard var request = HTTPRequest(target: head.target) else { return Self.refused(400, "malformed request") }
        let kind = head.value("content-type") ?? ""
        request.type = kind.prefix { $0 != ";" }.lowercased().filter { $0 != " " }
        let change = Self.change(request.path)
        let isForm = [Self.login, Self.logout].contains(request.path)
        let allowed = tokens != nil && (change != nil || isForm) ? "POST" : "GET"
        guard head.method == allowed else {
            return .refused(
                Self.problem(405, "\(request.path) takes \(allowed)").adding("Allow", allowed), isSlow: false)
        }
        guard let tokens else {
            // Accept only local host names: a site whose name resolves to 127.0.0.1 (DNS rebinding) must not read
            // findings.
            guard ["127.0.0.1:\(port)", "localhost:\(port)", "[::1]:\(port)"].contains(head.value("host") ?? "") else {
                return Self.refused(421, "this host name is not served")
            }
            return .accepted(Call(kind: .page, request: request))
        }
        if Self.assets.contains(request.path) { return .accepted(Call(kind: .page, request: request)) }
        if allowed == "POST", isForeign(head) { return Self.refused(403, "the request comes from another origin") }
        if request.path == Self.login {
            return .accepted(
                Call(kind: .login, request: request, mostBytes: Self.mostLoginBytes, isEncrypted: isSecure(head)))
        }
        do throws(FleetError) {
            return admit(request, head, try tokens.tokens(), change)
        } catch {
            return Self.refused(503, "the file of tokens cannot be used")
        }
    }

    private func admit(
        _ request: HTTPRequest, _ head: HTTPHead, _ tokens: [Token], _ change: (role: Role, mostBytes: Int)?
    ) -> Admission {
        var request = request
        let isPage = !request.path.hasPrefix("/api/") && request.path != "/metrics"
        let user: User
        switch identify(head, tokens) {
        case .user(let found): user = found
        case .unknown(let isWrong):
            // A link from another site leads here without the cookie (SameSite=Strict). The page loads itself once
            // more, with the cookie if there is one.
            let isFromElsewhere = head.value("sec-fetch-site") == "cross-site" && isPage
            let page =
                isFromElsewhere
                ? LoginPage.again()
                : isPage
                    ? LoginPage.page(to: change == nil ? head.target : "/") : Self.problem(401, "a token is needed")
            return .refused(page.adding("WWW-Authenticate", "Bearer realm=\"zguard\""), isSlow: isWrong)
        case .forged: return Self.refused(403, "the request does not say that it comes from these pages")
        }
        if request.path == Self.logout {
            if let id = session(head) { sessions.close(id) }
            return .refused(LoginPage.leave(Self.cookie("", seconds: 0, isSecure(head))), isSlow: false)
        }
        let role = change?.role ?? .read
        func refused(_ status: Int, _ text: String) -> Admission {
            .refused(isPage ? LoginPage.refusal(status, text) : Self.problem(status, text), isSlow: false)
        }
        guard user.roles.contains(role) else { return refused(403, "this token has not the role '\(role.rawValue)'") }
        // The response must not reveal whether a tenant exists if the token is not for that tenant.
        guard let tenant = user.tenant(asked: HTTPRequest.tenant(in: request.query)) else {
            return refused(404, "there is no such tenant")
        }
        request.query["tenant"] = tenant
        request.user = user
        return .accepted(
            Call(
                kind: change == nil ? .page : request.path == Self.uploads ? .upload : .change, request: request,
                mostBytes: change?.mostBytes ?? 0))
    }

    // MARK: Who asks

    private enum Identity {
        case user(User)
        /// `isWrong`: the request had credentials, but invalid ones.
        case unknown(isWrong: Bool)
        /// A POST with a session cookie, but with neither an Origin nor a Sec-Fetch-Site header.
        case forged
    }

    private func identify(_ head: HTTPHead, _ tokens: [Token]) -> Identity {
        let credentials = head.values("authorization")
        if !credentials.isEmpty {
            let words = credentials[0].split(separator: " ", omittingEmptySubsequences: false)
            guard credentials.count == 1, words.count == 2, words[0].lowercased() == "bearer",
                let token = Secret.token(String(words[1]), among: tokens)
            else { return .unknown(isWrong: true) }
            return .user(token.user)
        }
        guard let id = session(head), let hash = sessions.token(of: id),
            // The token may have been revoked since the login.
            let token = tokens.first(where: { $0.hash == hash })
        else { return .unknown(isWrong: false) }
        // Browsers send the origin with each POST, and other clients send the token instead of a cookie. A POST with a
        // cookie and without an origin is therefore forged.
        if head.method == "POST", head.value("origin") == nil, head.value("sec-fetch-site") == nil { return .forged }
        return .user(token.user)
    }

    private func session(_ head: HTTPHead) -> String? {
        let name = Self.cookie(isSecure(head))
        for pair in head.values("cookie").joined(separator: ";").split(separator: ";") {
            let sides = pair.split(separator: "=", maxSplits: 1)
            if sides.count == 2, sides[0].filter({ $0 != " " }) == name {
                return String(sides[1].filter { $0 != " " })
            }
        }
        return nil
    }

    /// Whether any Sec-Fetch-Site or Origin header says that the request comes from another site.
    private func isForeign(_ head: HTTPHead) -> Bool {
        if head.values("sec-fetch-site").contains(where: { $0 != "same-origin" }) { return true }
        // A proxy that does not name its scheme may speak https to the browser: accept both schemes.
        let host = head.value("host")?.lowercased() ?? ""
        let schemes = isSecure(head) ? ["https"] : ["https", "http"]
        return head.values("origin").contains { origin in !schemes.contains { origin.lowercased() == "\($0)://\(host)" }
        }
    }

    // MARK: Login

    /// Answers the form of the login.
    func logIn(_ body: [UInt8], _ call: Call) -> (response: HTTPResponse, isSlow: Bool) {
        let fields = String(validating: body, as: UTF8.self).flatMap { HTTPRequest.fields($0[...]) } ?? [:]
        let target = LoginPage.target(fields["to"])
        do throws(FleetError) {
            guard let text = fields["token"], let known = try tokens?.tokens(),
                let token = Secret.token(text.filter { !$0.isWhitespace }, among: known)
            else { return (LoginPage.page(to: target, isWrong: true), true) }
            let id = sessions.open(for: token)
            return (LoginPage.leave(Self.cookie(id, seconds: Sessions.seconds, call.isEncrypted), to: target), false)
        } catch {
            return (Self.problem(503, "the file of tokens cannot be used"), false)
        }
    }

    private static func cookie(_ id: String, seconds: UInt64, _ isSecure: Bool) -> String {
        "\(cookie(isSecure))=\(id); Path=/; HttpOnly; SameSite=Strict; Max-Age=\(seconds)\(isSecure ? "; Secure" : "")"
    }

    // MARK: Malformed requests

    private static func malformed(_ head: HTTPHead) -> HTTPResponse? {
        let lengths = head.values("content-length")
        let codings = head.values("transfer-encoding")
        if head.values("host").count > 1 || lengths.count > 1 { return problem(400, "malformed request") }
        // Refuse requests with both headers: a proxy and this server could disagree on the length (request smuggling).
        if !lengths.isEmpty, !codings.isEmpty { return problem(400, "malformed request") }
        if codings.contains(where: { $0.lowercased() != "chunked" }) || codings.count > 1 {
            return problem(501, "this transfer coding is not known")
        }
        return nil
    }

    private static func problem(_ status: Int, _ text: String) -> HTTPResponse { .problem(status, text) }

    private static func refused(_ status: Int, _ text: String) -> Admission {
        .refused(problem(status, text), isSlow: false)
    }
}
