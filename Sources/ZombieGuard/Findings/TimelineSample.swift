// Defines a sample of a guarded process's heap, which is a JSON line of its own between the findings of a report.

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Sizes of a guarded process's heap and quarantine at one moment. As a line of a report:
/// `{"schema":"zguard.timeline/1","time":"…","pid":1,"program":"…","live_bytes":…}`. Names and meanings of the counters
/// are those of the statistics page; a counter missing from a line is 0.
public struct TimelineSample: Hashable, Sendable {
    /// The JSON schema that this version reads and writes.
    public static let schema = "zguard.timeline/1"

    /// Time of the sample, truncated to milliseconds as in the JSON form.
    public var time: Timestamp
    /// Process id of the sampled process.
    public var processID: Int
    /// Path of the program's executable.
    public var program: String?
    /// Live blocks.
    public var liveBlocks: UInt64 = 0
    /// Bytes in live blocks.
    public var liveBytes: UInt64 = 0
    /// Freed blocks in quarantine.
    public var quarantinedBlocks: UInt64 = 0
    /// Bytes of freed blocks in quarantine.
    public var quarantinedBytes: UInt64 = 0
    /// Current capacity of the quarantine in bytes.
    public var quarantineCap: UInt64 = 0
    /// Freed blocks whose pages are protected, so that any access faults.
    public var retiredBlocks: UInt64 = 0
    /// Address space, not memory, held by retired blocks, in bytes.
    public var retiredBytes: UInt64 = 0
    /// Address space of the guarded heap that is or may be backed by memory, in bytes.
    public var heapCommittedBytes: UInt64 = 0
    /// Address space of metadata (block records and stacks) that is or may be backed by memory, in bytes.
    public var metadataBytes: UInt64 = 0
    /// Number of findings so far.
    public var findings: UInt64 = 0
    /// Memory pressure level. 0: memory suffices, 1: memory is getting short, 2: memory is short.
    public var pressureLevel: UInt64 = 0
    /// Share of the processor time that guarding costs, in thousandths.
    public var overheadPermille: UInt64 = 0

    /// The counters by their names in statistics and in JSON.
    public static let counters: [(name: String, path: WritableKeyPath<TimelineSample, UInt64> & Sendable)] = [
        ("live_blocks", \.liveBlocks), ("live_bytes", \.liveBytes), ("quarantined_blocks", \.quarantinedBlocks),
        ("quarantined_bytes", \.quarantinedBytes), ("quarantine_cap", \.quarantineCap),
        ("retired_blocks", \.retiredBlocks), ("retired_bytes", \.retiredBytes),
        ("heap_committed_bytes", \.heapCommittedBytes), ("metadata_bytes", \.metadataBytes), ("findings", \.findings),
        ("pressure_level", \.pressureLevel), ("overhead_permille", \.overheadPermille),
    ]

    /// Creates a sample with all counters 0. The time is truncated to milliseconds.
    ///
    /// - Parameters:
    ///   - time: when the process was sampled.
    ///   - processID: process id of the process.
    ///   - program: path of the program's executable.
    public init(time: Timestamp, processID: Int, program: String? = nil) {
        self.time = Timestamp(milliseconds: time.milliseconds)
        self.processID = processID
        self.program = program
    }

    /// The sample as one line of a report, without the line feed.
    public var jsonLine: String { json.line }

    /// The sample as JSON.
    public var json: JSONText {
        .object(
            [
                ("schema", .string(Self.schema)), ("time", .string(time.description)),
                ("pid", .integer(Int64(processID))), ("program", program.map { .string($0) }),
            ] + Self.counters.map { ($0.name, .natural(self[keyPath: $0.path])) })
    }

    /// Parses one line of a report; nil if the line does not have the schema ``schema``.
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

    /// Ignores unknown keys. Throws if the schema differs, time or process is missing, or a value has the wrong type.
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
