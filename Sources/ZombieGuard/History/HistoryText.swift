// Describes the history of an address in one sentence.

extension AddressHistory {
    /// One sentence without a full stop, such as "0x7f20 is 16 bytes into a live block of 48 bytes at 0x7f10, an object
    /// of class Shop.Cart (property items)". Safe to print.
    public var sentence: String {
        "\(address) "
            + {
                switch what {
                case .block: blockSentence
                case .trap: trapSentence
                case .unused: unusedSentence
                case .fill:
                    "is the runtime's fill pattern for freed or new memory: a pointer was read from such memory"
                case .file: fileSentence
                case .stack: "is on the stack of \(isFromCore ? "a" : "the main") thread"
                case .memory: memorySentence
                case .nothing: "is not mapped"
                }
            }()
    }

    private func bytes(_ count: UInt64) -> String { "\(count) byte\(count == 1 ? "" : "s")" }

    private var blockSentence: String {
        guard let block else { return "is in a block" }
        let offset = block.offset ?? 0
        let size = Int64(clamping: block.size)
        let noun = "\(blockNoun(block)) of \(bytes(block.size))"
        // A block of 0 bytes begins at its guard page.
        if offset == 0, !isInGuard || size == 0 { return "is the start of \(noun)\(object(block))" }
        let name = "\(noun) at \(block.start)\(object(block))"
        if offset < 0 { return "is \(bytes(offset.magnitude)) before \(name)" }
        if isInGuard, offset == size { return "is directly behind \(name), in its guard page" }
        if isInGuard { return "is in the guard page behind \(name), \(bytes((offset - size).magnitude)) after its end" }
        if offset < size { return "is \(bytes(offset.magnitude)) into \(name)" }
        return offset == size
            ? "is directly behind \(name)" : "is \(bytes((offset - size).magnitude)) after the end of \(name)"
    }

    private func blockNoun(_ block: Finding.Block) -> String {
        switch block.knownState {
        case .live: "a live block"
        case .freeing: "a block that is being freed,"
        case .unused, .quarantined, .retired, .reusable, nil: "a freed block"
        }
    }

    // For example ", formerly an object of class Shop.Cart (property items)".
    private func object(_ block: Finding.Block) -> String {
        guard let className = block.className else { return "" }
        let once = block.isLive || block.knownState == .freeing ? "" : "formerly "
        let isUnnamed = ["closure context", "box", "boxed error"].contains(className)
        let name = isUnnamed ? "a \(className)" : "an object of class \(visible(className))"
        let member = trap == nil ? block.member.map { " (property \(visible($0)))" } ?? "" : ""
        return ", \(once)\(name)\(member)"
    }

    private var trapSentence: String {
        guard let trap else { return "is a trap word" }
        guard let block else {
            return
                "is a trap word that replaced the \(trap.part.rawValue) of a freed object; the object is no longer known"
        }
        let whose = block.object(of: block.className ?? "object") + " " + block.place
        let among = trap.objects > 1 ? "; \(trap.objects) freed objects share this trap word" : ""
        let what =
            switch trap.part {
            case .classPointer: "the class pointer of \(whose)\(use(of: trap, block))"
            case .referenceCount: "the reference count of \(whose)"
            case .contents:
                (block.member.map { "property \(block.qualified($0))" } ?? "the word at offset \(trap.byte ?? 0)")
                    + " of \(whose)"
            }
        return "is a trap word that replaced \(what)\(among)"
    }

    private func use(of trap: Trap, _ block: Finding.Block) -> String {
        if trap.offset == 0 { return "" }
        if let member = block.member.map({ block.qualified($0) }) {
            return block.isMethod || trap.access == Finding.Access.call.rawValue
                ? ", plus the offset of a call of \(member)" : ", plus the offset of \(member)"
        }
        switch trap.access.map({ Finding.Access(rawValue: $0) }) {
        case .call?: return ", plus the offset of a method call"
        case .cast?: return ", plus an offset that a cast reads"
        case .release?: return ", plus an offset that the last release reads"
        default: return ", \(trap.offset < 0 ? "" : "+")\(trap.offset) bytes"
        }
    }

    private var unusedSentence: String {
        guard let block else {
            return
                "is in address space for \(isIsolated ? "isolated" : "large") blocks that was never used"
        }
        return
            "is in the unused slot of \(bytes(block.size)) at \(block.start); no block is recorded there"
    }

    private var fileSentence: String {
        let frame = stacks.access.first ?? Finding.Frame(pc: address)
        let permissions = place?.permissions ?? CoreNotes.unknownPermissions
        let noun =
            permissions.contains("x") ? "code of" : permissions == CoreNotes.unknownPermissions ? "in" : "data of"
        let name = stacks.access.last?.function.map { ", \(visible($0))" } ?? ""
        return "is \(noun) \(frame.moduleAndOffset)\(name)"
    }

    private var memorySentence: String {
        guard let place else { return "is memory of the program" }
        let range = "\(place.start) to \(place.end)"
        if place.path == Mapping.programBreakPath {
            return "is in the heap of libc (\(range)), which serves what the guarded heap does not"
        }
        let noun = place.permissions.hasPrefix("---") ? "inaccessible address space" : "memory"
        let permissions = visible(place.permissions)
        return "is \(noun) outside of the guarded heap (\(range), \(permissions))"
    }
}
