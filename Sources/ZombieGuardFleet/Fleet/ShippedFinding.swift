// A finding prepared for shipping: its id, origin, redacted text and database columns.

import Glibc
import ZombieGuard

/// A finding, ready to be stored elsewhere.
public struct ShippedFinding: Sendable {
    /// Properties of the shipping machine, common to all findings that it ships.
    public struct Sender: Sendable {
        /// Host name.
        public var host: String
        /// A stable id of the machine: /etc/machine-id, or the host name if there is none.
        public var machine: String
        /// Version of the programs; nil if unknown.
        public var version: String?
        /// Tenant that owns the findings.
        public var tenant: String

        /// The tenant of findings that name none.
        public static let standardTenant = "default"

        /// Describes this machine.
        ///
        /// - Parameters:
        ///   - host: host name; nil: from gethostname.
        ///   - version: version of the programs.
        ///   - tenant: owner of the findings; nil: ``standardTenant``.
        public init(host: String? = nil, version: String? = nil, tenant: String? = nil) {
            var name = [CChar](repeating: 0, count: 257)
            gethostname(&name, name.count - 1)
            let own = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            self.host = host ?? (own.isEmpty ? "unknown" : own)
            let id = (try? readFile("/etc/machine-id")).map { String(decoding: $0, as: UTF8.self) } ?? ""
            machine = id.isEmpty ? self.host : String(id.prefix { $0.isHexDigit })
            self.version = version
            self.tenant = tenant ?? Self.standardTenant
        }
    }

    /// The finding after redaction.
    public let finding: Finding
    /// The line to store: the line of the report, redacted, with signature and origin.
    public internal(set) var line: String
    /// Name of the report, "HOST/FILE".
    let source: String
    /// Id of the finding, 32 hexadecimal digits, from the first sender's machine id and the line. Shipping the finding
    /// again does not change the id.
    public let id: String
    /// Signature, 16 hexadecimal digits, the same for all findings of one bug. A finding that an earlier version of
    /// zguard signed keeps that signature. The signature is part of the finding's key in the database, so a finding
    /// that two versions of zguard ship is stored once.
    public let signature: String
    /// Earlier signatures of the bug, each with the current signature of its findings.
    let formers: [FormerSignature]
    /// Time of the last occurrence, in milliseconds since 1970.
    let milliseconds: Int64
    /// Day of the last occurrence, in UTC.
    let day: String
    let tenant: String
    let host: String
    let version: String

    /// - Parameters:
    ///   - finding: the finding in a report.
    ///   - text: its line.
    ///   - source: name of the report, "HOST/FILE".
    ///   - line: its line number.
    ///   - written: time of the last write to the report. A finding without a time gets this time, which is the same
    ///     when the report is read again.
    ///   - sender: properties of this machine.
    ///   - redaction: rules to apply; nil: none.
    /// - Returns: nil if the redaction cannot be applied.
    init?(
        _ finding: Finding, text: String, source: String, line number: Int, written: Timestamp, sender: Sender,
        redaction: Redaction? = nil
    ) {
        // A finding that was shipped before keeps its origin.
        var origin = finding.origin ?? Finding.Origin()
        if !Self.isDigits(origin.id, count: 32) {
            var digest = Digest()
            digest.add(sender.machine)
            digest.add(text)
            // Without a time or a process id, two processes may write equal lines. Their positions in reports make them
            // different.
            if finding.time == nil || finding.processID == nil { digest.add("\(source):\(number)") }
            origin.id = digest.digits(16)
        }
        origin.host = origin.host ?? sender.host
        origin.version = origin.version ?? sender.version
        origin.tenant = origin.tenant ?? sender.tenant
        let time = (finding.lastSeen ?? finding.time).flatMap { Timestamp($0) }
        // The file may have no modification time, either: take the current time.
        let arrival = written.milliseconds > 0 ? written : .now
        let arrived = time == nil && !text.contains("\"last_seen\"") ? arrival.description : nil
        var signed = finding
        if !Self.isDigits(finding.signature, count: 16) { (signed.signature, signed.formerSignatures) = (nil, []) }
        let own = signed.formerSignatures.filter { Self.isDigits($0, count: 16) }
        signed.formerSignatures = Array(own.prefix(Self.mostFormer))
        signed.addSignature()
        let current = signed.signature ?? ""
        // Keep a finding's own signature, which may be that of an earlier version of zguard.
        let isKept = Self.isDigits(finding.signature, count: 16)
        let signature = isKept ? finding.signature ?? "" : current
        let owner = Self.short(origin.tenant ?? "")
        self.formers = signed.formerSignatures.map { FormerSignature(tenant: owner, former: $0, signature: current) }
        let sent = Set(finding.formerSignatures.prefix(Self.mostFormer))
        let formers = isKept ? signed.formerSignatures.filter(sent.contains) : signed.formerSignatures
        if let redaction {
            origin.host = redaction.host(origin.host ?? "")
            if redaction.dropped.contains("version") { origin.version = nil }
            guard let cut = redaction.applied(to: text),
                var shorter = Finding(jsonLine: cut)
            else { return nil }
            shorter.signature = signature
            shorter.formerSignatures = formers
            shorter.origin = nil
            shorter.lastSeen = arrived ?? shorter.lastSeen
            self.finding = shorter
            // Redaction removes signatures and origin; append them again, also if the finding was shipped before.
            self.line = Self.line(cut, arrived: arrived, signature: signature, former: formers, origin: origin)
        } else {
            var dated = finding
            (dated.signature, dated.formerSignatures) = (signature, formers)
            dated.lastSeen = arrived ?? finding.lastSeen
            self.finding = dated
            self.line = Self.line(
                text, arrived: arrived, signature: isKept ? nil : signature, former: isKept ? [] : formers,
                origin: finding.origin == origin ? nil : origin)
        }
        self.signature = signature
        self.source = source
        id = origin.id ?? ""
        tenant = owner
        host = Self.short(origin.host ?? "")
        version = Self.short(origin.version ?? "")
        milliseconds = (time ?? arrival).milliseconds
        day = (time ?? arrival).day
    }

