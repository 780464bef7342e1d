// Distinguishes the program's own frames from frames of runtime libraries and compiler-generated code.

extension Finding.Frame {
    // File name prefixes of the C, C++ and Swift runtimes and of the libraries in the Swift toolchain.
    private static let libraries = [
        "libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "libc++", "libgcc_s", "libswift", "libzguard",
        "linux-vdso", "libdispatch", "libBlocksRuntime", "libFoundation", "lib_Foundation", "libXCTest", "libTesting",
        "lib_Testing", "lib_Internationalization",
    ]

    // Function name prefixes of the C, C++ and Swift runtimes, which may be linked statically into the program.
    private static let functions = [
        "swift_", "_swift_", "swift::", "dispatch_", "_dispatch_", "std::", "__gnu_cxx::", "__cxxabiv1::",
        "operator new",
        "operator delete",
    ]

    // Source directories of inlined functions of the C and C++ libraries, and of all Rust libraries.
    private static let directories = ["/usr/include/", "/usr/lib/gcc/", "/usr/local/include/c++/", "/rustc/"]

    /// Whether the frame belongs to a runtime library rather than to the program.
    public var isLibraryCode: Bool {
        if let function,
            Self.functions.contains(where: { function.hasPrefix($0) }) || isSwiftLibraryFunction || isGoRuntimeFunction
        {
            return true
        }
        if let file, Self.directories.contains(where: { file.hasPrefix($0) }) { return true }
        guard let moduleName else { return false }
        return Self.libraries.contains { moduleName.hasPrefix($0) }
    }

    // The Go runtime, such as "runtime.gopanic", is linked into every Go program.
    private var isGoRuntimeFunction: Bool {
        guard let function, function.hasPrefix("runtime.") else { return false }
        return file.map { $0.hasSuffix(".go") || $0.hasSuffix(".s") } ?? true
    }

    // Swift library code that was linked statically or specialized into the program, such as "closure #1 in static
    // Swift.Array.f()". Unlike a program's type that shares its name with a library module, such code has no lines.
    private var isSwiftLibraryFunction: Bool {
        guard line == nil, let function else { return false }
        var name = Substring(function)
        while let range = name.range(of: " in ") ?? name.range(of: " for ") ?? name.range(of: " of ") {
            name = name[range.upperBound...]
        }
        for word in ["merged ", "static "] where name.hasPrefix(word) { name = name.dropFirst(word.count) }
        let module = name.prefix { $0 != "." }
        return module.count < name.count && SwiftName.libraryModules.contains(module)
    }

    /// Whether the frame is a compiler-generated thunk between a call and its target. If ``mayContainInlinedTarget``,
    /// the target may be inlined into the thunk, and without debug information the frame cannot be distinguished from
    /// one of a mere thunk.
    var isThunk: Bool {
        guard let function else { return false }
        return mayContainInlinedTarget || Self.thunks.contains { function.hasPrefix($0) }
    }

    var mayContainInlinedTarget: Bool {
        guard let function else { return false }
        return function.hasPrefix("partial apply for ") || function.hasPrefix("protocol witness for ")
    }

    private static let thunks = [
        "reabstraction thunk", "vtable thunk for ", "dispatch thunk of ", "thunk for ", "non-virtual thunk to ",
        "virtual thunk to ", "covariant return thunk to ",
    ]

    /// Whether the frame is the inlined "function" whose name is the reason of a trap in Swift.
    var isReasonOfTrap: Bool { function?.hasPrefix("Swift runtime failure: ") == true }

    /// Whether the source line is known, so that a reader can open it.
    var hasLine: Bool { file != nil && line != nil }
}

extension [Finding.Frame] {
    /// The frame to show first: the innermost frame of the program itself, preferably one with a known source line.
    public var origin: Finding.Frame? {
        first { $0.hasLine && !$0.isLibraryCode && !$0.isThunk } ?? first { !$0.isLibraryCode && !$0.isThunk }
            ?? first { !$0.isLibraryCode } ?? first
    }

    /// The innermost function of the program at the address of ``origin``. Optimized code that traps may have no line.
    /// The frame with a line is then that of the function into which the trapping function was inlined.
    func innermostFunction(at origin: Finding.Frame) -> String? {
        first { $0.pc == origin.pc && $0.inlined && !$0.isLibraryCode && !$0.isThunk && !$0.isReasonOfTrap }?.function
            ?? origin.function
    }
}

extension Finding.Stacks {
    /// The frame of the access stack to show first.
    public var accessOrigin: Finding.Frame? { access.origin }
}
