// Draws heap and quarantine of a process over time: three inline SVG strips on one time axis, with marks for findings.

struct TimelinePicture {
    /// A finding's position in time; `number` is the finding's number on the page.
    struct Mark: Hashable {
        var time: Timestamp
        var number: Int
    }

    let processID: Int
    private let samples: [TimelineSample]
    private let marks: [Mark]
    private let start: Int64
    private let span: Int64

    // Dimensions of the drawing.
    private static let width = 1000.0
    private static let left = 76.0
    private static let right = 988.0
    private static let top = 26.0
    private static let gap = 16.0
    /// Limit on the points of a curve. With more samples, each group of adjacent samples is replaced by its maximum.
    private static let mostPoints = 500
    private static let mostMarks = 60

    /// Nil unless there are two samples with different times.
    init?(_ samples: [TimelineSample], marks: [Mark]) {
        let sorted = samples.sorted { $0.time < $1.time }
        guard let first = sorted.first, let last = sorted.last, first.time < last.time else { return nil }
        let begin = min(first.time, marks.map(\.time).min() ?? first.time)
        // Limit the axis to a quarter beyond the samples: a mark far outside of the samples, as after a clock change,
        // would compress the curves.
        let length = last.time.milliseconds - first.time.milliseconds
        let start = max(begin.milliseconds, first.time.milliseconds - length / 4)
        let latest = marks.map(\.time.milliseconds).max() ?? 0
        let end = min(max(last.time.milliseconds, latest), last.time.milliseconds + length / 4)
        self.start = start
        span = end - start
        processID = first.processID
        self.samples = Self.thinned(sorted)
        self.marks = marks.filter { (start...end).contains($0.time.milliseconds) }
    }

    private static func thinned(_ samples: [TimelineSample]) -> [TimelineSample] {
        if samples.count <= mostPoints { return samples }
        let group = (samples.count + mostPoints - 1) / mostPoints
        return stride(from: 0, to: samples.count, by: group).map { from in
            var kept = samples[from]
            for sample in samples[from..<min(from + group, samples.count)] {
                for counter in TimelineSample.counters {
                    kept[keyPath: counter.path] = max(kept[keyPath: counter.path], sample[keyPath: counter.path])
                }
            }
            return kept
        }
    }

    private struct Curve: Sendable {
        var style: String
        var name: String
        var isArea = false
        var value: KeyPath<TimelineSample, UInt64> & Sendable
    }

    private static let strips: [(title: String, height: Double, curves: [Curve])] = [
        (
            "heap", 96,
            [
                Curve(style: "live", name: "in use", isArea: true, value: \.liveBytes),
                Curve(style: "committed", name: "committed", value: \.heapCommittedBytes),
            ]
        ),
        (
            "quarantine", 74,
            [
                Curve(style: "held", name: "freed blocks", isArea: true, value: \.quarantinedBytes),
                Curve(style: "cap", name: "limit of the quarantine", value: \.quarantineCap),
            ]
        ),
        (
            "retired", 56,
            [Curve(style: "retired", name: "address space of retired blocks", isArea: true, value: \.retiredBytes)]
        ),
    ]