    /// The finding without stacks, for counting only.
    var thinned: ShippedFinding {
        var short = finding.thinned
        short.signature = signature
        short.formerSignatures = finding.formerSignatures
        short.origin = Finding.Origin(id: id, host: host, version: version.isEmpty ? nil : version, tenant: tenant)
        var thinned = self
        thinned.line = short.jsonLine
        return thinned
    }

    /// Position for sampling in 0..<1, derived from the id: a finding that is shipped again gets the same decision.
    var place: Double { Double(UInt32(digits: id.prefix(8), radix: 16) ?? 0) / 4_294_967_296 }

    /// Whether a text consists of `count` lower-case hexadecimal digits.
    static func isDigits(_ text: String?, count: Int) -> Bool {
        guard let text, text.utf8.count == count else { return false }
        return text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// Appends the given fields to a line of JSON.
    private static func line(
        _ text: String, arrived: String?, signature: String?, former: [String], origin: Finding.Origin?
    ) -> String {
        var line = String(text[..<(text.utf8.lastIndex(of: UInt8(ascii: "}")) ?? text.startIndex)])
        // A collector that ships this line onward finds the time of arrival in the line.
        if let arrived { line += ",\"last_seen\":\"\(arrived)\"" }
        if let signature { line += ",\"signature\":\"\(signature)\"" }
        if !former.isEmpty { line += ",\"former_signatures\":\(former.json.line)" }
        if let origin { line += ",\"origin\":\(origin.json.line)" }
        return visibleControls(line + "}")
    }

    // Replaces control characters by spaces. In valid JSON, they occur only as whitespace between tokens.
    private static func visibleControls(_ line: String) -> String {
        line.hasOnly { $0 >= 0x20 }
            ? line : String(String.UnicodeScalarView(line.unicodeScalars.map { $0.value < 0x20 ? " " : $0 }))
    }

    /// A text that is safe to print and to compare, and short enough for a database index.
    static func short(_ text: String) -> String { cut(visible(text), to: 250) }

    private static func cut(_ text: String, to count: Int) -> String {
        text.utf8.count <= count ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(count)))
    }

    var program: String { Self.short(finding.program ?? "") }
    var occurrences: Int64 { Int64(min(max(1, finding.count), 1_000_000_000)) }
    var kind: String { Self.short(finding.kind.rawValue) }
    var headline: String { Self.cut(visible(finding.sentence), to: 500) }

    private static let mostFormer = 4

    /// Text in which the database searches for words.
    var words: String { Self.words(of: finding, [headline, program, signature]) }

    /// The text in which a word search looks: `first`, earlier signatures, class, functions and files of a finding.
    static func words(of finding: Finding, _ first: [String]) -> String {
        var words = first + finding.formerSignatures.prefix(mostFormer)
        if let name = finding.block?.className { words.append(name) }
        for stack in [finding.stacks.access, finding.stacks.thrown, finding.stacks.free, finding.stacks.alloc] {
            for frame in stack.prefix(8) { words += [frame.function, frame.file].compactMap { $0 } }
        }
        return cut(visible(words.joined(separator: " ")), to: 4000)
    }

    /// The columns of a row of zguard_findings, in the order of ``FleetTables/columns``.
    func columns(versionKey: String) -> [String] {
        [
            tenant, signature, day, id, String(milliseconds), host, program, version, versionKey, String(occurrences),
            line,
        ]
    }
}

extension ShippedFinding {
    /// Indices of the findings, sorted by the primary key of zguard_findings.
    static func order(of findings: [ShippedFinding]) -> [Int] {
        let keys = findings.map { "\($0.tenant)\u{0}\($0.signature)\u{0}\($0.day)\u{0}\($0.id)" }
        return keys.indices.sorted { keys[$0] < keys[$1] }
    }
}

/// A cache of sort keys for versions: most findings have the version of the previous one.
struct VersionKeys {
    private var known: [String: String] = [:]

    subscript(version: String) -> String {
        mutating get {
            if let key = known[version] { return key }
            let key = versionKey(version.isEmpty ? nil : version)
            known[version] = key
            return key
        }
    }
}
