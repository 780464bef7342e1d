// What the statistics page of a guarded process says.

import CZombie

/// A copy of the statistics of a guarded process.
public struct Statistics: Sendable {
    /// A counter and what it means.
    public struct Counter: Hashable, Sendable {
        /// As in `zguard stats --json`.
        public var name: String
        /// `counter`, which only grows, or `gauge`.
        public var type: String
        /// What it counts, such as `bytes`.
        public var unit: String
        /// What it means, in one line.
        public var text: String
        /// As it was when the copy was made.
        public var value: UInt64
    }

    /// Something that the runtime could not have and goes on without.
    public struct Degradation: Hashable, Sendable {
        /// As in `zguard stats --json`.
        public var name: String
        /// What it means, in one line.
        public var text: String
    }

    /// The process.
    public var processID: Int
    /// Path of its executable.
    public var program: String
    /// Version of the library.
    public var runtimeVersion: String
    /// The options as given in ZGUARD_OPTIONS.
    public var options: String
    /// When the process started, in nanoseconds since 1970.
    public var started: UInt64
    /// Whether requests are answered at once; otherwise at the process's next slow allocation or free.
    public var hasMaintenanceThread: Bool
    /// The path of the image whose malloc the program meets in front of ours or behind, where it is not libc's; empty otherwise.
    public var allocator: String
    /// In the order of the table.
    public var counters: [Counter]
    /// What the runtime could not have; empty where all is well.
    public var degradations: [Degradation]

    /// What was watched, and why not more. A child's begins with what its parent had watched when it forked.
    public var coverage: Coverage

    /// Where the metadata of the heap lies, as the page has it.
    package let rawLayout: zg_layout

    /// The value of a counter; 0 where there is none of that name.
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
        let firstTimes = withUnsafeBytes(of: page.shortfalls) { notes in
            notes.bindMemory(to: zg_coverage_reason_note.self).map(\.first_ns)
        }
        let named = counters
        coverage = Coverage(
            counter: { name in named.first { $0.name == name }?.value ?? 0 }, firstTimes: firstTimes, start: started)
    }

    /// Every counter, with the value 0.
    public static let counterTable: [Counter] = withUnsafeBytes(of: zg_counter_table) { bytes in
        bytes.bindMemory(to: zg_counter_info.self).map {
            Counter(
                name: String(cString: $0.name), type: String(cString: $0.type), unit: String(cString: $0.unit),
                text: String(cString: $0.text), value: 0)
        }
    }

    /// Every degradation there is, in the order of its bit.
    public static let degradationTable: [Degradation] = withUnsafeBytes(of: zg_degradation_table) { bytes in
        bytes.bindMemory(to: zg_degradation_info.self).map {
            Degradation(name: String(cString: $0.name), text: String(cString: $0.text))
        }
    }
}

extension TimelineSample {
    /// What statistics say, read at `time`.
    ///
    /// - Parameters:
    ///   - statistics: of one process.
    ///   - time: when they were read.
    public init(_ statistics: Statistics, time: Timestamp = .now) {
        self.init(time: time, processID: statistics.processID, program: statistics.program)
        for counter in Self.counters { self[keyPath: counter.path] = statistics[counter.name] }
    }
}

/// The text in a field of fixed size, up to its NUL.
package func fieldText(_ field: UnsafeRawBufferPointer) -> String {
    String(decoding: field.prefix { $0 != 0 }, as: UTF8.self)
}
