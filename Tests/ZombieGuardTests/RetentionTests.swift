// Ages, counts, sizes and dates as given on command lines.

import Glibc
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct RetentionTests {
    static let ages: [(text: String, seconds: Int64?)] = [
        ("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800), ("2w", 1_209_600), ("none", nil), ("0001d", 86400),
        ("36600d", 3_162_240_000),
    ]

    @Test(arguments: ages) func ageIsUnderstood(row: (text: String, seconds: Int64?)) throws {
        #expect(try Retention.age(row.text) == row.seconds)
    }

    static let badAges = [
        "", "d", "7", "0d", "-1d", "+1d", "1.5d", "7 d", "7D", "7dd", "1d12h", "36601d", "99999999999999999999d", "٧d",
        "d7",
        "None", "7d\n",
    ]

    @Test(arguments: badAges) func badAgeIsRefused(text: String) {
        #expect(throws: ValueError(expected: "a number with s, m, h, d or w, such as 12h or 7d, or none")) {
            try Retention.age(text)
        }
    }

    static let sizes: [(text: String, bytes: UInt64?)] = [
        ("1", 1), ("64k", 65536), ("256m", 268_435_456), ("256M", 268_435_456), ("2g", 2 << 30), ("1t", 1 << 40),
        ("4194304t", 1 << 62), ("4611686018427387904", 1 << 62), ("none", nil),
    ]

    @Test(arguments: sizes) func sizeIsUnderstood(row: (text: String, bytes: UInt64?)) throws {
        #expect(try Retention.bytes(row.text) == row.bytes)
    }

    @Test(arguments: [
        "", "m", "0", "0m", "-1m", "1.5m", "256mb", "256 m", "4194305t", "99999999999999999999", "1e9", "٧m",
    ])
    func badSizeIsRefused(text: String) {
        #expect(throws: ValueError.self) { try Retention.bytes(text) }
    }

    @Test func counts() throws {
        #expect(try Retention.count("1") == 1)
        #expect(try Retention.count("1000000000") == 1_000_000_000)
        #expect(try Retention.count("none") == nil)
        for text in ["", "0", "-1", "+1", "1k", "1000000001", "99999999999999999999"] {
            #expect(throws: ValueError(expected: "1 to 1000000000, or none")) { try Retention.count(text) }
        }
    }

    // 2026-11-21T20:39:21Z
    private static let now = Timestamp(rawValue: 1_795_293_561_000_000_000)

    static let moments: [(text: String, result: String)] = [
        ("2d", "2026-11-19T20:39:21Z"), ("90s", "2026-11-21T20:37:51Z"), ("0s", "2026-11-21T20:39:21Z"),
        ("2026-11-20", "2026-11-20T00:00:00Z"), ("2026-11-20T10:05", "2026-11-20T10:05:00Z"),
        ("2026-11-20 10:05:30Z", "2026-11-20T10:05:30Z"), ("2026-11-20t10:05:30.123456z", "2026-11-20T10:05:30.123Z"),
        ("2026-11-20T00:30+01:00", "2026-11-19T23:30:00Z"), ("2026-12-31T23:30:00-0530", "2027-01-01T05:00:00Z"),
        ("2024-02-29T23:59:59+00", "2024-02-29T23:59:59Z"), ("1970-01-01", "1970-01-01T00:00:00Z"),
        ("2261-12-31", "2261-12-31T00:00:00Z"),
    ]

    @Test(arguments: moments) func since(row: (text: String, result: String)) throws {
        #expect(try Timestamp(since: row.text, now: Self.now).description == row.result)
    }

    static let badMoments = [
        "", "now", "yesterday", "2026", "2026-11", "2026-13-01", "2026-00-01", "2026-02-30", "2025-02-29", "2026-11-31",
        "2026-11-20T", "2026-11-20T10", "2026-11-20T24:00", "2026-11-20T10:60", "2026-11-20T10:00:60",
        "2026-11-20T10:00:00.",
        "2026-11-20T10:00+", "2026-11-20T10:00+24:00", "2026-11-20T10:00+01:60", "2026-11-20T10:00ZZ", "2026-11-20x",
        "26-11-20", "2026-1-2", "20261120", " 2026-11-20", "2026-11-20 ", "1969-12-31", "2262-01-01", "9999999999999d",
        "２０２６-11-20",
    ]

    @Test(arguments: badMoments) func badSinceIsRefused(text: String) {
        #expect(throws: ValueError.self) { try Timestamp(since: text, now: Self.now) }
    }

    @Test func timesOfFilesMayLieAnywhere() {
        #expect(Timestamp(timespec(tv_sec: .max, tv_nsec: 0)) == Timestamp(rawValue: .max))
        #expect(Timestamp(timespec(tv_sec: .min, tv_nsec: 0)) == Timestamp(rawValue: .min))
        #expect(Timestamp(rawValue: .min).description.hasPrefix("1677-"))
        #expect(Timestamp(rawValue: .max).description.hasPrefix("2262-"))
        #expect(Timestamp(rawValue: -1).compact == "19691231T235959.999Z")
        #expect(Timestamp(rawValue: .min).earlier(bySeconds: 1) == Timestamp(rawValue: .min))
    }
}
