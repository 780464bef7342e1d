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
            switch name.role {
            case .getter: access = .read
            case .setter, .modify: access = .write
            default: break
            }
        }
        block.classSymbol = nil
        block.memberFrame = nil
        return block
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
        let returnAddress = pc.rawValue &+ 1
        #if arch(x86_64)
        let length: UInt64 = 6
        let code = symbols.bytes(at: Address(returnAddress &- length), count: Int(length))
        guard code.count == Int(length) else { return false }
        if code[0] == 0xff, code[1] == 0x15 { return true } // through the table of imported functions
        guard code[1] == 0xe8 else { return false }
        let target = returnAddress &+ UInt64(bitPattern: Int64(code.number(at: 2) as Int32))
        #else
        let code = symbols.bytes(at: Address(returnAddress &- 4), count: 4)
        guard code.count == 4 else { return false }
        let instruction: UInt32 = code.number(at: 0)
        guard instruction >> 26 == 0b100101 else { return false }
        let distance = Int64(Int32(bitPattern: instruction << 6) >> 6) * 4
        let target = returnAddress &- 4 &+ UInt64(bitPattern: distance)
        #endif
        let names = symbols.symbols(at: Address(target))
        return names.isEmpty || names.contains { $0.hasPrefix("_Zdl") }
    }
}
