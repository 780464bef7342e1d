// Shows which classes of the watched processes grow fastest, for `zguard stats --watch`.

import ZombieGuard
import ZombieGuardGraph

/// Scans the heaps of processes from time to time. The processes are not stopped.
struct ClassGrowth {
    private struct Process {
        var started: UInt64
        /// Amounts at the first scan, by class label.
        var first: [String: HeapSummary.Amount]
        var rows: [Row] = []
    }

    private struct Row {
        var program: String
        var name: String
        var amount: HeapSummary.Amount
        var grownBlocks: Int
        var grownBytes: Int64
    }

    static let shown = 5
    /// Least time from the start of a scan to the next scan, as a multiple of the scan's duration: scans take at most a
    /// twentieth of a processor. A scan reads the records and the first words of all blocks.
    private static let timesBetween: UInt64 = 20

    private var processes: [Int: Process] = [:]
    private var next: UInt64 = 0
    private var nanoseconds: UInt64 = 0

    /// Scans the processes, unless the time since the last scan is less than ``timesBetween`` times the duration of
    /// that scan.
    ///
    /// - Parameters:
    ///   - all: statistics of the processes.
    ///   - areNamed: whether the user has named the processes; otherwise processes of other users are left out.
    mutating func look(at all: [Statistics], areNamed: Bool) {
        let start = MonotonicTime.nanoseconds
        if start < next { return }
        let before = processes
        processes = [:]
        for statistics in all {
            guard let process = try? GuardedProcess(processID: statistics.processID),
                areNamed || process.author == .own, let snapshot = try? HeapSnapshot.of(process, .blocks)
            else { continue }
            let rows = HeapSummary(snapshot, ClassTable(snapshot)).classes
            let amounts = Dictionary(rows.map { ($0.label, $0.amount) }, uniquingKeysWith: { a, _ in a })
            var known = Process(started: statistics.started, first: amounts)
            if let earlier = before[statistics.processID], earlier.started == statistics.started {
                known.first = earlier.first
            }
            known.rows = rows.map { row in
                let first = known.first[row.label] ?? .init()
                return Row(
                    program: statistics.program, name: row.label, amount: row.amount,
                    grownBlocks: row.amount.blocks &- first.blocks,
                    grownBytes: Int64(clamping: row.amount.bytes) &- Int64(clamping: first.bytes))
            }
            processes[statistics.processID] = known
        }
        nanoseconds = MonotonicTime.nanoseconds - start
        next = start + nanoseconds * Self.timesBetween
    }

    /// The classes that have grown most since the first scan, and the duration of a scan.
    var text: String {
        let rows = processes.values.flatMap(\.rows).filter { $0.grownBytes > 0 }
            .sorted { ($1.grownBytes, $0.name) < ($0.grownBytes, $1.name) }
        let cost = "a look takes \(nanoseconds / 1_000_000) ms and does not stop the process"
        if rows.isEmpty { return "no class has grown since the watch began; \(cost)\n" }
        var lines = [["    blocks", "     bytes", "    blocks", "     bytes", "class"]]
        for row in rows.prefix(Self.shown) {
            let program =
                processes.count > 1 ? "  \(visible(String(row.program.split(separator: "/").last ?? "")))" : ""
            lines.append([
                groupedText(UInt64(row.amount.blocks)), byteText(row.amount.bytes), signedText(row.grownBlocks),
                signedByteText(row.grownBytes), visible(row.name) + program,
            ])
        }
        return "classes that have grown most since the watch began; \(cost):\n"
            + table(lines, rightAligned: [0, 1, 2, 3])
    }
}