    /// A `figure` element with legend and drawing.
    var figure: String {
        var drawing = ""
        var titles = "" // drawn on top of the curves
        var legend = ""
        var y = Self.top
        for strip in Self.strips {
            let values = strip.curves.flatMap { curve in samples.map { $0[keyPath: curve.value] } }
            guard let largest = values.max(), largest > 0 || strip.title == "heap" else { continue }
            let top = Self.axisTop(largest)
            drawing += axis(top, y, strip.height)
            titles += #"<text class="st" x="\#(points(Self.left + 7))" y="\#(points(y + 14))">\#(strip.title)</text>"#
            for curve in strip.curves where samples.contains(where: { $0[keyPath: curve.value] > 0 }) {
                drawing += path(curve, top, y, strip.height)
                legend += #"<span class="key k-\#(curve.style)">\#(strip.title): \#(curve.name)</span>"#
            }
            y += strip.height + Self.gap
        }
        let bottom = y - Self.gap
        drawing = findingMarks(bottom) + drawing + titles + timeAxis(bottom)
        let some = marks.count > Self.mostMarks ? " (the first \(Self.mostMarks) of \(marks.count))" : ""
        if !marks.isEmpty { legend += #"<span class="key k-mark">finding\#(some)</span>"# }
        return """
            <figure class="tl"><figcaption>\(legend)</figcaption><div class="scroll"><svg viewBox="0 0 \(points(Self.width)) \
            \(points(bottom + 38))" role="img" aria-label="heap and quarantine over \(duration(span))">\(drawing)</svg></div>\
            </figure>
            """
    }

    private func x(_ milliseconds: Int64) -> Double {
        Self.left + Double(milliseconds - start) / Double(span) * (Self.right - Self.left)
    }

    private func path(_ curve: Curve, _ top: UInt64, _ y: Double, _ height: Double) -> String {
        let bottom = y + height
        var path = ""
        for sample in samples {
            let value = bottom - Double(sample[keyPath: curve.value]) / Double(top) * height
            path += "\(path.isEmpty ? "M" : "L")\(points(x(sample.time.milliseconds))) \(points(value))"
        }
        guard curve.isArea, let first = samples.first, let last = samples.last else {
            return #"<path class="line \#(curve.style)" d="\#(path)"/>"#
        }
        let area =
            path + "L\(points(x(last.time.milliseconds))) \(points(bottom))H\(points(x(first.time.milliseconds)))z"
        return #"<path class="area \#(curve.style)" d="\#(area)"/><path class="line \#(curve.style)" d="\#(path)"/>"#
    }

    // MARK: axes

    /// Rounds up to 2^n or 3 · 2^n, so that half of the value is round, too.
    static func axisTop(_ largest: UInt64) -> UInt64 {
        var power: UInt64 = 4
        while power < 1 << 62, power < largest { power *= 2 }
        let three = power / 4 * 3
        return three >= largest ? three : power
    }

    private func axis(_ top: UInt64, _ y: Double, _ height: Double) -> String {
        var text = ""
        var path = ""
        for (share, value) in [(0.0, top), (0.5, top / 2), (1.0, 0)] {
            let line = y + share * height
            path += "M\(points(Self.left)) \(points(line))H\(points(Self.right))"
            if height < 70, share == 0.5 { continue }
            let at = points(line + (share == 0 ? 8 : 4))
            text +=
                #"<text class="tk" x="\#(points(Self.left - 5))" y="\#(at)" text-anchor="end">\#(byteTick(value))</text>"#
        }
        return #"<path class="grid" d="\#(path)"/>"# + text
    }

    private func byteTick(_ bytes: UInt64) -> String {
        if bytes == 0 { return "0" }
        return bytes < 1024 ? "\(bytes) B" : binarySizeText(bytes)
    }

    private func timeAxis(_ bottom: Double) -> String {
        var text = ""
        let step = Self.timeStep(span)
        for time in stride(from: Int64(0), through: span, by: Int64.Stride(step)) {
            let at = x(start + time)
            if at > Self.right - 18, time < span { break }
            text += #"<path class="grid" d="M\#(points(at)) \#(points(bottom))v5"/>"#
            text +=
                #"<text class="tk" x="\#(points(at))" y="\#(points(bottom + 17))" text-anchor="middle">\#(duration(time))</text>"#
        }
        let from = Timestamp(milliseconds: start).description
        return text
            + #"<text class="tk" x="\#(points(Self.left))" y="\#(points(bottom + 32))">time since \#(from)</text>"#
    }

    /// Returns a round step that divides the span into about eight parts, both in milliseconds.
    static func timeStep(_ span: Int64) -> Int64 {
        let minute: Int64 = 60_000
        let steps: [Int64] =
            [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000]
            + [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map { $0 * minute }
        return steps.first { span / $0 <= 9 } ?? (span / (1440 * minute) / 8 + 1) * 1440 * minute
    }

    private func duration(_ milliseconds: Int64) -> String {
        if milliseconds == 0 { return "0" }
        if milliseconds < 1000 { return "\(milliseconds) ms" }
        let seconds = milliseconds / 1000
        if seconds < 60 {
            let tenths = milliseconds / 100 % 10
            return tenths == 0 ? "\(seconds) s" : "\(seconds).\(tenths) s"
        }
        if seconds < 3600 { return seconds % 60 == 0 ? "\(seconds / 60) min" : "\(seconds / 60) min \(seconds % 60) s" }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60)
        if hours >= 48, hours % 24 == 0, minutes == 0 { return "\(hours / 24) d" }
        return minutes == 0 ? "\(hours) h" : "\(hours) h \(minutes) min"
    }

    // MARK: findings

    // A vertical line through all strips for each finding, up to `mostMarks`, with the number on top if there is room.
    private func findingMarks(_ bottom: Double) -> String {
        var text = ""
        var free = 0.0
        for mark in marks.sorted(by: { $0.time < $1.time }).prefix(Self.mostMarks) {
            let at = x(mark.time.milliseconds)
            text +=
                ##"<a href="#f\##(mark.number)"><path class="mk" d="M\##(points(at)) \##(points(Self.top - 6))V\##(points(bottom))"/>"##
            text += #"<path class="mh" d="M\#(points(at)) \#(points(Self.top - 5))l-4 -7h8z"/>"#
            let name = "\(mark.number)"
            let room = Double(name.count) * 7 + 6
            if at - room / 2 >= free {
                text +=
                    #"<text class="ml" x="\#(points(at))" y="\#(points(Self.top - 15))" text-anchor="middle">\#(name)</text>"#
                free = at + room / 2
            }
            text += "</a>"
        }
        return text
    }
}
