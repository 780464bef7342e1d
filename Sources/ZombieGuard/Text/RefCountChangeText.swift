// Renders the retains and releases of an object as text.

extension TextRenderer {
    // Numbers of calls to show per line; the first number whose line fits the width is used. The minimum is two,
    // because the innermost call may be a helper that releases on behalf of its caller.
    private static let framesShown = [3, 2]

    /// Renders the changes of a reference count, one line each; empty if there are none. Safe to print.
    ///
    /// Unless everything is shown, a retain is omitted together with its release if the same source line makes both.
    /// Unoptimized code has many such pairs.
    ///
    /// - Parameter changes: the changes, newest first.
    /// - Returns: lines, each including its line feed.
    public func render(_ changes: [Finding.RefCountChange]) -> String {
        let shown = isFull ? changes : changes.withoutBalancedPairs
        guard let last = shown.first else { return "" }
        let pairs = (changes.count - shown.count) / 2
        let omitted = pairs == 0 ? "" : " (\(pairs) balanced \(pairs == 1 ? "pair" : "pairs") left out)"
        var text = heading("retains and releases, newest first\(omitted):")
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

extension [Finding.RefCountChange] {
    /// Removes each retain together with the release that directly follows it, if both are from the same line of the
    /// same function and thread. Does so for nested pairs, too.
    package var withoutBalancedPairs: [Finding.RefCountChange] {
        var left: [Finding.RefCountChange] = []
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

extension Finding.RefCountChange {
    // The change in words: "release  2 → 1", or "release" if the count is unknown.
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

    // The counts before and after the change; empty if unknown. `difference` is nil if the size of the change is
    // unknown.
    private func counts(by difference: Int?) -> String {
        guard let strong else { return "" }
        return "  \(strong) → \(difference.map { String(max(0, strong + $0)) } ?? "…")"
    }

    // Place of the innermost call of the program itself; identifies the caller when pairs are removed.
    var origin: String? { (stack.first { !$0.isLibraryCode && !$0.isEntryCode } ?? stack.first)?.shortPlace }

    // The innermost `most` calls of the program itself; the innermost frames of any kind if there are none.
    package func place(_ most: Int) -> String {
        let own = stack.filter { !$0.isLibraryCode && !$0.isEntryCode }
        let shown = (own.isEmpty ? stack : own).prefix(most)
        return shown.isEmpty ? "(no stack)" : shown.map(\.shortPlace).joined(separator: " ← ")
    }
}
