// Draws the life of a finding's block as a line of events: allocation, free, access, with their threads and functions.

import ZombieGuard

/// The events of a finding in their order. Only the last event has a time: the runtime records no times of allocations.
struct FindingLife {
    private struct Event {
        var style: String
        var name: String
        var thread: Int?
        var function: String?
        var more: String?
    }

    private var events: [Event] = []

    /// Nil if the finding has no block, or no event before the access.
    init?(_ finding: Finding) {
        guard let block = finding.block else { return nil }
        let stacks = finding.stacks
        if !stacks.alloc.isEmpty {
            events.append(
                Event(
                    style: "alloc", name: "allocated", thread: block.allocatingThread,
                    function: Self.function(stacks.alloc)))
        }
        let changes = finding.history.count
        if changes > 0 {
            let last = finding.history.first
            events.append(
                Event(
                    style: "alloc", name: "retained, released", thread: last?.thread, function: nil,
                    more: "last \(changes) changes are known"))
        }
        if !stacks.free.isEmpty {
            events.append(
                Event(
                    style: "free", name: "freed", thread: block.freeingThread, function: Self.function(stacks.free)))
        }
        if events.isEmpty { return nil }
        let times = [finding.firstSeen.map { "first \($0)" }, finding.time].compactMap { $0 }
        events.append(
            Event(
                style: "access", name: Self.words[finding.access] ?? "found", thread: finding.thread?.id,
                function: Self.function(stacks.access), more: times.last))
    }

    private static let words: [Finding.Access: String] = [
        .read: "read", .write: "written", .call: "called", .retain: "retained", .release: "released", .cast: "cast",
        .free: "freed again",
    ]

    private static func function(_ stack: [Finding.Frame]) -> String? {
        (stack.origin ?? stack.first).flatMap { $0.function == nil ? nil : $0.shortPlace }
    }

    /// A list of the events.
    var figure: String {
        var text = "<figure class=\"chart\"><ol class=\"life\">"
        for event in events {
            text += "<li class=\"\(event.style)\"><b>\(event.name)</b>"
            if let thread = event.thread { text += "<small>by thread \(thread)</small>" }
            if let function = event.function { text += "<small>\(htmlText(function, cutAt: 200))</small>" }
            if let more = event.more { text += "<small>\(htmlText(more, cutAt: 80))</small>" }
        }
        return text + "</ol><figcaption>what happened to the block, in this order</figcaption></figure>\n"
    }
}
