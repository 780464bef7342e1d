// Renders the history of an address as text: a sentence, the block's state, its stacks, its retains and releases, and
// the process.

/// Renders the history of an address for a terminal.
public struct HistoryRenderer {
    private let renderer: TextRenderer

    /// Makes a renderer.
    ///
    /// - Parameter renderer: renders the stacks.
    public init(renderer: TextRenderer = TextRenderer()) { self.renderer = renderer }

    /// Renders a history. The text ends with a line feed and is safe to print.
    ///
    /// - Parameters:
    ///   - history: the history of an address.
    ///   - now: current time in nanoseconds since 1970, to print the age of a free; nil: omit it.
    /// - Returns: lines, safe to print.
    public func render(_ history: AddressHistory, now: UInt64? = nil) -> String {
        var text = line(history.sentence)
        if let block = history.block, history.what != .unused {
            if history.isChanging {
                text += line("the record kept changing while it was read; this is the last state seen")
            }
            text += line(state(of: block, history, now))
            if !block.isLive, block.knownState != .freeing {
                text += stack(history.stacks.free, "freed", block.freeingThread)
            }
            text += stack(history.stacks.alloc, "allocated", block.allocatingThread)
            text += renderer.render(history.changes)
        } else if history.what == .file, history.stacks.access.contains(where: { $0.file != nil }) {
            text += renderer.render(history.stacks.access, title: nil)
        }
        return text
            + line(
                "of \(visible(history.program)) [\(history.processID)]"
                    + (history.isFromCore ? ", from a core file" : ""))
    }

    private func line(_ text: String) -> String { TextRenderer.mark + text + "\n" }

    // An empty stack is rendered as a title only.
    private func stack(_ frames: [Finding.Frame], _ event: String, _ thread: Int?) -> String {
        let title = thread.map { "\(event) by thread \($0)" } ?? event
        if frames.isEmpty { return line("\(title), stack not known") }
        return renderer.render(frames, title: thread == nil ? "\(event) here:" : "\(title):")
    }

    private func state(of block: Finding.Block, _ history: AddressHistory, _ now: UInt64?) -> String {
        var parts: [String] = []
        switch block.knownState {
        case .live: parts.append("live")
        case .freeing: parts.append("being freed")
        case .quarantined: parts.append("quarantined (held, its contents overwritten)")
        case .retired: parts.append("retired (its pages are protected)")
        case .reusable: parts.append("reusable (its slot may be reused at any time)")
        case .unused, nil: parts.append("in an unknown state")
        }
        if let family = history.family { parts.append("from \(family)") }
        if history.isInWindow {
            parts.append("in a window (its own virtual page over shared memory)")
        } else if history.isIsolated {
            parts.append("isolated (its own pages, then a guard page)")
        }
        if let time = history.freeTime {
            parts.append(
                "freed at \(Timestamp(rawValue: Int64(clamping: time)).description)" + (now.map { ago(time, $0) } ?? "")
            )
        }
        return parts.joined(separator: ", ")
    }

    private func ago(_ time: UInt64, _ now: UInt64) -> String {
        let milliseconds = now > time ? (now - time) / 1_000_000 : 0
        let seconds = milliseconds / 1000
        if seconds < 10 { return " (\(seconds).\(milliseconds % 1000 / 100) s ago)" }
        if seconds < 600 { return " (\(seconds) s ago)" }
        return " (\(seconds / 60) min ago)"
    }
}
