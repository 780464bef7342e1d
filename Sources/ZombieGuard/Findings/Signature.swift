// Computes the signature of a finding, which is equal for equal bugs across runs, builds and machines.

extension Finding {
    /// Number of significant frames of each stack that enter the signature.
    package static let framesPerStack = 3

    /// Hashes the kind and, for each stack, the innermost functions of the program itself; for a function without a
    /// name, module and offset are hashed. Call it after symbolication.
    ///
    /// Inlined functions are hashed like others, so the signature does not depend on inlining if debug information is
    /// present. Lines, directories, addresses, the class, and everything that `withoutBuildMarks` strips are not
    /// hashed.
    ///
    /// - Returns: sixteen hexadecimal digits.
    public func computeSignature() -> String {
        var hash = StableHash()
        hash.add(kind.rawValue)
        for stack in [signatureStacks.access, signatureStacks.free, signatureStacks.alloc] {
            hash.add("stack")
            for name in StackNames(stack, limit: Self.framesPerStack).significant { hash.add(name) }
        }
        for stack in [stacks.previous, stacks.thrown] where !stack.isEmpty {
            hash.add("stack")
            for name in StackNames(stack, limit: Self.framesPerStack).significant { hash.add(name) }
        }
        for step in leak?.cycle ?? [] {
            hash.add("step")
            hash.add(step.member ?? step.place)
        }
        return hash.digits
    }

    /// The stacks that identify the bug. If the error was noticed late, they exclude the access stack: that stack is
    /// the detector's, not the writer's.
    package var signatureStacks: Stacks {
        isNoticedLate ? Stacks(free: stacks.free, alloc: stacks.alloc) : stacks
    }

    /// Whether the finding is a write that was detected after the fact: a write after free, or an overflow of a live
    /// block found by a check or at exit. The access stack is then the detector's.
    public var isNoticedLate: Bool {
        kind == .writeAfterFree || kind == .heapOverflow && ["exit", "check"].contains(detail["found_by"])
    }
}

/// The view of a stack that signatures and suppressions use: one stable name per frame, and whether the frame is
/// significant.
package struct StackNames {
    package struct Name: Hashable {
        package var text: String
        /// Index of the frame in the stack.
        package var frame: Int
        /// Whether the frame is significant. Frames of runtime libraries, compiler-generated functions and direct
        /// recursion are skipped, unless the stack has no other frames.
        package var isSignificant: Bool
    }

    package private(set) var names: [Name] = []

    /// Takes the names of frames until `limit` of them are significant.
    package init(_ stack: [Finding.Frame], limit: Int = .max) {
        read(stack, limit: limit) { !$0.isLibraryCode && !$0.isCompilerGenerated }
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
    /// The function name without parts that change between builds; module and offset if the function has no name.
    var stableName: String {
        if let function, !function.isEmpty { return withoutBuildMarks(function) }
        return "\(moduleName ?? "?")+\(offset ?? pc)"
    }

    /// Whether the compiler generated the function; whether it exists depends on optimization.
    var isCompilerGenerated: Bool {
        guard let function else { return false }
        // A deallocating deinit ends in a call of the allocator, which is a tail call or not depending on optimization.
        return ["outlined ", "reabstraction thunk", "protocol witness for ", "value witness"]
            .contains { function.hasPrefix($0) } || function.hasSuffix("deallocating_deinit")
    }
}

/// 64-bit FNV-1a: simple enough to stay unchanged forever.
struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        for byte in text.utf8 { add(byte: byte) }
        add(byte: 0) // distinguishes "ab" + "c" from "a" + "bc"
    }

    /// Adds the eight bytes of a number, least significant first.
    mutating func add(_ number: UInt64) {
        for shift in stride(from: 0 as UInt64, to: 64, by: 8) { add(byte: UInt8(truncatingIfNeeded: number >> shift)) }
    }

    private mutating func add(byte: UInt8) {
        value ^= UInt64(byte)
        value = value &* 0x100_0000_01b3
    }

    var digits: String { Finding.Stacks.digits(ofIdentity: value) }
}
