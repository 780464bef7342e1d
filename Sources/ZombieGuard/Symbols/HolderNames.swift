// Names the places that still point to a freed block: variables, functions, and allocation stacks.

extension Symbolicator {
    /// Names the holders of a symbolicated finding, and merges holders with the same name. Leaves out the stack frames
    /// of the function that used the block and of its callees: their copies of the pointer belong to the access itself.
    func nameHolders(of finding: inout Finding) {
        let access = finding.stacks.access
        let origin = access.origin.flatMap { access.firstIndex(of: $0) } ?? 0
        // Inlined calls are not counted, because they share the frame of the function into which they were inlined.
        let depth = finding.isNoticedLate ? -1 : access[..<origin].filter { !$0.inlined }.count
        var named: [Finding.Holder] = []
        for holder in finding.holders ?? [] where holder.depth ?? .max > depth {
            let holder = self.named(holder)
            if let same = named.firstIndex(where: { $0.hasSamePlace(as: holder) }) {
                named[same].count += holder.count
            } else {
                named.append(holder)
            }
        }
        finding.holders = named
    }

    /// Names one holder.
    package func named(_ holder: Finding.Holder) -> Finding.Holder {
        var holder = holder
        holder.depth = nil
        holder.alloc = symbolicate(holder.alloc)
        holder.path = holder.path.map { named($0) }
        if let symbol = holder.classSymbol, holder.className == nil {
            holder.className = CxxName.className(typeinfo: symbol)
        }
        holder.classSymbol = nil
        guard let frame = holder.frame else { return holder }
        if holder.place == Finding.Holder.Place.stack {
            holder.frame = symbolicate([frame]).last ?? frame
        } else if holder.symbol == nil, let offset = frame.offset, let symbols = symbols(of: frame) {
            let symbol =
                holder.place == Finding.Holder.Place.threadLocal
                ? symbols.threadLocal(at: offset) : symbols.symbol(around: offset)
            holder.symbol = symbol.map { Self.variable($0) }
        }
        return holder
    }

    /// The name of a variable: without the type (Swift), and without the number that distinguishes static variables of
    /// C functions ("cached.0").
    private static func variable(_ symbol: String) -> String {
        let name = readableName(symbol)
        if let type = name.firstRange(of: " : ") { return String(name[..<type.lowerBound]) }
        guard let point = name.lastIndex(of: "."), name[name.index(after: point)...].allSatisfy(\.isNumber) else {
            return name
        }
        return String(name[..<point])
    }
}

extension Finding.Holder {
    /// All frames of the holder that refer to code: its allocation stack, its stack frame, and those of its path.
    var code: [Finding.Frame] {
        alloc + (place == Place.stack ? [frame].compactMap { $0 } : []) + path.flatMap(\.code)
    }

    fileprivate func hasSamePlace(as other: Self) -> Bool {
        let isNamed = frame?.function != nil || symbol != nil
        return place == other.place && symbol == other.symbol && className == other.className
            && member == other.member && thread == other.thread && block?.offset == other.block?.offset
            && block?.size == other.block?.size && frame?.function == other.frame?.function
            && frame?.module == other.frame?.module && (isNamed || frame == other.frame)
            && alloc.map(\.pc) == other.alloc.map(\.pc)
    }
}
