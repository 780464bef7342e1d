// Renders findings as text: one sentence, the stacks, and a closing line.

/// Renders findings for people to read in a terminal or a log.
public struct TextRenderer {
    /// Prefix of every line that is not part of a stack.
    public static let mark = "==zguard== "

    private let style: TextStyle
    private let excerpts: SourceExcerpts?
    /// Author of the rendered data. ``render(_:)-(Finding)`` uses the finding's author instead.
    package var author = Author.own

    /// Number of source lines in front of and behind the line of an access. For a free or an allocation, only the line
    /// itself is shown.
    private static let linesAround = 2
    /// Minimum width of source lines, even on a narrower terminal.
    private static let minSourceColumns = 24

    /// Creates a renderer.
    ///
    /// - Parameters:
    ///   - style: colors and folding.
    ///   - excerpts: reads source files; nil omits source lines.
    public init(style: TextStyle = TextStyle(), excerpts: SourceExcerpts? = nil) {
        self.style = style
        self.excerpts = excerpts
    }

    /// Renders the whole report of one finding, including its final line feed. The finding may hold any text.
    ///
    /// - Parameter finding: a symbolicated finding; its text is untrusted.
    /// - Returns: the report, safe to print.
    public func render(_ finding: Finding) -> String {
        var renderer = self
        renderer.author = finding.author
        return renderer.text(of: finding)
    }

    private func text(of finding: Finding) -> String {
        var text = mark + style.paint(visible(finding.kind.rawValue), .kind) + ": "
        text += style.paint(finding.sentence, .sentence) + "\n"
        if let evidence = finding.evidence { text += heading(evidence) }
        if let holders = finding.holdersSentence { text += heading(holders) }
        let isLate = finding.isNoticedLate
        text += render(
            finding.stacks.access, title: isLate ? "the change was detected here; the write happened earlier:" : nil,
            linesAround: isLate ? nil : Self.linesAround)
        text += render(finding.stacks.previous, title: "the earlier access began here:")
        text += render(finding.stacks.thrown, title: "the error was thrown here:")
        let block = finding.block
        text += render(finding.stacks.free, title: title("freed", block?.freeingThread, finding.hasShortened("free")))
        text += render(
            finding.stacks.alloc, title: title("allocated", block?.allocatingThread, finding.hasShortened("alloc")))
        text += render(finding.history)
        if let crash = finding.crash {
            text += render(crash)
            // Say why the stacks of the other threads are missing.
            if crash.threads.isEmpty, let why = finding.detail["threads"] {
                text += heading("threads: \(visible(why))")
            }
        }
        if let stall = finding.stall { text += render(stall, joins: finding.joinsThread) }
        for (title, stack) in finding.leak?.otherObjects ?? [] { text += render(stack, title: title + ":") }
        if let triage = finding.triage { text += mark + visible(triage.text) + "\n" }
        return text + mark + style.paint(closing(finding), .mark) + "\n"
    }

    // Renders the program's annotations, the registers in a full report, and the other threads.
    private func render(_ crash: Finding.Crash) -> String {
        var text = ""
        func list(_ title: String, _ lines: [String]) {
            if !lines.isEmpty { text += heading(title) + lines.map { "    \($0)\n" }.joined() }
        }
        list(
            "annotations of the program:",
            crash.annotations.sorted { $0.key < $1.key }.map { "\(visible($0.key)): \(visible($0.value))" })
        if style.isFull {
            list("registers:", crash.registers.sorted { $0.key < $1.key }.map { "\(visible($0.key)) \($0.value)" })
        }
        for (title, stack) in crash.otherThreads {
            text += stack.isEmpty ? heading(title) : render(stack, title: title + ":", linesAround: nil)
        }
        return text
    }

    // Renders the stacks of the holder and of the other threads in the wait chain and, if there are several sampled
    // stacks, their tree.
    private func render(_ stall: Finding.Stall, joins: Bool) -> String {
        var text = ""
        if let holder = stall.holder {
            let name = holder.name.map { " (\(visible($0)))" } ?? ""
            text += render(
                holder.stack,
                title: "meanwhile the \(joins ? "other thread" : "holder of the lock")\(name):",
                linesAround: nil)
        }
        for one in stall.waits {
            text += render(one.stack, title: "\(one.label) waits, too:", linesAround: nil)
        }
        if stall.sampled.count > 1 {
            text += heading("stacks in \(stall.samples) samples:") + stall.tree.map { "    \($0)\n" }.joined()
        }
        return text
    }

    var isFull: Bool { style.isFull }
    var columns: Int? { style.columns }

    /// A heading line for the text that follows it. Begins with ``mark``.
    func heading(_ title: String) -> String { mark + style.paint(title, .title) + "\n" }

