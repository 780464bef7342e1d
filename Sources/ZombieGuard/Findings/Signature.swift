// Computes the signature of a finding, which is equal for equal bugs across runs, builds and machines.

extension Finding {
    /// The version of ``computeSignature()``.
    package static let signatureVersion = 2

    /// Hashes the kind, the program's name, the reason of a crash and, for each stack, the innermost functions of the
    /// program itself. Call it after symbolication.
    ///
    /// Addresses, lines, directories, parameter and template lists, inlining and the compiler's clones and thunks do
    /// not matter, nor do the numbers and quoted values in a message. docs/design/045-signatures.md has the reasons.
    ///
    /// - Returns: sixteen hexadecimal digits.
    public func computeSignature() -> String {
        var hash = StableHash()
        hash.add("version \(Self.signatureVersion)")
        hash.add(kind.rawValue)
        hash.add(programName ?? "")
        if kind == .crash, let crash {
            hash.add("reason")
            hash.add(crash.status.map { "status \($0)" } ?? crash.signal)
            for part in crash.reason { hash.add(part) }
        }
        if kind == .crash, crash?.status != nil, let function = detail["raised_in"] {
            // Hash the script's function instead of the stack: the stack's frames are the interpreter's, whose builds
            // differ.
            hash.add("raised in")
            hash.add(function)
            hash.add(raisedFile ?? "")
            return hash.digits
        }
        let identifying = signatureStacks
        let access = stall?.commonStack ?? identifying.access
        for stack in [access, identifying.free, identifying.alloc, stacks.previous, stacks.thrown] {
            hash.add("stack")
            let names = SignatureFrames(stack, program: programName)
            for name in kind == .stackOverflow ? names.recursion : names.first { hash.add(name) }
        }
        for step in leak?.canonicalCycle ?? [] {
            hash.add("step")
            hash.add(step)
        }
        return hash.digits
    }

    /// Name of the program's file, without its directory and the kernel's mark of a deleted file.
    package var programName: String? {
        guard let name = program?.split(separator: "/").last else { return nil }
        let mark = " (deleted)"
        return String(name.hasSuffix(mark) ? name.dropLast(mark.count) : name)
    }

    /// Name of the file in which an interpreted program raised the error that ended it, without directory and line.
    private var raisedFile: String? {
        let path = detail["said_at"]?.split(separator: "/").last
        return path?.split(separator: ":").first.map(String.init)
    }

    /// Whether a signature is the finding's current one, or one that it had under an earlier version or before
    /// symbolication.
    ///
    /// - Parameter text: a signature.
    /// - Returns: whether it belongs to this finding.
    public func isSigned(_ text: String) -> Bool { signature == text || formerSignatures.contains(text) }

    /// Sets the signature if it is missing. Replaces a signature of an earlier version if the finding's contents still
    /// yield it. Otherwise stacks or names were removed (sampling, redaction), and only the earlier signature
    /// identifies the bug.
    package mutating func addSignature() {
        if let signature {
            if formerSignatures.isEmpty, computeFormerSignature() == signature { renewSignature() }
        } else {
            signature = computeSignature()
            formerSignatures = [computeFormerSignature()]
        }
    }

    /// Recomputes the signature after symbolication, and keeps the earlier signatures as former ones.
    package mutating func renewSignature() {
        let earlier = [signature].compactMap { $0 } + formerSignatures
        signature = computeSignature()
        formerSignatures = []
        for one in [computeFormerSignature()] + earlier where !isSigned(one) { formerSignatures.append(one) }
    }
}

/// The names of a stack's frames that identify a bug.
struct SignatureFrames {
    /// Number of functions of a stack that enter the signature.
    static let most = 3

    private struct Function {
        var name: String
        /// Whether the function is in the program's executable, rather than in a library.
        var isInExecutable = false
    }

    private var functions: [Function] = []
    /// Names of the functions that occur repeatedly, in alphabetical order.
    private let repeated: [String]

    init(_ stack: [Finding.Frame], program: String?) {
        for frame in stack where frame.isOfProgram {
            let name = frame.signatureName
            if Self.runtimeFunctions.contains(where: name.hasPrefix) { continue }
            functions.append(Function(name: name, isInExecutable: program != nil && frame.moduleName == program))
            // The callers of main belong to the C library's startup code.
            if name == "main" { break }
        }
        if functions.isEmpty { functions = stack.map { Function(name: $0.signatureName) } }
        var counts: [String: Int] = [:]
        for function in functions { counts[function.name, default: 0] += 1 }
        repeated = counts.filter { $0.value > 1 }.keys.sorted()
    }

