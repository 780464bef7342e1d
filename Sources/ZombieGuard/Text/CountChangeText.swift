// The retains and releases of an object as text.

extension TextRenderer {
    // Two calls are shown at least: the innermost one may be a helper that releases for others.
    private static let framesShown = [3, 2]

    /// What was asked of an object's count, a line each; empty where nothing is known. Safe to print.
    ///
    /// Where a line releases what it retained just before, as unoptimised code does all the time, both are left out, unless
    /// everything is to be shown.
    ///
    /// - Parameter changes: the newest first.
    /// - Returns: lines that end with a line feed each.
    public func render(_ changes: [Finding.CountChange]) -> String {
        let shown = isFull ? changes : changes.withoutPairs
        guard let last = shown.first else { return "" }
        let pairs = (changes.count - shown.count) / 2
        let omitted = pairs == 0 ? "" : " (\(pairs) balanced \(pairs == 1 ? "pair" : "pairs") left out)"
        var text = heading("changes of its count, newest first\(omitted):")
        let width = shown.map(\.text.count).max() ?? 0
        let isOneThread = shown.allSatisfy { $0.thread == last.thread }
        for change in shown {
            var line = "    " + change.text + String(repeating: " ", count: width - change.text.count)
            if !isOneThread { line += "  thread \(change.thread)" }
            let lines = Self.framesShown.map { line + "  " + change.place($0) }
            text += (lines.first { $0.count <= columns ?? .max } ?? lines[lines.count - 1]) + "\n"
        }
        return text
    }
}

extension [Finding.CountChange] {
    /// Without each retain that the same line of a function released before anything else happened.
    package var withoutPairs: [Finding.CountChange] {
        var left: [Finding.CountChange] = []
        for change in reversed() {
            if change.knownEvent == .release, let before = left.last, before.knownEvent == .retain,
                before.thread == change.thread, let place = change.origin, before.origin == place
            {
                left.removeLast()
            } else {
                left.append(change)
            }
        }
        return left.reversed()
    }
}

extension Finding.CountChange {
    // "release 2 → 1"
    package var text: String {
        switch knownEvent {
        case .dealloc: "deallocated"
        case .retain: "retain" + counts(by: 1)
        case .release: "release" + counts(by: -1)
        case .retainSeveral: "several retains" + counts(by: nil)
        case .releaseSeveral: "several releases" + counts(by: nil)
        case .tryRetain: "weak reference read" + counts(by: 1)
        case .unownedRetainStrong: "unowned reference read" + counts(by: 1)
        case nil: visible(event)
        }
    }

    // nil: by how many is not known.
    private func counts(by difference: Int?) -> String {
        guard let strong else { return "" }
        return "  \(strong) → \(difference.map { String(max(0, strong + $0)) } ?? "…")"
    }

    // Who asked: the innermost of the program's own calls, and its line.
    var origin: String? { (stack.first { !$0.isLibraryCode && !$0.isEntryCode } ?? stack.first)?.shortPlace }

    // The program's own calls, innermost first; where there are none, whatever is there.
    package func place(_ most: Int) -> String {
        let own = stack.filter { !$0.isLibraryCode && !$0.isEntryCode }
        let shown = (own.isEmpty ? stack : own).prefix(most)
        return shown.isEmpty ? "(stack not known)" : shown.map(\.shortPlace).joined(separator: " ← ")
    }
}