    /// Renders a stack under its title, with the source at the innermost frame of the program itself. Returns an empty
    /// text for an empty stack.
    ///
    /// - Parameters:
    ///   - stack: innermost frame first.
    ///   - title: the heading; nil for none.
    ///   - linesAround: number of source lines in front of and behind that frame's line; nil for no source.
    /// - Returns: the lines, safe to print.
    public func render(_ stack: [Finding.Frame], title: String?, linesAround: Int? = 0) -> String {
        if stack.isEmpty { return "" }
        var text = title.map { mark + style.paint($0, .title) + "\n" } ?? ""
        // Show the source once, at the innermost frame that has a line and is not folded.
        let isFoldable = FoldedStack.isFoldable(stack)
        var origin = stack.indices.first { stack[$0].hasLine && !isFoldable[$0] }
        for line in FoldedStack.lines(of: stack, isFull: style.isFull) {
            switch line {
            case .folded(let range, let name):
                let isOne = range.count == 1
                let numbers = isOne ? "#\(range.lowerBound)" : "#\(range.lowerBound)-#\(range.upperBound)"
                let count = "(\(FoldedStack.count(stack[range])))"
                text += "    " + style.paint("\(numbers) \(visible(name)) … \(count)", .faint) + "\n"
            case .repeated(_, let frames, let turns):
                let what = frames == 1 ? "this frame" : "these \(frames) frames"
                text += "    " + style.paint("… \(what) \(turns) times more", .faint) + "\n"
            case .frame(let number):
                let frame = stack[number]
                text += "    " + describe(frame, number: number, isOwn: !isFoldable[number]) + "\n"
                if number == origin, let linesAround {
                    text += source(at: frame, linesAround)
                    origin = nil
                }
            }
        }
        return text
    }

    private var mark: String { style.paint(Self.mark, .mark) }

    private func title(_ event: String, _ thread: Int?, _ isShortened: Bool) -> String {
        (thread.map { "\(event) by thread \($0)" } ?? "\(event) here")
            + (isShortened ? " (innermost calls only):" : ":")
    }

    private func describe(_ frame: Finding.Frame, number: Int, isOwn: Bool) -> String {
        let role = isOwn ? TextStyle.Role.function : .faint
        guard let function = frame.function else { return style.paint("#\(number) " + frame.moduleAndOffset, role) }
        let name = style.isFull ? function : withoutMangledEnd(function)
        var text = style.paint("#\(number) ", .faint) + style.paint(visible(name), role)
        if frame.inlined { text += style.paint(" [inlined]", .faint) }
        guard let file = frame.file else { return text + "  " + style.paint("(\(frame.moduleAndOffset))", .faint) }
        var place = style.path(file)
        if let line = frame.line { place += ":\(line)" }
        if let column = frame.column { place += ":\(column)" }
        return text + "  " + style.paint(place, isOwn ? .place : .faint)
    }

    // Source lines with their numbers; the line is marked, and a caret marks its column:
    //     40 |     close(it)
    //   > 41 |     close(it)
    //        |     ^
    private func source(at frame: Finding.Frame, _ linesAround: Int) -> String {
        guard let excerpt = excerpts?.excerpt(for: frame, by: author, context: linesAround) else { return "" }
        let width = String(excerpt.first + excerpt.lines.count).count
        let indentation = "      "
        let room = style.columns.map {
            max(Self.minSourceColumns, $0 - indentation.count - width - "> 41 | ".count + 2)
        }
        var text = ""
        for (number, line) in zip(excerpt.first..., excerpt.lines) {
            let isMarked = number == excerpt.marked
            let padding = String(repeating: " ", count: width - String(number).count)
            let gutter = "\(isMarked ? ">" : " ") \(padding)\(number) |" + (line.isEmpty ? "" : " ")
            let shown = FittingText(line, column: isMarked ? excerpt.column : nil, width: room ?? .max)
            text += indentation + style.paint(gutter, isMarked ? .pointer : .faint)
            text += (isMarked ? shown.text : style.paint(shown.text, .faint)) + "\n"
            guard isMarked, linesAround > 0, let column = shown.column else { continue }
            let blank = String(repeating: " ", count: width + 2) + " | "
            let caret = String(repeating: " ", count: column - 1) + "^"
            text += indentation + style.paint(blank, .faint) + style.paint(caret, .pointer) + "\n"
        }
        if excerpt.isNewerThanProgram {
            text += "      " + style.paint("(the file was changed after the program was built)", .faint) + "\n"
        }
        return text
    }

    // "thread 1 (main) of /bin/app [123], 2026-11-21T05:31:57Z, signature 0123456789abcdef, seen 3 times"
    private func closing(_ finding: Finding) -> String {
        var parts: [String] = []
        var who: [String] = []
        if finding.thread != nil { who.append(finding.threadName) }
        if let program = finding.program { who.append((who.isEmpty ? "" : "of ") + visible(program)) }
        if let processID = finding.processID { who.append("[\(processID)]") }
        if !who.isEmpty { parts.append(who.joined(separator: " ")) }
        if let time = finding.time { parts.append(visible(time)) }
        parts.append("signature \(visible(finding.signature ?? finding.computeSignature()))")
        if finding.count > 1 {
            let span = [
                finding.firstSeen.map { "first \(visible($0))" }, finding.lastSeen.map { "last \(visible($0))" },
            ]
            parts.append((["seen \(finding.count) times"] + span.compactMap { $0 }).joined(separator: ", "))
        }
        return parts.joined(separator: ", ")
    }
}
