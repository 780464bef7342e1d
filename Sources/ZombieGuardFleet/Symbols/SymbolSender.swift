// Sends symbol files to `zguard serve` in parts (`zguard symbols upload --to https://…`).

import Glibc
import ZombieGuard

/// Sends files to a server that keeps symbols in its store.
public final class SymbolSender {
    private let address: String
    private let tokenFile: String?
    private var curl: Curl?

    private static let partBytes = 8 << 20
    private static let attempts = 5
    private static let longestPause = 10.0

    /// Creates a sender. Does not connect to the server.
    ///
    /// - Parameters:
    ///   - place: URL of the call, such as "https://findings.example/api/symbols".
    ///   - tokenFile: path of the file with the token; nil: none.
    /// - Returns: nil if the address is not that of an HTTP server.
    public init?(place: FleetAddress, tokenFile: String?) {
        guard case .web(let address) = place else { return nil }
        (self.address, self.tokenFile) = (address, tokenFile)
    }

    /// Sends a file. Returns after the server has stored it.
    ///
    /// - Parameter file: the file.
    /// - Throws: ``FleetError`` if the server does not take it.
    public func send(_ file: SymbolUpload) throws(FleetError) {
        var tried = 0
        var pause = 0.5
        while true {
            do throws(FleetError) {
                return try sendParts(of: file)
            } catch {
                tried += 1
                // A server that was started again asks for the first part (409).
                guard error.isTemporary || error.status == 409, tried < Self.attempts else { throw error }
                usleep(useconds_t(pause * 1e6))
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    private func sendParts(of file: SymbolUpload) throws(FleetError) {
        let curl = try Curl.opened(&curl)
        var digest = Digest()
        for _ in 0..<4 { digest.add("\(UInt64.random(in: 0 ... .max))") }
        let query = "upload=\(digest.digits(16))&name=\(urlText(file.name))&size=\(file.size)"
        var headers = ["Content-Type: application/octet-stream", "Expect:"]
        if let token = try WebToken.read(tokenFile) { headers.append("Authorization: Bearer \(token)") }
        var offset: Int64 = 0
        while offset < file.size {
            let part: [UInt8]
            do throws(SystemError) { part = try file.file.read(at: UInt64(offset), upTo: Self.partBytes) } catch {
                throw FleetError("cannot read '\(visible(file.path))': \(error)")
            }
            if part.isEmpty { throw FleetError("'\(visible(file.path))' has become shorter") }
            let separator = address.contains("?") ? "&" : "?"
            try curl.post(part, to: "\(address)\(separator)\(query)&offset=\(offset)", headers: headers)
            offset += Int64(part.count)
        }
    }
}
