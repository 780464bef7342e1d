// Decodes the statistics page of a guarded process.

import CZombie

/// A snapshot of the statistics of a guarded process.
public struct Statistics: Sendable {
    /// A counter with its description.
    public struct Counter: Hashable, Sendable {
        /// Name as in `zguard stats --json`.
        public var name: String
        /// `counter` (monotonic) or `gauge`.
        public var type: String
        /// Unit, such as `bytes`.
        public var unit: String
        /// Description in one line.
        public var text: String
        /// Value at the time of the snapshot.
        public var value: UInt64
    }

    /// A facility that is missing in this process, so that the runtime works in a reduced way.
    public struct Degradation: Hashable, Sendable {
        /// Name as in `zguard stats --json`.
        public var name: String
        /// Description in one line.
        public var text: String
    }

    /// Process ID.
    public var processID: Int
    /// Path of the executable.
    public var program: String
    /// Version of the runtime.
    public var runtimeVersion: String
    /// Value of ZGUARD_OPTIONS.
    public var options: String
    /// Start time, in nanoseconds since 1970.
    public var started: UInt64
    /// Whether the process answers requests of zguard at once. If not, it answers at its next allocation or free that
    /// takes the slow path.
    public var hasMaintenanceThread: Bool
    /// Path of an image with a third malloc, neither libc's nor the runtime's, that serves the program; empty if there
    /// is none.
    public var allocator: String
    /// Counters in the order of the statistics page.
    public var counters: [Counter]
    /// The facilities that are missing in this process; empty if none is.
    public var degradations: [Degradation]

    /// Coverage and its reason. After fork, a child starts with its parent's counts.
    public var coverage: Coverage

    /// Addresses and sizes of the heap's metadata, as on the page.
    package let rawLayout: zg_layout

    /// Value of a counter; 0 if there is no counter of that name.
    public subscript(name: String) -> UInt64 { counters.first { $0.name == name }?.value ?? 0 }

    /// Decodes a copy of the page.
    package init(page: zg_stats_page, processID: Int) {
        self.processID = processID
        program = withUnsafeBytes(of: page.program) { fieldText($0) }
        runtimeVersion = withUnsafeBytes(of: page.runtime_version) { fieldText($0) }
        options = withUnsafeBytes(of: page.options) { fieldText($0) }
        started = page.started_ns
        hasMaintenanceThread = page.has_maintenance_thread != 0
        allocator = withUnsafeBytes(of: page.allocator) { fieldText($0) }
        let values = withUnsafeBytes(of: page.counters) { Array($0.bindMemory(to: UInt64.self)) }
        counters = zip(Self.counterTable, values).map { info, value in
            Counter(name: info.name, type: info.type, unit: info.unit, text: info.text, value: value)
        }
        degradations = Self.degradationTable.enumerated().compactMap { index, degradation in
            page.degradations >> UInt64(index) & 1 == 1 ? degradation : nil
        }
        rawLayout = page.layout
        let firstTimes = withUnsafeBytes(of: page.coverage_reasons) { notes in
            notes.bindMemory(to: zg_coverage_reason_note.self).map(\.first_ns)
        }
        let named = counters
        coverage = Coverage(
            counter: { name in named.first { $0.name == name }?.value ?? 0 }, firstTimes: firstTimes, start: started)
    }

    /// All counters, with value 0.
    public static let counterTable: [Counter] = withUnsafeBytes(of: zg_counter_table) { bytes in
        bytes.bindMemory(to: zg_counter_info.self).map {
            Counter(
                name: String(cString: $0.name), type: String(cString: $0.type), unit: String(cString: $0.unit),
                text: String(cString: $0.text), value: 0)
        }
    }

    /// All degradations, indexed by their bit on the page.
    public static let degradationTable: [Degradation] = withUnsafeBytes(of: zg_degradation_table) { bytes in
        bytes.bindMemory(to: zg_degradation_info.self).map {
            Degradation(name: String(cString: $0.name), text: String(cString: $0.text))
        }
    }
}

extension TimelineSample {
    /// A sample of statistics read at `time`.
    ///
    /// - Parameters:
    ///   - statistics: statistics of one process.
    ///   - time: when the statistics were read.
    public init(_ statistics: Statistics, time: Timestamp = .now) {
        self.init(time: time, processID: statistics.processID, program: statistics.program)
        for counter in Self.counters { self[keyPath: counter.path] = statistics[counter.name] }
    }
}

/// Text of a fixed-size field, up to the NUL.
package func fieldText(_ field: UnsafeRawBufferPointer) -> String {
    String(decoding: field.prefix { $0 != 0 }, as: UTF8.self)
}
