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
                    "is no address but what the runtime fills freed or new memory with: a pointer that was read there"
                case .file: fileSentence
                case .stack: "is on the stack of \(isFromCore ? "a" : "the main") thread"
                case .memory: memorySentence
                case .nothing: "is nothing: the program has no memory there"
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

    // For example ", once an object of class Shop.Cart (property items)".
    private func object(_ block: Finding.Block) -> String {
        guard let className = block.className else { return "" }
        let once = block.isLive || block.knownState == .freeing ? "" : "once "
        let isUnnamed = ["closure context", "box", "boxed error"].contains(className)
        let name = isUnnamed ? "a \(className)" : "an object of class \(visible(className))"
        let member = trap == nil ? block.member.map { " (property \(visible($0)))" } ?? "" : ""
        return ", \(once)\(name)\(member)"
    }

    private var trapSentence: String {
        guard let trap else { return "is a trap address" }
        guard let block else {
            return
                "is a trap address, where a dead object had its \(trap.part.rawValue); the object is not known any more"
        }
        let whose = block.object(of: block.className ?? "object") + " " + block.place
        let among = trap.objects > 1 ? "; one of \(trap.objects) dead objects that it may stand for" : ""
        let what =
            switch trap.part {
            case .classPointer: "the class pointer of \(whose)\(use(of: trap, block))"
            case .referenceCount: "the reference count of \(whose)"
            case .contents:
                (block.member.map { "property \(block.qualified($0))" } ?? "what stood at offset \(trap.byte ?? 0)")
                    + " of \(whose)"
            }
        return "is a trap address: it stands for \(what)\(among)"
    }

    private func use(of trap: Trap, _ block: Finding.Block) -> String {
        if trap.offset == 0 { return "" }
        if let member = block.member.map({ block.qualified($0) }) {
            return block.isMethod || trap.access == Finding.Access.call.rawValue
                ? ", which calls \(member) there" : ", which reads where \(member) lies there"
        }
        switch trap.access.map({ Finding.Access(rawValue: $0) }) {
        case .call?: return ", which calls a method there"
        case .cast?: return ", which is asked for its type there"
        case .release?: return ", which the last release reads there"
        default: return ", \(trap.offset < 0 ? "" : "+")\(trap.offset) bytes"
        }
    }

    private var unusedSentence: String {
        guard let block else {
            return
                "is in address space for \(isFenced ? "blocks with pages of their own" : "large blocks"), of which no block was ever"
        }
        return
            "is in a free place for a block of up to \(bytes(block.size)) at \(block.start), which was never used, or whose blocks are forgotten"
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
        return "is \(noun) of the program, no part of the guarded heap (\(range), \(permissions))"
    }
}
