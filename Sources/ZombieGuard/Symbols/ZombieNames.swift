// Class and member of a freed object, from the symbols that the runtime left to look up.

extension Symbolicator {
    /// Gives a block its class and member. `free` is the stack that freed it, not named yet; `slot` the number of the
    /// virtual function that was about to be called, where the runtime had only the vtable of a base class to look in.
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
        block.memberFrame = nil
        return block
    }

    /// Gives an object that was only retained so far the member that the program was about to use: the first of what follows
    /// that is one of its class's. Code without a name may be that one, and then nothing is said.
    func nameNext(_ finding: inout Finding) {
        guard let block = finding.block else { return }
        finding.block?.next = []
        finding.block?.bases = []
        guard finding.access == .retain, finding.detail["operation"] == nil, block.member == nil,
            let className = block.className
        else { return }
        for use in block.next {
            var names: [SymbolName] = []
            if let frame = use.memberFrame {
                guard let offset = frame.offset, let symbols = symbols(of: frame) else { return }
                names = symbols.symbols(at: offset).map(SymbolName.init)
                // A jump within a function.
                if names.isEmpty, symbols.symbol(around: offset) != nil { continue }
            } else if let symbol = use.memberSymbol {
                names = [SymbolName(symbol: symbol)]
            }
            if let member = use.member {
                finding.block?.member = member
                finding.detail["next"] = use.access.rawValue
            } else if let name = own(names, of: [className] + block.bases) {
                finding.block?.member = name.member
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

    /// The one of equal functions that is a member of one of these classes; nil where that cannot be told.
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

    /// The method that begins at a frame's address; nil where that cannot be told for certain.
    private func member(at frame: Finding.Frame, of className: String?) -> SymbolName? {
        guard let offset = frame.offset, let symbols = symbols(of: frame)?.symbols(at: offset) else { return nil }
        var names: [SymbolName] = []
        for name in symbols.map({ SymbolName(symbol: $0) }) where name.role != .helper && name.role != .data {
            if let member = name.member, !names.contains(where: { $0.owner == name.owner && $0.member == member }) {
                names.append(name)
            }
        }
        if names.count <= 1 { return names.first }
        // The linker gave equal functions one address: only the class can tell which of them was meant.
        let own = names.filter { name in
            guard let className, let owner = name.owner else { return false }
            return isSameType(className, owner)
        }
        return own.count == 1 ? own[0] : nil
    }

    // Owners of Swift members have neither module nor generic arguments: "Outer.Inner" is "Shop.Outer<Swift.Int>.Inner".
    private func isSameType(_ className: String, _ owner: String) -> Bool {
        className == owner || SwiftTypeText.path(of: Substring(className)).joined(separator: ".") == owner
    }

    /// The deleting destructor that called operator delete: that of the class that the object was made as, while the vtable
    /// pointer in the freed object may be that of a base class. nil where the stack does not show it.
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
            // A destructor that deletes a member of its own class calls that one's destructor, which may be gone from
            // the stack: operator delete was its last call.
            return callsDelete(before: offset, symbols) ? (symbol, name, symbols) : nil
        }
        return nil
    }

    /// Whether the call in whose instruction `pc` lies goes to operator delete rather than to another destructor.
    private func callsDelete(before pc: Address, _ symbols: ModuleSymbols) -> Bool {
        let start = pc.rawValue &+ 1 &- UInt64(Processor.callBytes)
        let code = symbols.bytes(at: Address(start), count: Processor.callBytes)
        guard code.count == Processor.callBytes, let call = Processor.call(code, at: start) else { return false }
        // Through the table of imported functions: no destructor of the same module.
        guard case .direct(let target) = call else { return true }
        let names = symbols.symbols(at: Address(target))
        return names.isEmpty || names.contains { $0.hasPrefix("_Zdl") }
    }
}

extension SymbolName.Role {
    /// What calling such a function does to the object, where it is more than a call.
    fileprivate var access: Finding.Access? {
        switch self {
        case .getter: .read
        case .setter, .modify: .write
        default: nil
        }
    }
}
