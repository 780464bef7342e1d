// Timeline samples and times in files; the schema of samples must match the table of counters.

import CZombie
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct SchemaTests {
    private let project = ProjectFiles()

    @Test func timelineSchemaNamesTheCounters() throws {
        let properties = try #require(try project.schema("timeline")["properties"] as? [String: [String: Any]])
        #expect(
            Set(properties.keys) == Set(TimelineSample.counters.map(\.name) + ["schema", "time", "pid", "program"]))
        #expect(properties["schema"]?["const"] as? String == TimelineSample.schema)
        let counters = Dictionary(uniqueKeysWithValues: Statistics.counterTable.map { ($0.name, $0) })
        for counter in TimelineSample.counters {
            #expect(counters[counter.name] != nil, "\(counter.name) is no counter")
        }
    }

    @Test func sampleGoesThroughJSON() throws {
        var sample = TimelineSample(
            time: Timestamp(milliseconds: 1_790_000_000_123), processID: 42, program: "/opt/\"ü\"\n")
        for (number, counter) in TimelineSample.counters.enumerated() {
            sample[keyPath: counter.path] = .max - UInt64(number)
        }
        #expect(TimelineSample(jsonLine: sample.jsonLine) == sample)
        #expect(!sample.jsonLine.contains("\n"))
        #expect(
            sample.jsonLine.hasPrefix(#"{"schema":"zguard.timeline/1","time":"2026-09-21T14:13:20.123Z","pid":42,"#))
    }

    @Test func sampleOfStatistics() throws {
        var page = zg_stats_page()
        withUnsafeMutableBytes(of: &page.counters) { bytes in
            for (index, counter) in Statistics.counterTable.enumerated() {
                bytes.storeBytes(of: UInt64(counter.name.utf8.count * 1000), toByteOffset: index * 8, as: UInt64.self)
            }
        }
        let moment = Timestamp(milliseconds: 5000)
        let sample = TimelineSample(Statistics(page: page, processID: 9), time: moment)
        #expect(sample.processID == 9 && sample.time == moment)
        for counter in TimelineSample.counters {
            #expect(sample[keyPath: counter.path] == UInt64(counter.name.utf8.count * 1000), "\(counter.name)")
        }
    }

    @Test func whatASampleLacksIsZeroAndWhatItHasMoreIsIgnored() {
        let sample = TimelineSample(
            jsonLine: #"{"schema":"zguard.timeline/1","time":"1970-01-01T00:00:01Z","pid":1,"live_bytes":5,"new":[]}"#)
        var expected = TimelineSample(time: Timestamp(milliseconds: 1000), processID: 1)
        expected.liveBytes = 5
        #expect(sample == expected)
    }

    @Test(arguments: [
        "", "{}", "[]", #"{"schema":"zguard.finding/1","time":"1970-01-01T00:00:01Z","pid":1}"#,
        #"{"schema":"zguard.timeline/1","pid":1}"#, #"{"schema":"zguard.timeline/1","time":"now","pid":1}"#,
        #"{"schema":"zguard.timeline/1","time":"1970-01-01T00:00:01Z"}"#,
        #"{"schema":"zguard.timeline/1","time":"1970-01-01T00:00:01Z","pid":1,"live_bytes":-1}"#,
        #"{"schema":"zguard.timeline/1","time":"1970-01-01T00:00:01Z","pid":1,"live_bytes":"5"}"#,
        #"{"schema":"zguard.timeline/1","time":"1970-01-01T00:00:01Z","pid":1,"live_bytes":5"#,
    ]) func noSample(line: String) { #expect(TimelineSample(jsonLine: line) == nil) }

    @Test func timesGoThroughText() {
        let latest: Int64 = 9_214_646_399_999 // the end of the year 2261
        for milliseconds in [0, 1, 999, 951_782_399_999, 951_782_400_000, 1_709_164_800_000, 4_107_542_399_999, latest]
        {
            let time = Timestamp(milliseconds: milliseconds)
            #expect(Timestamp(time.description) == time)
        }
        // Check one time of each day until `latest`; the time of day changes by a millisecond.
        var milliseconds: Int64 = 0
        while milliseconds < latest {
            let time = Timestamp(milliseconds: milliseconds)
            if Timestamp(time.description) != time { Issue.record("\(time)") }
            milliseconds += 86_399_999
        }
        #expect(Timestamp(milliseconds: .max).rawValue == .max)
        #expect(Timestamp(milliseconds: 951_782_400_000).description == "2000-02-29T00:00:00Z")
        #expect(Timestamp(milliseconds: 951_782_400_007).description == "2000-02-29T00:00:00.007Z")
    }

    @Test(arguments: [
        ("1970-01-01T00:00:00Z", Int64(0)), ("1970-01-01T00:00:00.5Z", 500),
        ("2000-02-29T00:00:00.000000001Z", 951_782_400_000), ("1970-01-01T00:00:00.1239999999999Z", 123),
    ])
    func times(text: String, milliseconds: Int64) { #expect(Timestamp(text)?.milliseconds == milliseconds) }

    @Test(arguments: [
        "", "Z", "1969-12-31T23:59:59Z", "1970-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z", "1970-13-01T00:00:00Z", "1970-00-01T00:00:00Z", "1970-01-00T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z", "1970-01-01T00:00:61Z", "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:0٣Z", "+970-01-01T00:00:00Z",
    ]) func noTime(text: String) { #expect(Timestamp(text) == nil) }
}
