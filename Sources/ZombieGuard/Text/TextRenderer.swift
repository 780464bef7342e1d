// Findings as text: one sentence, up to three stacks, one closing line.

/// Renders findings for people to read in a terminal or a log.
public struct TextRenderer: Sendable {
    /// What every line of ours that is not part of a stack begins with.
    public static let mark = "==zguard== "

    public init() {}

    /// The whole report of one finding, ending with a line feed. Safe to print whatever the finding holds.
    public func render(_ finding: Finding) -> String {
        var text = Self.mark + visible(finding.kind.rawValue) + ": " + finding.sentence + "\n"
        if finding.kind == .writeAfterFree {
            append(finding.stacks.access, title: "found here; the write itself was earlier and elsewhere:", to: &text)
        } else {
            append(finding.stacks.access, title: nil, to: &text)
        }
        let block = finding.block
        append(finding.stacks.free, title: title("freed", block?.freeingThread), to: &text)
        append(finding.stacks.alloc, title: title("allocated", block?.allocatingThread), to: &text)
        text += Self.mark + closing(finding) + "\n"
        return text
    }

    private func title(_ event: String, _ thread: Int?) -> String {
        thread.map { "\(event) by thread \($0):" } ?? "\(event) here:"
    }

    private func append(_ stack: [Finding.Frame], title: String?, to text: inout String) {
        if stack.isEmpty { return }
        if let title { text += Self.mark + title + "\n" }
        for (number, frame) in stack.enumerated() {
            text += "    #\(number) " + line(frame) + "\n"
        }
    }

    private func line(_ frame: Finding.Frame) -> String {
        guard let function = frame.function else { return frame.moduleAndOffset }
        var text = visible(function)
        if frame.inlined { text += " [inlined]" }
        guard let file = frame.file else { return text + "  (\(frame.moduleAndOffset))" }
        text += "  " + visible(file)
        if let line = frame.line { text += ":\(line)" }
        if let column = frame.column { text += ":\(column)" }
        return text
    }

    // "thread 1 (main) of /bin/app [123], 2026-11-21T05:31:57Z, signature 0123456789abcdef, seen 3 times"
    private func closing(_ finding: Finding) -> String {
        var parts: [String] = []
        var who: [String] = []
        if let thread = finding.thread {
            who.append("thread \(thread.id)" + (thread.name.map { " (\(visible($0)))" } ?? ""))
        }
        if let program = finding.program { who.append((who.isEmpty ? "" : "of ") + visible(program)) }
        if let processID = finding.processID { who.append("[\(processID)]") }
        if !who.isEmpty { parts.append(who.joined(separator: " ")) }
        if let time = finding.time { parts.append(visible(time)) }
        parts.append("signature \(visible(finding.signature ?? finding.computeSignature()))")
        if finding.count > 1 { parts.append("seen \(finding.count) times") }
        return parts.joined(separator: ", ")
    }
}
