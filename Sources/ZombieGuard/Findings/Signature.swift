// The signature of a finding: equal for equal bugs, also across runs, builds and machines.

extension Finding {
    /// Frames of each stack that make up the signature.
    static let framesPerStack = 3

    /// Sixteen hexadecimal digits that depend on the kind and on the first few functions of the program itself in each
    /// of the three stacks; where a function has no name, on module and offset. Compute it after names are known.
    public func computeSignature() -> String {
        var hash = StableHash()
        hash.add(kind.rawValue)
        // Where a late write is found says nothing of who wrote.
        let access = kind == .writeAfterFree ? [] : stacks.access
        for stack in [access, stacks.free, stacks.alloc] {
            hash.add("stack")
            let own = stack.filter { !$0.isLibraryCode }
            for frame in (own.isEmpty ? stack : own).prefix(Self.framesPerStack) {
                hash.add(frame.function ?? "\(frame.moduleName ?? "?")+\(frame.offset ?? frame.pc)")
            }
        }
        return hash.digits
    }
}

/// FNV-1a with 64 bits: simple enough to stay the same for ever.
struct StableHash {
    private var state: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        for byte in text.utf8 { add(byte) }
        add(0) // keeps "ab" + "c" apart from "a" + "bc"
    }

    private mutating func add(_ byte: UInt8) {
        state ^= UInt64(byte)
        state = state &* 0x100_0000_01b3
    }

    var digits: String {
        let digits = String(state, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
