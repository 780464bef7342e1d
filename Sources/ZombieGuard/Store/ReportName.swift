// Names of the files in a report store. The store changes only files with such names.

/// The name of a run's report: "20261121T203921.123Z-PROGRAM-PID-1f2e3d4c", which begins with the start time. The file
/// is NAME.jsonl or NAME.jsonl.gz; while it is being compressed, both exist. An incomplete file has a leading dot and
/// the suffix ".tmp".
package struct ReportName: Hashable, Sendable {
    package enum Form: Hashable, Sendable { case plain, compressed, temporary }

    package let stem: String
    let started: Timestamp

    private static let longestProgram = 64
    private static let suffixDigits = 8

    static let plainExtension = ".jsonl"
    static let compressedExtension = ".jsonl.gz"

    /// Makes a new name. `program` may be a path with any characters; unsafe ones are replaced by "_".
    init(program: String, processID: Int, started: Timestamp = .now) {
        let base = program.utf8.split(separator: UInt8(ascii: "/")).last.map(Array.init) ?? []
        let safe = base.prefix(Self.longestProgram).map { Self.isSafe($0) ? $0 : UInt8(ascii: "_") }
        let name = safe.isEmpty ? "program" : String(decoding: safe, as: UTF8.self)
        let random = String(UInt32.random(in: 0...UInt32.max), radix: 16)
        let suffix = String(repeating: "0", count: Self.suffixDigits - random.count) + random
        stem = "\(started.compact)-\(name)-\(max(0, processID))-\(suffix)"
        self.started = Timestamp(rawValue: started.rawValue / 1_000_000 * 1_000_000)
    }

    /// A store's name for a report file that another program named. Equal arguments give equal names.
    package init(file: String, digits: String) {
        let safe = file.utf8.prefix(Self.longestProgram).map { Self.isSafe($0) ? $0 : UInt8(ascii: "_") }
        started = Timestamp(rawValue: 0)
        let name = safe.isEmpty ? "program" : String(decoding: safe, as: UTF8.self)
        stem = "\(started.compact)-\(name)-0-\(digits.prefix(Self.suffixDigits))"
    }

    package var plain: String { stem + Self.plainExtension }
    package var compressed: String { stem + Self.compressedExtension }
    var temporary: String { Self.temporary(for: plain) }
    var compressedTemporary: String { Self.temporary(for: compressed) }

    private static func temporary(for name: String) -> String { ".\(name).tmp" }

    /// Parses a file name; nil if a store did not make it.
    package static func parse(_ file: String) -> (name: ReportName, form: Form)? {
        var text = file[...]
        let isTemporary = text.hasPrefix(".") && text.hasSuffix(".tmp")
        if isTemporary { text = text.dropFirst().dropLast(4) }
        let isCompressed = text.hasSuffix(compressedExtension)
        guard isCompressed || text.hasSuffix(plainExtension) else { return nil }
        text = text.dropLast(isCompressed ? compressedExtension.count : plainExtension.count)
        guard let name = ReportName(stem: String(text)) else { return nil }
        return (name, isTemporary ? .temporary : isCompressed ? .compressed : .plain)
    }

    private init?(stem: String) {
        let parts = stem.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.count >= 4, let first = parts.first, let started = Timestamp(compact: String(Substring(first))),
            let suffix = parts.last, suffix.count == Self.suffixDigits, suffix.allSatisfy(Self.isHexadecimal),
            case let processID = parts[parts.count - 2], (1...19).contains(processID.count),
            processID.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        let program = parts[1..<(parts.count - 2)].joined(separator: [UInt8(ascii: "-")])
        let count = Array(program).count
        guard (1...Self.longestProgram).contains(count), program.allSatisfy(Self.isSafe) else { return nil }
        self.stem = stem
        self.started = started
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    private static func isSafe(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39: true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "-"): true
        default: false
        }
    }
}
