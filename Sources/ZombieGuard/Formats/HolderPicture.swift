// Shows the path from a root to a freed block as boxes with arrows, which wrap in narrow windows.

struct HolderPicture {
    private let finding: Finding
    private let holder: Finding.Holder

    /// Nil if the finding has no block, or no pointer to the block is known.
    init?(_ finding: Finding) {
        guard let holder = finding.holders?.first, finding.block != nil else { return nil }
        self.finding = finding
        self.holder = holder
    }

    /// An `ol` element, the root first.
    var list: String {
        let places = holder.path.reversed() + [holder]
        var text = "<ol class=\"path\" aria-label=\"path from a root to the freed block\">"
        // If the first place is in a block, the search ended before it reached a root.
        if places[0].block != nil { text += box("unknown", "not known", "what leads here", nil) }
        for place in places { text += box(place) }
        return text + freed + "</ol>"
    }

    private func box(_ place: Finding.Holder) -> String {
        let origin = place.block == nil ? nil : place.origin.map { "allocated in \($0)" }
        return box(
            place.block == nil ? "root" : "object", place.boxKind, place.boxName, origin, isTyped: place.isTyped)
    }

    private var freed: String {
        let block = finding.block
        let name = block?.className ?? "block of \(sizeText(block?.size ?? 0))"
        let state = block?.knownState == .live ? "block" : "freed"
        // Skip deinitializers: the source line of their caller is more useful.
        let callers = finding.stacks.free.filter { !($0.function?.hasSuffix("__deallocating_deinit") ?? false) }
        let freedIn = (callers.origin ?? finding.stacks.free.origin).map { "freed in \($0.shortPlace)" }
        return box("freed", state, name, freedIn)
    }

    // `isTyped`: whether the place is known to hold a reference. Otherwise the arrow from the place is dashed.
    private func box(_ style: String, _ kind: String, _ name: String, _ note: String?, isTyped: Bool = true) -> String {
        let note = note.map { "<span>\(htmlText($0, cutAt: 200))</span>" } ?? ""
        let arrow = isTyped ? "" : " loose"
        return
            "<li class=\"\(style)\(arrow)\"><div><i>\(htmlText(kind))</i><b>\(htmlText(name, cutAt: 160))</b>\(note)</div>"
    }
}
