// The signature of a finding: equal for equal bugs, also across runs, builds and machines.

extension Finding {
    /// Frames of each stack that make up the signature.
    package static let framesPerStack = 3

    /// Sixteen hexadecimal digits that depend on the kind and on the first few functions of the program itself in each
    /// of the three stacks; where a function has no name, on module and offset. Compute it after names are known.
    ///
    /// Inlined functions count like others, so that it does not matter what the compiler inlines where debug information
    /// names it. Lines, directories, addresses and class do not count, nor does what `withoutBuildMarks` takes away.
    ///
    /// - Returns: sixteen hexadecimal digits.
    public func computeSignature() -> String {
        var hash = StableHash()
        hash.add(kind.rawValue)
        for stack in [signedStacks.access, signedStacks.free, signedStacks.alloc] {
            hash.add("stack")
            for name in StackNames(stack, limit: Self.framesPerStack).significant { hash.add(name) }
        }
        for stack in [stacks.previous, stacks.thrown] where !stack.isEmpty {
            hash.add("stack")
            for name in StackNames(stack, limit: Self.framesPerStack).significant { hash.add(name) }
        }
        return hash.digits
    }

    /// The stacks that say which bug it is: where a late write is found says nothing of who wrote.
    package var signedStacks: Stacks {
        isNoticedLate ? Stacks(free: stacks.free, alloc: stacks.alloc) : stacks
    }

    /// A write that left its traces, which somebody came upon: a late write, or one beside a block that lived until the check or
    /// the program's end. The access stack says who noticed.
    public var isNoticedLate: Bool {
        kind == .writeAfterFree || kind == .heapOverflow && ["exit", "check"].contains(detail["found_by"])
    }
}

/// What signatures and suppressions see of a stack: one stable name a frame, and which frames say something.
package struct StackNames {
    package struct Name: Hashable {
        package var text: String
        /// Index of the frame in the stack.
        package var frame: Int
        /// Whether the frame counts: runtime libraries, what the compiler makes, and a function that calls itself again
        /// are looked through, where there is anything else.
        package var isSignificant: Bool
    }

    package private(set) var names: [Name] = []

    /// Names of the frames up to the one that is the last of `limit` that count.
    package init(_ stack: [Finding.Frame], limit: Int = .max) {
        read(stack, limit: limit) { !$0.isLibraryCode && !$0.isMadeByCompiler }
        if !names.contains(where: \.isSignificant) {
            names = []
            read(stack, limit: limit) { _ in true }
        }
    }

    package var significant: [String] { names.lazy.filter(\.isSignificant).map(\.text) }

    private mutating func read(_ stack: [Finding.Frame], limit: Int, counts: (Finding.Frame) -> Bool) {
        var last: String?
        var count = 0
        for (index, frame) in stack.enumerated() {
            if count == limit { return }
            let name = frame.stableName
            let isSignificant = counts(frame) && name != last
            names.append(Name(text: name, frame: index, isSignificant: isSignificant))
            if isSignificant {
                last = name
                count += 1
            }
        }
    }
}

extension Finding.Frame {
    /// The function without what changes between builds; module and offset where it has no name.
    var stableName: String {
        if let function, !function.isEmpty { return withoutBuildMarks(function) }
        return "\(moduleName ?? "?")+\(offset ?? pc)"
    }

    /// Whether the compiler made the function up: whether there is one depends on how it optimizes.
    var isMadeByCompiler: Bool {
        guard let function else { return false }
        // What frees an object calls the allocator last of all: a jump or a call, as the compiler likes.
        return ["outlined ", "reabstraction thunk", "protocol witness for ", "value witness"]
            .contains { function.hasPrefix($0) } || function.hasSuffix("deallocating_deinit")
    }
}

/// FNV-1a with 64 bits: simple enough to stay the same for ever.
struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        for byte in text.utf8 { add(byte) }
        add(0) // keeps "ab" + "c" apart from "a" + "bc"
    }

    private mutating func add(_ byte: UInt8) {
        value ^= UInt64(byte)
        value = value &* 0x100_0000_01b3
    }

    var digits: String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
