// Answers requests for JSON. docs/fleet.openapi.json describes the answers.

import ZombieGuard

/// The JSON of a store: `/api/groups`, `/api/groups/SIGNATURE`, `/api/groups/SIGNATURE/findings`.
struct FleetAPI {
    private let pages: FleetPages

    init(_ pages: FleetPages) { self.pages = pages }

    private static let most = 1000, usual = 100, mostPage = 100_000

    func response(_ parts: ArraySlice<Substring>, _ request: HTTPRequest) throws(FleetError) -> HTTPResponse {
        let parts = parts.map(String.init)
        guard parts.first == "groups" else { return .problem(404, "there is no such page") }
        switch parts.count {
        case 1: return try groups(request.query)
        case 2: return try group(parts[1], request.query)
        case 3 where parts[2] == "findings": return try findings(parts[1], request.query)
        default: return .problem(404, "there is no such page")
        }
    }

    private func page(_ query: [String: String]) -> (limit: Int, offset: Int, number: Int) {
        let limit = min(max(1, Int(digits: query["limit"] ?? "") ?? Self.usual), Self.most)
        let number = min(max(1, Int(digits: query["page"] ?? "") ?? 1), Self.mostPage)
        return (limit, (number - 1) * limit, number)
    }

    // The filter of a request. It accepts groups in all states unless the request names one.
    private func filter(_ query: [String: String]) -> (filter: FleetFilter, problem: String?) {
        var query = query
        if query["state"] ?? "" == "" { query["state"] = "all" }
        return pages.filter(query)
    }

    private func groups(_ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let (filter, problem) = filter(query)
        if let problem { return .problem(400, problem) }
        let (limit, offset, number) = page(query)
        let order = FleetReader.Order(rawValue: query["order"] ?? "") ?? .often
        let ((groups, totals), triage) = try pages.ask { (reader) throws(FleetError) in
            var filter = filter
            let triage = try reader.triage(filter.tenant, now: pages.now)
            filter.triage = triage
            return (try reader.page(filter, order: order, limit: limit + 1, offset: offset), triage)
        }
        return .json([
            ("groups", .array(groups.prefix(limit).map { $0.json(triage[$0.signature]) })),
            ("count", .integer(totals.groups)), ("page", .integer(Int64(number))),
            ("next", groups.count > limit && number < Self.mostPage ? .integer(Int64(number + 1)) : nil),
        ])
    }

    private func group(_ wanted: String, _ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let owner = HTTPRequest.tenant(in: query)
        let answer = try pages.ask { (reader) throws(FleetError) in
            guard let group = try reader.groups(signed: wanted, tenant: owner).first else {
                return nil as HTTPResponse?
            }
            let triage = try reader.triage(owner, now: pages.now)[group.signature]
            let hosts = try reader.hosts(of: group.signature, tenant: owner)
            let versions = try reader.versions(of: group.signature, tenant: owner)
            return .json([
                ("group", group.json(triage)),
                ("events", .array((triage?.events ?? []).map(\.json))),
                ("host_count", .integer(hosts.count)),
                (
                    "hosts",
                    .array(
                        hosts.hosts.map { host in
                            .object([
                                ("name", .string(host.name)), ("count", .integer(host.occurrences)),
                                ("last_seen", .string(host.last.description)),
                            ])
                        })
                ),
                (
                    "versions",
                    .array(
                        versions.map { version in
                            .object([
                                ("name", .string(version.name)), ("count", .integer(version.occurrences)),
                                ("first_seen", .string(version.first.description)),
                                ("last_seen", .string(version.last.description)),
                            ])
                        })
                ),
            ])
        }
        return answer ?? .problem(404, "there is no group with this signature")
    }

    // The findings are lines of a report, as they were shipped.
    private func findings(_ wanted: String, _ query: [String: String]) throws(FleetError) -> HTTPResponse {
        let (limit, offset, _) = page(query)
        let owner = HTTPRequest.tenant(in: query)
        let answer = try pages.ask { (reader) throws(FleetError) in
            guard let group = try reader.groups(signed: wanted, tenant: owner).first else { return nil as [String]? }
            return try reader.findings(of: group.signature, tenant: owner, limit: limit, offset: offset).map(\.line)
        }
        guard let lines = answer else { return .problem(404, "there is no group with this signature") }
        return HTTPResponse(type: "application/x-ndjson", body: lines.map { $0 + "\n" }.joined())
    }
}

extension FleetReader.Group {
    /// The group as JSON.
    ///
    /// - Parameter triage: its state; nil if nothing was decided about it.
    /// - Returns: an object with the schema "zguard.group/1".
    public func json(_ triage: Triage?) -> JSONText {
        .object([
            ("schema", .string("zguard.group/1")), ("signature", .string(signature)),
            ("state", .string((triage?.state ?? .open).rawValue)), ("triage", triage?.text.map { .string($0) }),
            ("assigned", triage?.assigned.map { .string($0) }), ("kind", .string(kind)),
            ("headline", .string(headline)), ("count", .integer(occurrences)), ("findings", .integer(findings)),
            ("first_seen", .string(first.description)), ("last_seen", .string(last.description)),
            ("version", version.map { .string($0) }),
        ])
    }
}
