// Tells the program's own code in a stack from what lies below everybody's code.

extension Finding.Frame {
    // Beginnings of file names of the C, C++ and Swift runtime and of what the Swift toolchain brings along.
    private static let libraries = [
        "libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "libc++", "libgcc_s", "libswift", "libzguard",
        "linux-vdso", "libdispatch", "libBlocksRuntime", "libFoundation", "lib_Foundation", "libXCTest", "libTesting",
        "lib_Testing", "lib_Internationalization",
    ]

    // Beginnings of functions of the same runtimes, which may be linked into the program.
    private static let functions = [
        "swift_", "_swift_", "swift::", "dispatch_", "_dispatch_", "std::", "__gnu_cxx::", "__cxxabiv1::",
        "operator new",
        "operator delete",
    ]

    // Inlined functions of the C and C++ library, and all of Rust's.
    private static let directories = ["/usr/include/", "/usr/lib/gcc/", "/usr/local/include/c++/", "/rustc/"]

    /// Whether the frame belongs to a runtime library rather than to the program.
    public var isLibraryCode: Bool {
        if let function, Self.functions.contains(where: { function.hasPrefix($0) }) || isSwiftLibraryFunction || isOfGo
        {
            return true
        }
        if let file, Self.directories.contains(where: { file.hasPrefix($0) }) { return true }
        guard let moduleName else { return false }
        return Self.libraries.contains { moduleName.hasPrefix($0) }
    }

    // Go's own, "runtime.gopanic", which is a part of every program of its.
    private var isOfGo: Bool {
        guard let function, function.hasPrefix("runtime.") else { return false }
        return file.map { $0.hasSuffix(".go") || $0.hasSuffix(".s") } ?? true
    }

    // "closure #1 in static Swift.Array.f()": linked statically, or specialized for the program. Such code has no lines,
    // which tells it from a type of the program's that has the name of a module.
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

    /// Whether the compiler has put the frame between a call and the function that it is meant for. ``holdsItsTarget``: that
    /// function may have become a part of it, where no debug information tells the two apart.
    var isThunk: Bool {
        guard let function else { return false }
        return holdsItsTarget || Self.thunks.contains { function.hasPrefix($0) }
    }

    var holdsItsTarget: Bool {
        guard let function else { return false }
        return function.hasPrefix("partial apply for ") || function.hasPrefix("protocol witness for ")
    }

    private static let thunks = [
        "reabstraction thunk", "vtable thunk for ", "dispatch thunk of ", "thunk for ", "non-virtual thunk to ",
        "virtual thunk to ", "covariant return thunk to ",
    ]

    /// Whether the source line is known, so that a reader can go there.
    var hasLine: Bool { file != nil && line != nil }
}

extension [Finding.Frame] {
    /// The frame that a reader should look at first: the innermost one of the program itself, if possible one whose source
    /// line is known.
    public var origin: Finding.Frame? {
        first { $0.hasLine && !$0.isLibraryCode && !$0.isThunk } ?? first { !$0.isLibraryCode && !$0.isThunk }
            ?? first { !$0.isLibraryCode } ?? first
    }
}

extension Finding.Stacks {
    /// The frame of the access stack that a reader should look at first.
    public var accessOrigin: Finding.Frame? { access.origin }
}
