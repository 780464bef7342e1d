// The heat map of versions over time.

import Testing

@testable import ZombieGuardFleet

@Suite struct HeatMapTests {
    /// The scale explains the colour of every cell, whatever the largest count is.
    @Test(arguments: [1, 2, 3, 7, 40, 1_000_000] as [Int64]) func everyColourIsInTheScale(most: Int64) throws {
        let cells = (1...9).map { day in
            FleetReader.Heat(
                column: "2026-11-0\(day)", version: "1.\(day % 2)", versionKey: "\(day % 2)",
                occurrences: max(1, most / Int64(day * day)))
        }
        let map = try #require(HeatMap(cells, by: .day, from: "2026-11-01", to: "2026-11-09"))
        let parts = map.section("a group").split(separator: "class=\"scale\"")
        try #require(parts.count == 2)
        let used = Set(parts[0].matches(of: /<td class="(h\d)"/).map { $0.output.1 })
        let explained = Set(parts[1].matches(of: /class="(h\d)"/).map { $0.output.1 })
        #expect(!used.isEmpty && used.isSubset(of: explained), "\(used) \(explained)")
    }
}
