// What the statistics page of a guarded process says.

import CZombie

/// A copy of the statistics of a guarded process.
public struct Statistics: Sendable {
    /// A counter and what it means.
    public struct Counter: Hashable, Sendable {
        public var name: String
        /// `counter`, which only grows, or `gauge`.
        public var type: String
        public var unit: String
        public var text: String
        public var value: UInt64
    }

    /// Something that the runtime could not have and goes on without.
    public struct Degradation: Hashable, Sendable {
        public var name: String
        public var text: String
    }

    public var processID: Int
    public var program: String
    public var runtimeVersion: String
    /// The options as given in ZGUARD_OPTIONS.
    public var options: String
    /// When the process started, in nanoseconds since 1970.
    public var started: UInt64
    /// Whether requests are answered at once; otherwise at the process's next slow allocation or free.
    public var hasMaintenanceThread: Bool
    /// The path of the image whose malloc the program meets in front of ours or behind, where it is not libc's; empty otherwise.
    public var allocator: String
    public var counters: [Counter]
    public var degradations: [Degradation]

    /// What was watched, and why not more. A child's begins with what its parent had watched when it forked.
    public var coverage: Coverage

    let layout: HeapLayout

    /// The value of a counter; 0 where there is none of that name.
    public subscript(name: String) -> UInt64 { counters.first { $0.name == name }?.value ?? 0 }

    /// Decodes a copy of the page.
    init(page: zg_stats_page, processID: Int) {
        self.processID = processID
        program = withUnsafeBytes(of: page.program) { text(in: $0) }
        runtimeVersion = withUnsafeBytes(of: page.runtime_version) { text(in: $0) }
        options = withUnsafeBytes(of: page.options) { text(in: $0) }
        started = page.started_ns
        hasMaintenanceThread = page.has_maintenance_thread != 0
        allocator = withUnsafeBytes(of: page.allocator) { text(in: $0) }
        let values = withUnsafeBytes(of: page.counters) { Array($0.bindMemory(to: UInt64.self)) }
        counters = zip(Self.counterTable, values).map { info, value in
            Counter(name: info.name, type: info.type, unit: info.unit, text: info.text, value: value)
        }
        degradations = Self.degradationTable.enumerated().compactMap { index, degradation in
            page.degradations >> UInt64(index) & 1 == 1 ? degradation : nil
        }
        layout = HeapLayout(page.layout)
        let firstTimes = withUnsafeBytes(of: page.shortfalls) { notes in
            notes.bindMemory(to: zg_shortfall_note.self).map(\.first_ns)
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
    public init(_ statistics: Statistics, time: Timestamp = .now) {
        self.init(time: time, processID: statistics.processID, program: statistics.program)
        for counter in Self.counters { self[keyPath: counter.path] = statistics[counter.name] }
    }
}

/// The text in a field of fixed size, up to its NUL.
private func text(in field: UnsafeRawBufferPointer) -> String {
    String(decoding: field.prefix { $0 != 0 }, as: UTF8.self)
}
