// Renders a stack as HTML: the program's own frames, folded runtime frames, and the source around the origin frame.

package struct HTMLStack {
    let event: Finding.Event
    /// Paths below this directory are shown relative to it.
    let sourceRoot: String?
    let excerpt: SourceExcerpt?

    /// Limit on the lines of one stack; the stack of a stack overflow has thousands of frames.
    static let mostFrames = 48

    /// An `ol` element with the frames of an allocation stack.
    package static func list(of frames: [Finding.Frame]) -> String {
        let event = Finding.Event(role: .alloc, title: "", frames: frames)
        return "<ol class=\"fr\">\(Self(event: event, sourceRoot: nil, excerpt: nil).frames)</ol>"
    }

    /// A `section` element.
    var section: String {
        let role = event.role.rawValue
        return """
            <section class="stack \(role)"><h4>\(htmlText(capitalized(event.title)))</h4>\(excerptHTML)<ol class="fr">\(frames)</ol>\
            </section>
            """
    }

    private func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

    private var frames: String {
        let origin = event.frames.origin.flatMap { event.frames.firstIndex(of: $0) }
        let lines = FoldedStack.lines(of: event.frames, isFull: false)
        var text = ""
        for line in lines.prefix(Self.mostFrames) {
            switch line {
            case .frame(let number): text += row(number, isOrigin: number == origin)
            case .repeated(_, let frames, let turns):
                let what = frames == 1 ? "this frame" : "these \(frames) frames"
                text += "<li class=\"more\">\(what) \(turns) times more"
            case .folded(let range, _) where range.count == 1: // folding would not save a line
                text += row(range.lowerBound, isOrigin: range.lowerBound == origin)
            case .folded(let range, _):
                let list = range.map { row($0, isOrigin: false) }.joined()
                let summary = "\(range.count) frames of \(foldedName(event.frames[range]))"
                text += "<li class=\"fold\"><details><summary>\(summary)</summary><ol>\(list)</ol></details>"
            }
        }
        let left = lines.dropFirst(Self.mostFrames).first.map { event.frames.count - $0.first } ?? 0
        if left > 0 { text += "<li class=\"more\">\(left) more frame\(left == 1 ? "" : "s") further out" }
        return text
    }

    // The modules of folded frames, such as "libswiftCore.so, libc.so.6". "runtime libraries" if there are more than
    // two, or none is known.
    private func foldedName(_ frames: ArraySlice<Finding.Frame>) -> String {
        var names: [String] = []
        for name in frames.compactMap(\.moduleName) where !names.contains(name) { names.append(name) }
        return (1...2).contains(names.count)
            ? names.map { htmlText($0, cutAt: 40) }.joined(separator: ", ") : "runtime libraries"
    }

    private func row(_ number: Int, isOrigin: Bool) -> String {
        let frame = event.frames[number]
        let style = (frame.isLibraryCode ? ["lib"] : []) + (isOrigin ? ["org"] : [])
        let classes = style.isEmpty ? "" : " class=\"\(style.joined(separator: " "))\""
        var text = "<li\(classes)><i>\(number)</i>"
        text +=
            frame.function.map { "<b>\(htmlText($0))</b>" } ?? "<b class=\"no\">\(htmlText(frame.moduleAndOffset))</b>"
        if frame.inlined { text += "<em>inlined</em>" }
        if let place = place(frame) { text += "<span>\(htmlText(place))</span>" }
        return text
    }

    private func place(_ frame: Finding.Frame) -> String? {
        guard let file = frame.file else { return frame.function == nil ? nil : frame.moduleName }
        return shortPath(file) + (frame.line.map { ":\($0)" } ?? "") + (frame.column.map { ":\($0)" } ?? "")
    }

    private func shortPath(_ path: String) -> String {
        guard let sourceRoot, path.hasPrefix("/") else { return path }
        let root = sourceRoot.hasSuffix("/") ? sourceRoot : sourceRoot + "/"
        return path.hasPrefix(root) ? String(path.dropFirst(root.count)) : path
    }

    private var excerptHTML: String {
        guard let excerpt else { return "" }
        var text = "<pre class=\"src\">"
        for (index, line) in excerpt.lines.enumerated() {
            let number = excerpt.first + index
            text +=
                "<span\(number == excerpt.marked ? " class=\"at\"" : "") data-n=\"\(number)\">\(htmlText(line))\n</span>"
        }
        text += "</pre>"
        if excerpt.isNewerThanProgram { text += "<p class=\"stale\">this file is newer than the program</p>" }
        return text
    }
}
