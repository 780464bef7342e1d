// Sends findings as OpenTelemetry log records, as JSON (OTLP over HTTP).

import Glibc
import ZombieGuard

/// A receiver of OpenTelemetry log records.
final class OpenTelemetryDestination: Destination {
    private let address: String
    private var curl: Curl?

    /// - Parameter base: base URL, as in OTEL_EXPORTER_OTLP_ENDPOINT.
    init(_ base: String) { address = base + "/v1/logs" }

    func send(_ findings: [ShippedFinding]) throws(FleetError) -> Int {
        let curl = try Curl.opened(&curl)
        var headers = ["Content-Type: application/json", "Expect:"]
        if let given = getenv("OTEL_EXPORTER_OTLP_HEADERS") {
            for pair in String(cString: given).split(separator: ",") {
                let parts = pair.split(separator: "=", maxSplits: 1).map { $0.trimmingPrefix { $0 == " " } }
                if parts.count == 2, !pair.contains(where: \.isNewline) { headers.append("\(parts[0]): \(parts[1])") }
            }
        }
        try curl.post(Array(Self.request(findings).line.utf8), to: address, headers: headers)
        return findings.count
    }

    /// The body of a request. Findings of one program, machine and version share a resource.
    static func request(
        _ findings: [ShippedFinding], service: String? = getenv("OTEL_SERVICE_NAME").map { String(cString: $0) }
    )
        -> JSONText
    {
        let resources = Dictionary(grouping: findings) { [$0.program, $0.host, $0.version] }
        let sorted = resources.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        let scope = JSONText.object([("name", .string("zguard")), ("version", .string(zombieGuardVersion))])
        let logs = sorted.map { key, findings in
            let name = key[0].split(separator: "/").last.map(String.init) ?? "unknown_service"
            let known = [
                ("service.name", service ?? name), ("service.version", key[2]), ("host.name", key[1]),
                ("process.executable.path", key[0]), ("process.executable.name", name),
            ].filter { !$0.1.isEmpty }
            let records = JSONText.object([("scope", scope), ("logRecords", .array(findings.map(record)))])
            let resource = JSONText.object([("attributes", attributes(known.map { (key: $0.0, value: text($0.1)) }))])
            return JSONText.object([("resource", resource), ("scopeLogs", .array([records]))])
        }
        return .object([("resourceLogs", .array(logs))])
    }

    private static func record(_ shipped: ShippedFinding) -> JSONText {
        let finding = shipped.finding
        let error: Int64 = 17
        let stack = (finding.isNoticedLate ? finding.stacks.free : finding.stacks.access).map { frame in
            let place = frame.file.map { " (\($0)\(frame.line.map { ":\($0)" } ?? ""))" } ?? ""
            let raw = "\(frame.module ?? "?")+\(frame.offset ?? frame.pc)"
            return "    at \(frame.function ?? raw)\(place)"
        }
        var list: [(key: String, value: JSONText)] = [
            ("exception.type", text(shipped.kind)), ("exception.message", text(shipped.headline)),
            ("exception.stacktrace", text(stack.joined(separator: "\n"))), ("zguard.finding.id", text(shipped.id)),
            ("zguard.finding.signature", text(shipped.signature)), ("zguard.tenant", text(shipped.tenant)),
            ("zguard.finding.count", integer(shipped.occurrences)),
        ]
        if let processID = finding.processID { list.append(("process.pid", integer(Int64(processID)))) }
        if let thread = finding.thread {
            list.append(("thread.id", integer(Int64(thread.id))))
            if let name = thread.name { list.append(("thread.name", text(name))) }
        }
        return .object([
            ("timeUnixNano", .string("\(max(0, shipped.milliseconds))000000")), ("severityNumber", .integer(error)),
            ("severityText", .string("ERROR")), ("body", text(shipped.headline)), ("attributes", attributes(list)),
        ])
    }

    private static func text(_ text: String) -> JSONText { .object([("stringValue", .string(text))]) }

    // OTLP's JSON encodes 64-bit integers as strings, because JavaScript numbers are not exact.
    private static func integer(_ number: Int64) -> JSONText { .object([("intValue", .string("\(number)"))]) }

    private static func attributes(_ list: [(key: String, value: JSONText)]) -> JSONText {
        .array(list.map { .object([("key", .string($0.key)), ("value", $0.value)]) })
    }
}
