// One look at a guarded process's heap. Stands between the findings of a report, as a JSON line of its own.

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What a guarded process's heap and quarantine were at one moment. As a line of a report:
/// `{"schema":"zguard.timeline/1","time":"…","pid":1,"program":"…","live_bytes":…}`; the names of the counters, and what
/// they say, are those of the statistics page. What a line lacks is 0.
public struct TimelineSample: Hashable, Sendable {
    /// The schema that this version reads and writes.
    public static let schema = "zguard.timeline/1"

    /// In whole milliseconds, as it is written.
    public var time: Timestamp
    /// The process that was looked at.
    public var processID: Int
    /// Path of the program's executable.
    public var program: String?
    /// Blocks in use.
    public var liveBlocks: UInt64 = 0
    /// Bytes of blocks in use.
    public var liveBytes: UInt64 = 0
    /// Freed blocks that are held.
    public var quarantinedBlocks: UInt64 = 0
    /// Bytes of freed blocks that are held.
    public var quarantinedBytes: UInt64 = 0
    /// Freed blocks are held until they amount to this much.
    public var quarantineCap: UInt64 = 0
    /// Freed blocks whose pages are protected.
    public var retiredBlocks: UInt64 = 0
    /// Address space, not memory.
    public var retiredBytes: UInt64 = 0
    /// Address space of the guarded heap that is backed or may be backed, in bytes.
    public var heapCommittedBytes: UInt64 = 0
    /// The same of records and stacks.
    public var metadataBytes: UInt64 = 0
    /// Findings so far.
    public var findings: UInt64 = 0
    /// 0: memory suffices, 1: it gets short, 2: it is short.
    public var pressureLevel: UInt64 = 0
    /// What guarding takes of the processor time, in thousandths.
    public var overheadPermille: UInt64 = 0

    /// The counters by the name that they have in statistics and in JSON.
    public static let counters: [(name: String, path: WritableKeyPath<TimelineSample, UInt64> & Sendable)] = [
        ("live_blocks", \.liveBlocks), ("live_bytes", \.liveBytes), ("quarantined_blocks", \.quarantinedBlocks),
        ("quarantined_bytes", \.quarantinedBytes), ("quarantine_cap", \.quarantineCap),
        ("retired_blocks", \.retiredBlocks), ("retired_bytes", \.retiredBytes),
        ("heap_committed_bytes", \.heapCommittedBytes), ("metadata_bytes", \.metadataBytes), ("findings", \.findings),
        ("pressure_level", \.pressureLevel), ("overhead_permille", \.overheadPermille),
    ]

    /// Makes a sample whose counters are 0. The time is cut to milliseconds.
    ///
    /// - Parameters:
    ///   - time: when the process was looked at.
    ///   - processID: its number.
    ///   - program: path of its executable.
    public init(time: Timestamp, processID: Int, program: String? = nil) {
        self.time = Timestamp(milliseconds: time.milliseconds)
        self.processID = processID
        self.program = program
    }

    /// The sample as one line of a report, without a line feed at its end.
    public var jsonLine: String { json.line }

    /// The sample as JSON.
    public var json: JSONText {
        .object(
            [
                ("schema", .string(Self.schema)), ("time", .string(time.description)),
                ("pid", .integer(Int64(processID))), ("program", program.map { .string($0) }),
            ] + Self.counters.map { ($0.name, .natural(self[keyPath: $0.path])) })
    }

    /// Reads one line of a report; nil where it is no sample of ``schema``.
    ///
    /// - Parameter jsonLine: a line without its line feed.
    public init?(jsonLine: String) {
        guard let sample = try? JSONDecoder().decode(TimelineSample.self, from: Data(jsonLine.utf8)) else { return nil }
        self = sample
    }
}

extension TimelineSample: Decodable {
    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { stringValue = name }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Unknown keys are ignored. Throws where the schema is another, the time or process is missing, or a type is wrong.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        func corrupt(_ key: String, _ reason: String) -> DecodingError {
            .dataCorruptedError(forKey: Key(key), in: values, debugDescription: reason)
        }
        let schema = try values.decode(String.self, forKey: Key("schema"))
        guard schema == Self.schema else { throw corrupt("schema", "another schema") }
        guard let time = Timestamp(try values.decode(String.self, forKey: Key("time"))) else {
            throw corrupt("time", "not a time")
        }
        self.init(
            time: time, processID: try values.decode(Int.self, forKey: Key("pid")),
            program: try values.decodeIfPresent(String.self, forKey: Key("program")))
        for counter in Self.counters {
            self[keyPath: counter.path] = try values.decodeIfPresent(UInt64.self, forKey: Key(counter.name)) ?? 0
        }
    }
}
