// Composes the headline of a finding: what happened, to which block, and where.

extension Finding {
    /// One sentence without the finding's kind, such as
    /// "a freed block of 48 bytes at 0x7f10 was freed again, in shutdown (app.c:41)". Safe to print. ``evidence`` says
    /// how the finding was detected.
    public var sentence: String {
        if kind == .crash { return crashSentence }
        if kind == .stall { return stallSentence }
        if kind == .deadlock { return deadlockSentence }
        if kind == .leak || kind == .retainCycle { return leakSentence }
        var text = statement
        if let origin = stacks.accessOrigin {
            text += kind == .writeAfterFree ? "" : ", in \(origin.shortPlace)"
        }
        return text
    }

    /// How the finding was detected and how certain it is, in one or two clauses; nil if the access itself was seen.
    public var evidence: String? {
        var parts: [String] = []
        if let next = nextUse {
            parts.append("detected at the \(access == .cast ? "read of its class" : "retain") before this \(next.noun)")
        }
        if confidence == .inferred {
            let evidence = detail["evidence"].map { visible($0) } ?? "the address alone does not determine the block"
            parts.append("inferred, because \(evidence)")
        }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    private var statement: String {
        if let call = detail["call"], [.useAfterFree, .invalidFree].contains(kind), detail["bytes"] == nil,
            detail["freed"] == nil, detail["ended"] == nil
        {
            return queryHeadline("\(visible(call))()")
        }
        if let call = detail["call"], let block { return bufferHeadline("\(visible(call))()", block) }
        return switch kind {
        case .useAfterFree: useAfterFree
        case .writeAfterFree: writeAfterFree
        case .doubleFree: "\(blockOrAddress) was freed again\(deallocator)"
        case .invalidFree: invalidFree
        case .deallocMismatch: deallocMismatch
        case .heapOverflow where detail["found_by"] != nil:
            "\(count("length")) \(position ?? at) changed while it was in use\(changedValues)\(foundBy)"
        case .heapOverflow where detail["read_from"] != nil: fillPointerHeadline
        case .heapOverflow: "\(access.noun) \(position ?? "at an unknown address")"
        case .wildAccess where detail["read_from"] != nil: fillPointerHeadline
        case .wildAccess where isWithoutAddress:
            "\(access.noun) at an unknown address\(signal): noncanonical or misaligned, or used by a privileged instruction"
        case .wildAccess: "\(access.noun) \(at)\(signal), \(neighbours ?? "where the program has no such memory")"
        case .nullAccess: "\(access.noun) \(at)\(signal), through a null pointer"
        case .exclusivity: overlap
        case .stackOverflow: "\(threadName) ran out of stack\(address.map { " at \($0)" } ?? "")"
        default: "\(access.noun) \(position ?? at)"
        }
    }

    // Whether the accessed address is unknown: the processor reported none (as for a noncanonical address), and the
    // runtime found no noncanonical address in a register.
    private var isWithoutAddress: Bool {
        confidence == .inferred && detail["fault_address"] == nil && (address?.rawValue ?? 0) == 0 && neighbours == nil
    }

    private func count(_ name: String) -> String {
        detail[name].map { "\(visible($0)) byte\($0 == "1" ? "" : "s")" } ?? "bytes"
    }

    private var changedValues: String {
        guard let old = detail["old"], let new = detail["new"] else { return "" }
        return ", from \(visible(old)) to \(visible(new))"
    }

    // "0xa5a5a5a5a5a5a5a5 was followed (SIGSEGV), a value read from the red zone of a live block of 100 bytes at
    // 0x7f10"
    private var fillPointerHeadline: String {
        let source =
            detail["read_from"].map { $0 == Self.redZone ? "the red zone of a block" : visible($0) } ?? "somewhere"
        guard let block else { return "\(pointer) was followed\(signal), a value read from \(source)" }
        let place = "\(blockName(block)) at \(block.start)"
        // The red zone or the freed memory is next to the block. Any other source, such as memory that was never
        // written, is inside the block.
        let text =
            switch (kind, detail["read_from"], block.offset) {
            case (.heapOverflow, Self.freedNeighbour?, let offset?):
                "freed memory, \(bytes(offset - Int64(clamping: block.size))) after the end of \(place)"
            case (.heapOverflow, _, _): "the red zone of \(place)"
            default: "\(source), in \(place)"
            }
        return "\(pointer) was followed\(signal), a value read from \(text)"
    }

    // The value of `read_from` for a red zone.
    private static let redZone = "the gap beside a block"
    // The value of `read_from` if the program read past the end of a live block, into the fill of a freed block.
    private static let freedNeighbour = "the freed block behind a block"

    // "outside of every block: 63 bytes after the end of a freed block of 768 bytes at 0x7f10, 9 bytes before …"
    private var neighbours: String? {
        guard let address else { return nil }
        let before = neighbour("before").map { block, name in
            let distance = address.distance(from: block.start).map { $0 < block.size ? 0 : $0 - block.size } ?? 0
            return "\(bytes(distance)) after the end of \(name)"
        }
        let after = neighbour("after").map { block, name in
            "\(bytes(block.start.distance(from: address) ?? 0)) before \(name)"
        }
        let both = [before, after].compactMap { $0 }
        return both.isEmpty ? nil : "outside of every block: " + both.joined(separator: ", ")
    }

    private func neighbour(_ side: String) -> (block: Block, name: String)? {
        guard let start = detail[side].flatMap({ Address($0) }),
            let size = detail[side + "_size"].flatMap({ UInt64(digits: $0) })
        else { return nil }
        let block = Block(start: start, size: size, state: detail[side + "_state"])
        return (block, "\(blockName(block)) at \(start)")
    }

    // The sentence for a bad pointer passed to a function that only queries the block (malloc_usable_size).
    private func queryHeadline(_ call: String) -> String {
        if kind == .useAfterFree { return "\(call) was given a pointer to memory that was freed, \(position ?? at)" }
        if let position { return "\(call) was given a pointer that is no block's start, \(position)" }
        if detail["what"] == "free memory" {
            return "\(call) was given \(pointer), which is freed memory; the block's record has been reused"
        }
        return "\(call) was given \(pointer), \(detail["what"].map { "a \(visible($0))" } ?? "no block")"
    }

    // The sentence for a bad buffer passed to a system call or to another checked function of libc:
    // "write() was given memory that was freed: 5 bytes at 0x7f20, 16 bytes into a freed block of …"
    private func bufferHeadline(_ call: String, _ block: Block) -> String {
        let place = "\(blockName(block)) at \(block.start)"
        switch (kind, detail["freed"] ?? detail["ended"]) {
        case (.useAfterFree, nil):
            return "\(call) was given memory that was freed: \(count("bytes")) \(position ?? at)"
        case (.useAfterFree, _):
            return "\(call) wrote \(count("bytes")) to memory that was freed during the call, \(position ?? at)"
        case (_, nil):
            return "\(call) \(access == .write ? "wrote" : "read") \(count("excess")) after the end of \(place)"
        case (_, let ended?):
            return "\(call) \(visible(ended)): its buffer of \(count("bytes")) extends past the end of \(place)"
        }
    }

    private var useAfterFree: String {
        guard let block else {
            if detail["what"] == "free memory" {
                if let call = detail["call"] {
                    return
                        "\(visible(call))() was given memory that was freed: \(count("bytes")) \(at); the block's record has been reused"
                }
                return "\(access.noun) \(at)\(signal), in freed memory; the block's record has been reused"
            }
            return "\(access.noun) \(at)\(signal), through a pointer loaded from freed memory"
        }
        guard let className = block.className else {
            // After a fault on a value that was read from filled memory, the block is the source of the value, not the
            // accessed memory.
            let touched =
                address.map { address in
                    address.distance(from: block.start).map { $0 < block.size } ?? false
                        || Int64(bitPattern: address.rawValue &- block.start.rawValue) == block.offset
                } ?? false
            if touched || confidence != .inferred { return "\(access.noun) \(position ?? at)" }
            return "\(access.noun) through \(pointer), a pointer loaded from \(blockName(block)) at \(block.start)"
        }
        return zombie(block, className: className)
    }

    /// "property Cart.total was modified while it was being read, in Shop.Cart (32 bytes at 0x7f10)"
    private var overlap: String {
        let variable = block?.property.map { "property \($0)" } ?? "a variable\(address.map { " at \($0)" } ?? "")"
        let done = access == .write ? "modified" : access == .read ? "read" : "used"
        let before = detail["previous"] == Access.read.rawValue ? "read" : "modified"
        let object = block.flatMap { block in
            block.className.map { ", in \(visible($0)) \(block.place)" }
        }
        return "\(variable) was \(done) while it was being \(before)\(object ?? "")"
    }

    private var writeAfterFree: String {
        let length = count("length")
        var offset = detail["offset"].map { " at offset \(visible($0))" } ?? ""
        if let property = block?.property { offset += " (property \(property))" }
        let inFront = neighbour("before").map { "; \($0.name), in front of it, may have been overrun" } ?? ""
        return "\(length)\(offset) of \(blockOrAddress) changed after it was freed\(changedValues)\(foundBy)\(inFront)"
    }

    private var foundBy: String {
        switch detail["found_by"] {
        case "eviction"?: "; found when the block left the quarantine"
        case "free"?: "; found when it was freed"
        case "exit"?: "; found when the program ended"
        case "check"?: "; found by a heap check"
        default: ""
        }
    }

    private var invalidFree: String {
        switch detail["what"] {
        case "interior pointer"?:
            if let block, let offset = block.offset {
                return "\(pointer) was freed\(deallocator), \(bytes(offset)) into \(blockName(block)) at \(block.start)"
            }
            return "\(pointer) was freed\(deallocator), a pointer into a block"
        case "misaligned"?: return "\(pointer) was freed\(deallocator), a misaligned pointer"
        case "never allocated"?: return "\(pointer) was freed\(deallocator), but never allocated"
        case "free memory"?:
            return "\(pointer) was freed\(deallocator), but was free memory already; the block's record has been reused"
        case let what?: return "\(pointer) was freed\(deallocator), a \(visible(what))"
        case nil: return "\(pointer) was freed\(deallocator), but is no block"
        }
    }

    // " with operator delete"; nothing for plain free.
    private var deallocator: String {
        guard let function = detail["freed_with"], function != "free" else { return "" }
        return " with \(visible(function))"
    }

    private var deallocMismatch: String {
        guard let allocator = detail["allocated_with"], let deallocator = detail["freed_with"] else {
            return "\(blockOrAddress) was freed by a function that does not match its allocation"
        }
        let size = detail["freed_size"].map { " as \(visible($0)) bytes" } ?? ""
        return "\(blockOrAddress) from \(visible(allocator)) was freed with \(visible(deallocator))\(size)"
    }

    private var pointer: String { address.map { "\($0)" } ?? "an address" }
    private var at: String { address.map { "at \($0)" } ?? "at an unknown address" }
    private var signal: String { detail["signal"].map { " (\(visible($0)))" } ?? "" }

    private var blockOrAddress: String {
        guard let block else { return "the block at \(pointer)" }
        if let className = block.className, !block.isLive {
            return "\(block.object(of: className)) \(block.place)"
        }
        return "\(blockName(block)) at \(block.start)"
    }

    /// "thread 1 (main)"
    package var threadName: String {
        guard let thread else { return "a thread" }
        return thread.name.map { "thread \(thread.id) (\(visible($0)))" } ?? "thread \(thread.id)"
    }

    private func blockName(_ block: Block) -> String {
        if let className = block.className, !block.isLive {
            return "\(block.object(of: className)) \(block.extent)"
        }
        let size = bytes(Int64(clamping: block.size))
        return switch block.knownState {
        case .live: "a live block of \(size)"
        case .quarantined, .retired, .reusable: "a freed block of \(size)"
        case .unused, .freeing, nil: "a block of \(size)"
        }
    }

    private func bytes(_ count: some BinaryInteger) -> String { "\(count) byte\(count == 1 ? "" : "s")" }

    // "at 0x10, 16 bytes into a freed block of 48 bytes"
    private var position: String? {
        guard let block else { return nil }
        let size = Int64(clamping: block.size)
        guard let offset = block.offset else { return "of \(blockName(block)) at \(block.start)" }
        if offset < 0 { return "\(at), \(bytes(offset.magnitude)) before \(blockName(block))" }
        if offset == 0, size > 0 { return "at the start of \(blockName(block)) at \(block.start)" }
        if offset >= size { return "\(at), \(bytes(offset - size)) after the end of \(blockName(block))" }
        return "\(at), \(bytes(offset)) into \(blockName(block))"
    }
}
