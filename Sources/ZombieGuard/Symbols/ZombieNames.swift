// Finds the class and member of a freed object from the symbols that the runtime left unresolved.

extension Symbolicator {
    /// Sets class and member of a block. `free` is the unsymbolicated stack of the free. `slot` is the number of the
    /// virtual function about to be called, if the runtime knew only the vtable of a base class.
    func finish(
        _ block: Finding.Block, freedBy free: [Finding.Frame], slot: Int? = nil, in access: inout Finding.Access
    ) -> Finding.Block {
        var block = block
        if let symbol = block.classSymbol, block.className == nil {
            let destructor = deletingDestructor(free)
            block.className = destructor?.name.owner ?? CxxName.className(typeinfo: symbol)
            if let destructor, let slot, block.member == nil, block.offset ?? 0 == 0 {
                block.member = destructor.symbols.virtualFunction(slot, ofClassWith: destructor.symbol)?.member
            }
        }
        if let frame = block.memberFrame, block.member == nil, let name = member(at: frame, of: block.className) {
            block.member = name.member
            access = name.role.access ?? access
        }
        block.classSymbol = nil
        if block.member != nil || !isNameable(block.memberFrame) { block.memberFrame = nil }
        return block
    }

    /// Whether code has no name because the symbols of its build are missing. The symbols may be found later.
    private func isNameable(_ frame: Finding.Frame?) -> Bool {
        guard let frame, let offset = frame.offset, frame.buildID != nil else { return false }
        return symbols(of: frame)?.symbol(around: offset) == nil
    }

    /// Sets the member of an object that was only retained so far, or whose class was only read. Takes it from the
    /// first of the predicted uses (`next`) that uses a member of the object's class. Stops without a result at code
    /// that has no name, because that code could be such a use.
    func resolvePredictedUse(_ finding: inout Finding) {
        guard let block = finding.block else { return }
        finding.block?.next = []
        finding.block?.bases = []
        guard finding.access == .retain || finding.access == .cast, finding.detail["operation"] == nil,
            block.member == nil, let className = block.className
        else { return }
        for use in block.next {
            var names: [SymbolName] = []
            if let frame = use.memberFrame {
                guard let offset = frame.offset, let symbols = symbols(of: frame) else { return }
                names = symbols.symbols(at: offset).map(SymbolName.init)
                // No function begins at this address, so the use is a jump within a function, not a call.
                if names.isEmpty, symbols.symbol(around: offset) != nil { continue }
            } else if let symbol = use.memberSymbol {
                names = [SymbolName(symbol: symbol)]
            }
            if let member = use.member {
                finding.block?.member = member
                finding.detail["next"] = use.access.rawValue
            } else if let name = own(names, of: [className] + block.bases) {
                // A dictionary hashes a key through the witness _rawHashValue(seed:), which calls or inlines
                // hash(into:) of the program.
                finding.block?.member = name.member == "_rawHashValue(seed:)" ? "hash(into:)" : name.member
                finding.detail["next"] = (name.role.access ?? use.access).rawValue
            } else if names.isEmpty {
                return
            } else {
                continue
            }
            if use.confidence == .inferred { finding.confidence = .inferred }
            return
        }
    }

    /// The name, among those of several folded functions, that is a member of one of these classes; nil if ambiguous.
    private func own(_ names: [SymbolName], of classes: [String]) -> SymbolName? {
        for className in classes {
            let own = names.filter { name in
                guard let owner = name.owner, name.member != nil, name.member != "deinit" else { return false }
                return name.role != .helper && name.role != .data && isSameType(className, owner)
            }
            if let first = own.first { return own.allSatisfy { $0.member == first.member } ? first : nil }
        }
        return nil
    }

    /// The method at a frame's address; nil if ambiguous.
    private func member(at frame: Finding.Frame, of className: String?) -> SymbolName? {
        guard let offset = frame.offset, let symbols = symbols(of: frame)?.symbols(at: offset) else { return nil }
        var names: [SymbolName] = []
        for name in symbols.map({ SymbolName(symbol: $0) }) where name.role != .helper && name.role != .data {
            if let member = name.member, !names.contains(where: { $0.owner == name.owner && $0.member == member }) {
                names.append(name)
            }
        }
        if names.count <= 1 { return names.first }
        // Several functions were folded to one address: choose by the class.
        let own = names.filter { name in
            guard let className, let owner = name.owner else { return false }
            return isSameType(className, owner)
        }
        return own.count == 1 ? own[0] : nil
    }

    // The owner of a Swift member lacks module and generic arguments: "Outer.Inner" is "Shop.Outer<Swift.Int>.Inner".
    private func isSameType(_ className: String, _ owner: String) -> Bool {
        className == owner || SwiftTypeText.path(of: Substring(className)).joined(separator: ".") == owner
    }

    /// The deleting destructor that called operator delete. This destructor reveals the dynamic class, while the vtable
    /// pointer in the freed object may be that of a base class. nil if the stack does not contain it.
    private func deletingDestructor(
        _ free: [Finding.Frame]
    ) -> (symbol: String, name: SymbolName, symbols: ModuleSymbols)? {
        for frame in free {
            guard let offset = frame.offset, let symbols = symbols(of: frame),
                let symbol = symbols.symbol(around: offset)
            else { return nil }
            if symbol.hasPrefix("_Zdl") || symbol.hasPrefix("_Zda") || symbol == "free" { continue }
            let name = SymbolName(symbol: symbol)
            guard symbol.hasPrefix("_Z"), symbol.contains("D0Ev"), name.member?.hasPrefix("~") == true else {
                return nil
            }
            // A destructor may delete another object, whose own destructor is missing from the stack if it tail-called
            // operator delete. So check that the call in this frame goes to operator delete.
            return callsDelete(before: offset, symbols) ? (symbol, name, symbols) : nil
        }
        return nil
    }

    /// Whether the call instruction that contains `pc` calls operator delete rather than another destructor.
    private func callsDelete(before pc: Address, _ symbols: ModuleSymbols) -> Bool {
        let start = pc.rawValue &+ 1 &- UInt64(Processor.callBytes)
        let code = symbols.bytes(at: Address(start), count: Processor.callBytes)
        guard code.count == Processor.callBytes, let call = Processor.call(code, at: start) else { return false }
        // A call through the GOT is not a call of a destructor in the same module.
        guard case .direct(let target) = call else { return true }
        let names = symbols.symbols(at: Address(target))
        return names.isEmpty || names.contains { $0.hasPrefix("_Zdl") }
    }
}

extension SymbolName.Role {
    /// The access that a call of a function with this role implies; nil if it implies only the call.
    fileprivate var access: Finding.Access? {
        switch self {
        case .getter: .read
        case .setter, .modify: .write
        default: nil
        }
    }
}
