// Loads libcurl and sends HTTP requests with it.

import CZlib
import Glibc
import ZombieGuard

struct Curl: Sendable {
    typealias Handle = OpaquePointer
    typealias Start = @convention(c) (Int) -> CInt
    typealias New = @convention(c) () -> Handle?
    // curl_easy_setopt is variadic. x86-64 and arm64 Linux pass a variadic pointer or integer like one that is declared
    // as a parameter.
    typealias Set = @convention(c) (Handle, CInt, Int) -> CInt
    typealias Get = @convention(c) (Handle, CInt, UnsafeMutablePointer<Int>) -> CInt
    typealias Perform = @convention(c) (Handle) -> CInt
    typealias End = @convention(c) (Handle?) -> Void
    typealias Words = @convention(c) (CInt) -> UnsafePointer<CChar>?
    typealias Append = @convention(c) (Handle?, UnsafePointer<CChar>) -> Handle?

    private let new: New, set: Set, get: Get, perform: Perform, cleanup: End, words: Words, append: Append,
        freeList: End

    /// Numbers of libcurl's options. They are part of its ABI (curl/curl.h).
    private enum Option: CInt {
        case url = 10002
        case postFields = 10015
        case postSize = 30120
        case header = 10023
        case writeFunction = 20011
        case noSignal = 99
        case connectSeconds = 78
        case totalSeconds = 13
        case userAgent = 10018
        case netrc = 51
        case certificates = 10065
    }
    private static let responseCode: CInt = 0x200002
    private static let connectSeconds = 20
    private static let totalSeconds = 120

    init() throws(FleetError) {
        let library = try SharedLibrary("libcurl.so.4", package: "libcurl4")
        let start = try library.function("curl_global_init", Start.self)
        new = try library.function("curl_easy_init", New.self)
        set = try library.function("curl_easy_setopt", Set.self)
        get = try library.function("curl_easy_getinfo", Get.self)
        perform = try library.function("curl_easy_perform", Perform.self)
        cleanup = try library.function("curl_easy_cleanup", End.self)
        words = try library.function("curl_easy_strerror", Words.self)
        append = try library.function("curl_slist_append", Append.self)
        freeList = try library.function("curl_slist_free_all", End.self)
        _ = start(3)
    }

    /// Returns the loaded library; loads it on first use.
    static func opened(_ kept: inout Curl?) throws(FleetError) -> Curl {
        if let kept { return kept }
        let new = try Curl()
        kept = new
        return new
    }

    /// Sends a body. Throws if the request fails or the status is not 200 to 299. Redirects are not followed. `name`
    /// stands for the address in messages.
    func post(
        _ body: [UInt8], to address: String, headers: [String], name: String? = nil, seconds: Int = Self.totalSeconds
    ) throws(FleetError) {
        guard let handle = new() else { throw FleetError("out of memory for a request") }
        defer { cleanup(handle) }
        var list: Handle?
        for header in headers { list = append(list, header) }
        defer { freeList(list) }
        func setText(_ option: Option, _ text: String) {
            text.withCString { _ = set(handle, option.rawValue, Int(bitPattern: $0)) }
        }
        setText(.url, address)
        setText(.userAgent, "zguard/\(zombieGuardVersion)")
        if let file = getenv("CURL_CA_BUNDLE") { setText(.certificates, String(cString: file)) }
        for (option, number) in [
            (Option.noSignal, 1), (.connectSeconds, min(seconds, Self.connectSeconds)), (.totalSeconds, seconds),
            (.netrc, 1),
            (.postSize, body.count), (.header, Int(bitPattern: list)),
        ] { _ = set(handle, option.rawValue, number) }
        // Discard the body of the response.
        let discardBody: @convention(c) (UnsafeRawPointer?, Int, Int, UnsafeRawPointer?) -> Int = { _, size, count, _ in
            size * count
        }
        _ = set(handle, Option.writeFunction.rawValue, unsafeBitCast(discardBody, to: Int.self))
        let name = visible(name ?? "'\(FleetAddress.web(address).name)'")
        let status = body.withUnsafeBytes { bytes in
            _ = set(handle, Option.postFields.rawValue, Int(bitPattern: bytes.baseAddress))
            return perform(handle)
        }
        if status != 0 {
            let reason = words(status).map { String(cString: $0) } ?? "error \(status)"
            let (unsupported, malformed): (CInt, CInt) = (1, 3)
            throw FleetError(
                "cannot send to \(name): \(visible(reason))",
                isTemporary: ![unsupported, malformed].contains(status))
        }
        var code = 0
        _ = get(handle, Self.responseCode, &code)
        if !(200...299).contains(code) {
            throw FleetError(
                "\(name) answers with status \(code)",
                isTemporary: code >= 500 || [408, 425, 429].contains(code), status: code)
        }
    }
}

/// The token with which this machine sends to `zguard serve`.
enum WebToken {
    /// Reads a token; nil if `path` is nil.
    static func read(_ path: String?) throws(FleetError) -> String? {
        guard let path else { return nil }
        let text = String(decoding: try PrivateFile.read(path), as: UTF8.self)
        let token = text.filter { !$0.isWhitespace }
        // Control characters could add headers to the request.
        guard !token.isEmpty, token.hasOnly({ (0x21...0x7e).contains($0) }) else {
            throw FleetError("'\(visible(path))' has no token")
        }
        return token
    }
}

/// An HTTP receiver that the user provides. It gets JSON lines, compressed with gzip if possible.
final class WebDestination: Destination {
    private let address: String
    /// File with the token that the receiver asks for. Read for each request: tokens are replaced while a shipper runs.
    private let tokenFile: String?
    private var curl: Curl?

    init(_ address: String, tokenFile: String?) { (self.address, self.tokenFile) = (address, tokenFile) }

    func send(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        let curl = try Curl.opened(&curl)
        let lines = findings.flatMap { Array($0.line.utf8) + [UInt8(ascii: "\n")] }
        var digest = Digest()
        for finding in findings { digest.add(finding.id) }
        var headers = ["Content-Type: application/x-ndjson", "Idempotency-Key: \(digest.digits(16))", "Expect:"]
        let packed = GzipWriter.compressed(lines)
        if packed != nil { headers.append("Content-Encoding: gzip") }
        if let token = try WebToken.read(tokenFile) { headers.append("Authorization: Bearer \(token)") }
        try curl.post(packed ?? lines, to: address, headers: headers)
        return findings.count
    }
}
