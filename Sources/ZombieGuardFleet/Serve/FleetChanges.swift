// Answers requests that change a store: decisions about groups, and findings and symbols that are sent.

import CSystem
import Glibc
import ZombieGuard

/// Changes a store on request. For one thread.
public final class FleetChanges {
    private let source: FleetSource
    private let address: FleetAddress
    private var destination: (any Destination)?
    private var parts = SymbolParts()
    private let naming: SymbolNaming
    private let now: () -> Timestamp
    private let warn: (String) -> Void

    private static let mostFindings = 10_000
    private static let mostBytes: UInt64 = 64 << 20

    /// - Parameters:
    ///   - source: the store, for reading.
    ///   - address: its address.
    ///   - warn: called with errors of the store, which are hidden from users; the text is safe to print.
    ///   - now: the current time.
    public init(
        _ source: FleetSource, _ address: FleetAddress, warn: @escaping (String) -> Void,
        now: @escaping () -> Timestamp = { .now }
    ) {
        (self.source, self.address, self.warn, self.now) = (source, address, warn, now)
        naming = SymbolNaming(address)
    }

    /// Answers a request that ``AccessControl`` has admitted.
    ///
    /// - Parameter request: a POST.
    /// - Returns: JSON; for a form, a redirect to the page with the form, or an error page.
    public func response(to request: HTTPRequest) -> HTTPResponse {
        guard let user = request.user else { return .problem(401, "a token is needed") }
        do throws(FleetError) {
            let parts = request.path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            if request.path == "/api/findings" { return try store(request, user) }
            if request.path == "/api/symbols" { return try storeSymbols(request, user) }
            if parts.count > 4 { return try decide(about: parts[3], request, user, isForm: false) }
            return try decide(about: parts[2], request, user, isForm: true)
        } catch {
            destination = nil
            warn("\(error)")
            return .problem(error.isTemporary ? 503 : 500, error.text(for: user))
        }
    }

    // MARK: Decisions

    private func decide(about wanted: String, _ request: HTTPRequest, _ user: User, isForm: Bool) throws(FleetError)
        -> HTTPResponse
    {
        func refused(_ status: Int, _ text: String) -> HTTPResponse {
            isForm ? LoginPage.refusal(status, text) : .problem(status, text)
        }
        let tenant = HTTPRequest.tenant(in: request.query)
        guard let fields = Self.fields(request) else { return refused(400, "expected a form, or an object of JSON") }
        let (groups, last) = try source.ask { (reader) throws(FleetError) in
            let groups = try reader.groups(signed: wanted, tenant: tenant)
            return (
                groups,
                try groups.first.flatMap { (group) throws(FleetError) in
                    try reader.triage(tenant, now: now())[group.signature]?.events.last?.time
                }
            )
        }
        guard let group = groups.first else { return refused(404, "there is no group with this signature") }
        if groups.count > 1 { return refused(409, "several groups had this signature") }
        let action: TriageEvent.Action
        do throws(ValueError) {
            action = try self.action(fields, now())
        } catch {
            return refused(400, "expected \(error.expected)")
        }
        var decision = action
        if case .mute(until: .occurrences(let count, _)?) = action {
            // Record today's occurrences before the decision, because earlier versions of zguard count the occurrences
            // of whole days.
            let before = try source.ask { (reader) throws(FleetError) in
                try reader.count(of: group.signature, from: now().day, tenant: tenant)
            }
            decision = .mute(until: .occurrences(count, before: before))
        }
        let event = TriageEvent(
            decision, of: group.signature, by: user.name, comment: fields["comment"] ?? "", tenant: tenant,
            time: TriageEvent.time(after: last, now: now()))
        try TriageStore(address).add([event])
        if isForm {
            let query = tenant.map { "?tenant=\(urlText($0))" } ?? ""
            return HTTPResponse(status: 303, type: "text/plain", body: "").adding(
                "Location", "/group/\(urlText(group.signature))\(query)")
        }
        let triage = try source.ask { (reader) throws(FleetError) in
            try reader.triage(tenant, now: now())[group.signature]
        }
        return .json([("group", group.json(triage)), ("event", event.json)])
    }

    private static func fields(_ request: HTTPRequest) -> [String: String]? {
        guard var text = String(validating: request.body?.bytes ?? [], as: UTF8.self) else { return nil }
        switch request.type {
        case "application/x-www-form-urlencoded": return HTTPRequest.fields(text[...])
        case "application/json":
            return try? JSONScanner.read(&text) { (scanner) throws(JSONScanner.Problem) in
                try scanner.dictionary { (scanner) throws(JSONScanner.Problem) in try scanner.anyText() }
            }
        default: return nil
        }
    }

    // Parses an action. The actions are the same as those of the flags of `zguard triage`.
    private func action(_ fields: [String: String], _ now: Timestamp) throws(ValueError) -> TriageEvent.Action {
        func value(_ name: String) -> String? { fields[name].flatMap { $0.isEmpty ? nil : String($0.prefix(500)) } }
        switch fields["action"] {
        case "resolve": return .resolve(version: value("version"))
        case "reopen": return .reopen
        case "assign": return .assign(to: value("to").flatMap { $0 == "nobody" ? nil : $0 })
        case "comment":
            if value("comment") == nil { throw ValueError(expected: "a comment") }
            return .comment
        case "mute":
            let names = ["until", "until_count", "until_version"].filter { value($0) != nil }
            if names.count > 1 { throw ValueError(expected: "one of until, until_count and until_version") }
            if let version = value("until_version") { return .mute(until: .version(version)) }
            if let text = value("until_count") {
                guard let count = Int64(signedDigits: text), count > 0 else {
                    throw ValueError(expected: "until_count to be a number from 1 on")
                }
                return .mute(until: .occurrences(count, before: 0))
            }
            return .mute(until: try value("until").map { (text) throws(ValueError) in try .until(text, now: now) })
        default: throw ValueError(expected: "an action: resolve, mute, reopen, assign or comment")
        }
    }