    /// The innermost functions. Those that occur repeatedly count as one, so that neither the depth of a recursion
    /// matters nor which of its functions is the innermost. If all are in libraries, the innermost function of the
    /// executable follows, because many bugs end in the same function of a library.
    var first: [String] {
        var seen: Set<String> = []
        let recursion = repeated.joined(separator: "\n")
        let all = Set(repeated)
        let different = functions.map { function in
            all.contains(function.name) ? Function(name: recursion, isInExecutable: function.isInExecutable) : function
        }.filter { seen.insert($0.name).inserted }
        let innermost = different.prefix(Self.most)
        let own = innermost.contains(where: \.isInExecutable) ? nil : different.first(where: \.isInExecutable)
        return innermost.map(\.name) + (own.map { [$0.name] } ?? [])
    }

    /// The functions that occur repeatedly, because a recursion may overflow the stack in any of them or in a callee;
    /// the innermost functions if none is repeated.
    var recursion: [String] { repeated.isEmpty ? first : repeated }

    // Functions of the C++ runtime and of the start of a program that may be linked into the executable, the functions
    // that compilers make to initialize globals, the inlined "functions" whose names are reasons of traps, and Swift
    // library functions, to which the optimizer may give lines of the program.
    private static let runtimeFunctions = [
        "std::", "__gnu_cxx::", "__cxxabiv1::", "__cxa_", "_Unwind_", "__clang_call_terminate", "_start",
        "__libc_start", "__static_initialization_and_destruction_", "__cxx_global_var_init", "_GLOBAL__",
        "Swift runtime failure: ", "Swift.", "static Swift.",
    ]
}

extension Finding.Frame {
    /// Whether the frame is code of the program, or of a library that is not a runtime, and neither compiler-generated
    /// nor a thunk. The frame of a partial application counts, because it may contain the closure inlined.
    fileprivate var isOfProgram: Bool {
        if isLibraryCode || isCompilerGenerated { return false }
        return !isThunk || function?.hasPrefix("partial apply for ") == true
    }

    /// The function's name. Without a name: the file name of a system library, or else module and offset.
    fileprivate var signatureName: String {
        if let function, !function.isEmpty { return functionIdentity(function) }
        guard let module, let name = moduleName else { return "?+\(offset ?? pc)" }
        // Omit the offset in a system library: every update moves the library's functions.
        if let suffix = name.firstRange(of: ".so"),
            isLibraryCode || Self.systemDirectories.contains(where: module.hasPrefix)
        {
            return String(name[..<suffix.upperBound])
        }
        return "\(name)+\(offset ?? pc)"
    }

    private static let systemDirectories = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"]
}

extension Finding.Stall {
    /// The outermost frames that more than half of the samples share, innermost frame first; nil if there are fewer
    /// than two stacks, they share nothing, or the holder of a lock is known.
    fileprivate var commonStack: [Finding.Frame]? {
        guard sampled.count > 1, holder == nil else { return nil }
        let all = sampled.reduce(0) { $0.addingSaturated($1.count) }
        var rest = sampled.map { (frames: Array($0.stack.reversed()), count: $0.count) }
        var depth = 0
        while true {
            var counts: [String: Int] = [:]
            for one in rest where one.frames.count > depth {
                counts[one.frames[depth].signatureName, default: 0] += one.count
            }
            guard let next = counts.max(by: { ($0.value, $1.key) < ($1.value, $0.key) }), next.value * 2 > all else {
                break
            }
            rest = rest.filter { $0.frames.count > depth && $0.frames[depth].signatureName == next.key }
            depth += 1
        }
        guard depth > 0, let stack = rest.first?.frames.prefix(depth) else { return nil }
        return stack.reversed()
    }
}

extension Finding.Leak {
    /// Class and member of each step, in the rotation that precedes all others, because the search may begin at any
    /// object of the cycle.
    fileprivate var canonicalCycle: [String] {
        let steps = cycle.map { step in
            functionIdentity(step.className ?? "") + "." + (step.member ?? step.place)
        }
        let start = leastRotation(of: steps)
        return Array(steps[start...] + steps[..<start])
    }
}

/// Index of the first element of the rotation that precedes all others; 0 if there are no elements. Compares two
/// candidates element by element, and excludes the larger one and all rotations that begin inside its compared part, so
/// that the time is linear in the length.
func leastRotation(of elements: [String]) -> Int {
    let count = elements.count
    var (best, other, length) = (0, 1, 0)
    while best < count, other < count, length < count {
        let (a, b) = (elements[(best + length) % count], elements[(other + length) % count])
        if a == b {
            length += 1
            continue
        }
        if a > b { best += length + 1 } else { other += length + 1 }
        if best == other { other += 1 }
        length = 0
    }
    return min(best, other) < count ? min(best, other) : 0
}
