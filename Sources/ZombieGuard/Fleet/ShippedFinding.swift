// A finding on its way from the machine that it was made on: which one it is, whose, and in which form it goes.

import Glibc

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A finding, ready to be kept elsewhere.
public struct ShippedFinding: Sendable {
    /// What the shipper knows of all findings that it ships.
    public struct Sender: Sendable {
        /// The name of the machine.
        public var host: String
        /// What is the machine's alone, and stays.
        public var machine: String
        /// The version of the programs; nil where nobody says.
        public var version: String?
        /// Whose the findings are.
        public var tenant: String

        /// The name of those whose findings are nobody's in particular.
        public static let standardTenant = "default"

        /// This machine.
        ///
        /// - Parameters:
        ///   - host: its name; nil: what the system calls it.
        ///   - version: of the programs.
        ///   - tenant: whose the findings are; nil: nobody's in particular.
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

    /// As it goes: what is cut is cut.
    public let finding: Finding
    /// The line that is kept: what the report has, with signature and origin.
    public internal(set) var line: String
    /// The report that it is of, by name.
    let source: String
    /// Thirty-two hexadecimal digits, the same whenever and by whomever it is shipped.
    public let id: String
    /// Sixteen hexadecimal digits, equal for equal bugs.
    public let signature: String
    /// Milliseconds since 1970.
    let milliseconds: Int64
    /// The day of that, in UTC.
    let day: String
    let tenant: String
    let host: String
    let version: String

    /// - Parameters:
    ///   - finding: as it stands in a report.
    ///   - text: its line.
    ///   - source: the report that it is of, by name.
    ///   - line: the number of its line.
    ///   - written: when the report was. A finding without a time has arrived then at the latest, and whoever reads the report later
    ///     finds the same.
    ///   - sender: this machine.
    ///   - redaction: what is cut out of it.
    /// - Returns: nil where it cannot be cut as asked.
    init?(
        _ finding: Finding, text: String, source: String, line number: Int, written: Timestamp, sender: Sender,
        redaction: Redaction? = nil
    ) {
        // A line that was shipped before keeps what it got then.
        var origin = finding.origin ?? Finding.Origin()
        if !Self.isDigits(origin.id, count: 32) {
            var digest = Digest()
            digest.add(sender.machine)
            digest.add(text)
            // Such lines may be equal, and of two processes.
            if finding.time == nil || finding.processID == nil { digest.add("\(source):\(number)") }
            origin.id = digest.digits(16)
        }
        origin.host = origin.host ?? sender.host
        origin.version = origin.version ?? sender.version
        origin.tenant = origin.tenant ?? sender.tenant
        let time = (finding.lastSeen ?? finding.time).flatMap { Timestamp($0) }
        // A file's time may be unset like a finding's.
        let arrival = written.milliseconds > 0 ? written : .now
        let arrived = time == nil && !text.contains("\"last_seen\"") ? arrival.description : nil
        let signature = Self.isDigits(finding.signature, count: 16) ? finding.signature! : finding.computeSignature()
        if let redaction {
            origin.host = redaction.host(origin.host ?? "")
            if redaction.dropped.contains("version") { origin.version = nil }
            guard let cut = redaction.applied(to: text),
                var shorter = try? JSONDecoder().decode(Finding.self, from: Data(cut.utf8))
            else { return nil }
            shorter.signature = signature
            shorter.origin = nil
            shorter.lastSeen = arrived ?? shorter.lastSeen
            self.finding = shorter
            // What was cut is written anew, also the origin of one that was shipped before.
            self.line = Self.line(cut, arrived: arrived, signature: signature, origin: origin)
        } else {
            var dated = finding
            dated.lastSeen = arrived ?? finding.lastSeen
            self.finding = dated
            self.line = Self.line(
                text, arrived: arrived, signature: finding.signature == signature ? nil : signature,
                origin: finding.origin == origin ? nil : origin)
        }
        self.signature = signature
        self.source = source
        id = origin.id ?? ""
        tenant = Self.short(origin.tenant ?? "")
        host = Self.short(origin.host ?? "")
        version = Self.short(origin.version ?? "")
        milliseconds = (time ?? arrival).milliseconds
        day = (time ?? arrival).day
    }

    /// The finding as one that is only counted.
    var thinned: ShippedFinding {
        var short = finding.thinned
        short.signature = signature
        short.origin = Finding.Origin(id: id, host: host, version: version.isEmpty ? nil : version, tenant: tenant)
        var thinned = self
        thinned.line = short.jsonLine
        return thinned
    }

    /// From 0 to less than 1, by the id: the same one, shipped again, is treated alike.
    var place: Double { Double(UInt32(digits: id.prefix(8), radix: 16) ?? 0) / 4_294_967_296 }

    private static func isDigits(_ text: String?, count: Int) -> Bool {
        guard let text, text.utf8.count == count else { return false }
        return text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// A line with what is given added at its end.
    private static func line(_ text: String, arrived: String?, signature: String?, origin: Finding.Origin?) -> String {
        var line = String(text[..<(text.utf8.lastIndex(of: UInt8(ascii: "}")) ?? text.startIndex)])
        // The next one that it is shipped to finds when it came here.
        if let arrived { line += ",\"last_seen\":\"\(arrived)\"" }
        if let signature { line += ",\"signature\":\"\(signature)\"" }
        if let origin { line += ",\"origin\":\(origin.json.line)" }
        return visibleControls(line + "}")
    }

    // Within a line of JSON, control characters are blanks between its parts.
    private static func visibleControls(_ line: String) -> String {
        line.hasOnly { $0 >= 0x20 }
            ? line : String(String.UnicodeScalarView(line.unicodeScalars.map { $0.value < 0x20 ? " " : $0 }))
    }

    /// Safe to print and to compare, and no longer than an index can have it.
    static func short(_ text: String) -> String { cut(visible(text), to: 250) }

    private static func cut(_ text: String, to count: Int) -> String {
        text.utf8.count <= count ? text : String(String.UnicodeScalarView(text.unicodeScalars.prefix(count)))
    }

    var program: String { Self.short(finding.program ?? "") }
    var occurrences: Int64 { Int64(min(max(1, finding.count), 1_000_000_000)) }
    var kind: String { Self.short(finding.kind.rawValue) }
    var headline: String { Self.cut(visible(finding.sentence), to: 500) }

    /// What a search looks through.
    var words: String {
        var words = [headline, program, signature]
        if let name = finding.block?.className { words.append(name) }
        for stack in [finding.stacks.access, finding.stacks.thrown, finding.stacks.free, finding.stacks.alloc] {
            for frame in stack.prefix(8) { words += [frame.function, frame.file].compactMap { $0 } }
        }
        return Self.cut(visible(words.joined(separator: " ")), to: 4000)
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
    /// Places of findings in the order of the tables' keys.
    static func order(of findings: [ShippedFinding]) -> [Int] {
        let keys = findings.map { "\($0.tenant)\u{0}\($0.signature)\u{0}\($0.day)\u{0}\($0.id)" }
        return keys.indices.sorted { keys[$0] < keys[$1] }
    }
}

/// Versions as texts that sort as they do: most findings have the version of the one before.
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
