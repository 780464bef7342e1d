// Derives the reference-counting operation on a freed Swift object from the Swift runtime functions in the stack.

extension Finding {
    /// A Swift runtime function, identified by a name prefix, and the operation that it performs.
    struct RuntimeCall {
        var prefix: String
        var access: Access
        /// Value for `detail["operation"]`.
        var operation: String?
    }

    // If an entry point tail-calls its slow path, the stack shows only the slow path.
    private static let slowPaths: [RuntimeCall] = [
        RuntimeCall(prefix: "formWeakReference", access: .retain, operation: "weak reference"),
        RuntimeCall(prefix: "incrementUnowned", access: .retain, operation: "unowned reference"),
        RuntimeCall(prefix: "decrementUnowned", access: .release, operation: "unowned reference"),
        RuntimeCall(prefix: "increment", access: .retain), RuntimeCall(prefix: "tryIncrement", access: .retain),
        RuntimeCall(prefix: "doDecrement", access: .release), RuntimeCall(prefix: "decrement", access: .release),
    ]

    // Of several matching rows, the first counts. Names omit their prefix `swift_` or `_swift_`, and `nonatomic_`.
    private static let runtimeCalls: [RuntimeCall] = [
        RuntimeCall(prefix: "unownedRelease", access: .release, operation: "unowned reference"),
        RuntimeCall(prefix: "unowned", access: .retain, operation: "unowned reference"),
        RuntimeCall(prefix: "abortRetainUnowned", access: .retain, operation: "unowned reference"),
        RuntimeCall(prefix: "strongRetainUnowned", access: .retain, operation: "unowned reference"),
        RuntimeCall(prefix: "weak", access: .retain, operation: "weak reference"),
        RuntimeCall(prefix: "isUniquelyReferenced", access: .read, operation: "uniqueness check"),
        RuntimeCall(prefix: "isEscapingClosure", access: .read, operation: "uniqueness check"),
        RuntimeCall(prefix: "retainCount", access: .read, operation: "reference count"),
        RuntimeCall(prefix: "unownedRetainCount", access: .read, operation: "reference count"),
        RuntimeCall(prefix: "weakRetainCount", access: .read, operation: "reference count"),
        RuntimeCall(prefix: "retain", access: .retain), RuntimeCall(prefix: "tryRetain", access: .retain),
        RuntimeCall(prefix: "bridgeObjectRetain", access: .retain),
        RuntimeCall(prefix: "unknownObjectRetain", access: .retain),
        RuntimeCall(prefix: "release", access: .release), RuntimeCall(prefix: "bridgeObjectRelease", access: .release),
        RuntimeCall(prefix: "unknownObjectRelease", access: .release),
        RuntimeCall(prefix: "setDeallocating", access: .release), RuntimeCall(prefix: "dealloc", access: .release),
        RuntimeCall(prefix: "dynamicCast", access: .cast),
    ]

    /// Sets `access` and `detail["operation"]` from the outermost Swift runtime call in the stack that is known to
    /// touch the reference count. The runtime has already classified the access as retain, release or read from the
    /// machine code; function names add detail, such as a uniqueness check.
    mutating func refineReferenceCounting() {
        let refinable: Set<Access> = [.unknown, .retain, .release, .read]
        guard detail["part"] == "reference count", refinable.contains(access) else { return }
        let calls = stacks.access.prefix { $0.isSwiftRuntime }
        for frame in calls.reversed() {
            guard let call = frame.function.flatMap({ Self.runtimeCall($0) }) else { continue }
            access = call.access
            if let operation = call.operation { detail["operation"] = operation }
            return
        }
    }

    static func runtimeCall(_ function: String) -> RuntimeCall? {
        var name = Substring(function)
        for type in ["swift::RefCounts::", "swift::HeapObjectSideTableEntry::"] where name.hasPrefix(type) {
            name = name.dropFirst(type.count)
            return slowPaths.first { name.hasPrefix($0.prefix) }
        }
        if name.hasPrefix("_") { name = name.dropFirst() }
        guard name.hasPrefix("swift_") else { return nil }
        name = name.dropFirst("swift_".count)
        if name.hasPrefix("nonatomic_") { name = name.dropFirst("nonatomic_".count) }
        let exact = runtimeCalls.filter { $0.prefix.hasSuffix("Count") }.first { name == $0.prefix }
        return exact ?? runtimeCalls.first { name.hasPrefix($0.prefix) }
    }
}

extension Finding.Frame {
    /// Whether the frame is a C or C++ function of the Swift runtime, linked dynamically or statically.
    var isSwiftRuntime: Bool {
        guard let function else { return false }
        return ["swift_", "_swift_", "swift::"]
            .contains { function.hasPrefix($0) }
    }
}