    // MARK: Findings

    // Stores each finding once: its key is made of tenant, signature, day and the id that its collector gave it.
    private func store(_ request: HTTPRequest, _ user: User) throws(FleetError) -> HTTPResponse {
        guard address.isDatabase else {
            return .problem(409, "the store is a directory; findings are sent to servers of a database")
        }
        let tenant = HTTPRequest.tenant(in: request.query) ?? ShippedFinding.Sender.standardTenant
        let (findings, problem) = try read(request.body?.bytes ?? [], tenant, user)
        if let problem { return problem }
        let open: any Destination
        if let destination { open = destination } else { open = try address.destination(ShippedFinding.Sender()) }
        destination = open
        var new = 0
        for start in stride(from: 0, to: findings.count, by: Self.batch) {
            new += try open.send(Array(findings[start..<min(start + Self.batch, findings.count)]))
        }
        return .json([("received", .integer(Int64(findings.count))), ("new", .integer(Int64(new)))])
    }

    private static let batch = 1000

    // All lines, or the first problem.
    private func read(_ body: [UInt8], _ tenant: String, _ user: User) throws(FleetError) -> (
        [ShippedFinding], HTTPResponse?
    ) {
        // Lines from a collector name their machine. For other lines, the name of the token stands for the machine.
        let sender = ShippedFinding.Sender(host: user.name, tenant: tenant)
        let none = try Redaction("", file: "")
        var findings: [ShippedFinding] = []
        var bytes = 0
        do throws(SystemError) {
            let file = Descriptor(adopting: zg_system_memfd("zguard-findings"))
            if file.number < 0 { throw .last }
            try file.write(bytes: body)
            lseek(file.number, 0, SEEK_SET)
            var reader = FindingReader(file: file, mostBytes: Self.mostBytes)
            while let entry = try reader.next() ?? reader.finish() {
                switch entry {
                case .finding(var finding, let line):
                    // The request determines the tenant, whatever the line says. Compare bytes: texts that Swift
                    // regards as equal may differ in their bytes, and a database then regards them as different
                    // tenants.
                    let isOthers = finding.origin.map { !($0.tenant ?? "").utf8.elementsEqual(tenant.utf8) } ?? false
                    if isOthers { finding.origin?.tenant = tenant }
                    let shipped = ShippedFinding(
                        finding, text: reader.text, source: user.name, line: line, written: now(), sender: sender,
                        redaction: isOthers ? none : nil)
                    guard let shipped else { return ([], .problem(400, "line \(line) cannot be read")) }
                    findings.append(shipped)
                    bytes += shipped.line.utf8.count
                case .timeline, .run: break
                case .skipped(let line, let reason): return ([], .problem(400, "line \(line): \(reason)"))
                }
                if findings.count > Self.mostFindings || bytes > Self.mostBytes {
                    return (
                        [], .problem(413, "more than \(Self.mostFindings) findings, or \(Self.mostBytes >> 20) MiB")
                    )
                }
            }
            if let problem = reader.problem { return ([], .problem(400, problem)) }
        } catch {
            throw FleetError("cannot read the findings: \(error)", isTemporary: true)
        }
        return (findings, nil)
    }
}

extension FleetChanges {
    // MARK: Symbols

    // Receives a part of a file. After the last part, stores the file and starts to symbolicate findings with it.
    private func storeSymbols(_ request: HTTPRequest, _ user: User) throws(FleetError) -> HTTPResponse {
        guard address.isDatabase else {
            return .problem(409, "the store is a directory; symbols are sent to servers of a database")
        }
        let query = request.query
        guard let upload = query["upload"], ShippedFinding.isDigits(upload, count: 32), let name = query["name"],
            let offset = query["offset"].flatMap({ Int64(digits: $0) }),
            let size = query["size"].flatMap({ Int64(digits: $0) }), (1...SymbolUpload.mostBytes).contains(size),
            let body = request.body?.bytes, !body.isEmpty
        else { return .problem(400, "expected upload, name, offset and size of a file, and a part of it") }
        let tenant = HTTPRequest.tenant(in: query) ?? ShippedFinding.Sender.standardTenant
        let key = SymbolParts.Key(user: user.name, tenant: tenant, upload: upload)
        let result: SymbolParts.Result
        do { result = try parts.add(body, at: offset, of: size, key) } catch let error as FleetError {
            throw error
        } catch {
            throw FleetError("cannot keep the file: \(error)", isTemporary: true)
        }
        switch result {
        case .more(let there): return .json([("received", .integer(there))])
        case .unknown: return .problem(409, "the parts in front of this one are missing: begin with the first")
        case .busy:
            return HTTPResponse.problem(503, "too many files are being sent").adding("Retry-After", "60")
        case .whole(let file):
            let symbols: SymbolUpload
            do throws(SymbolUpload.Refusal) { symbols = try SymbolUpload(file, name: name) } catch {
                return .problem(422, "the file cannot be kept: \(error.reason)")
            }
            let most = SymbolStore.mostBytesOfTenant
            let (addition, entry) = try SymbolStore(address, tenant: tenant).add(symbols, most: most)
            if addition == .tooMany {
                return .problem(413, "the symbols of the tenant would be more than \(most >> 30) GiB: remove old ones")
            }
            naming.apply(entry.buildID, tenant)
            return .json([
                ("received", .integer(size)), ("build_id", .string(entry.buildID)),
                ("added", .bool(addition == .added)),
            ])
        }
    }
}
