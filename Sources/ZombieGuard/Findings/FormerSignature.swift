// Computes the signature of version 1, under which earlier versions stored findings, and the frame names of that
// version, which suppression rules still compare.

extension Finding {
    /// Number of significant frames of each stack that enter a signature of version 1.
    package static let framesPerStack = 3

    /// Computes the signature of version 1: a hash of the kind and, for each stack, of the innermost functions of the
    /// program itself. Call it after symbolication.
    ///
    /// Stored findings, suppression rules and users' notes have such signatures, so this function never changes.
    ///
    /// - Returns: sixteen hexadecimal digits.
    package func computeFormerSignature() -> String {
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

/// A stack in the form that suppressions and signatures of version 1 use: one stable name per frame, and whether the
/// frame is significant.
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

    /// Whether the compiler generated the function, so that its existence depends on optimization.
    var isCompilerGenerated: Bool {
        guard let function else { return false }
        // A deallocating deinit ends in a call of the allocator. If optimization makes this a tail call, the deinit has
        // no frame.
        return ["outlined ", "reabstraction thunk", "protocol witness for ", "value witness"]
            .contains { function.hasPrefix($0) } || function.hasSuffix("deallocating_deinit")
    }
}
