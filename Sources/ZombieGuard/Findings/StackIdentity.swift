// Identifies a stack by what stays the same in another run of the same binaries.

extension Finding.Stacks {
    /// An identity in sixteen hexadecimal digits.
    package static func digits(ofIdentity identity: UInt64) -> String {
        let digits = String(identity, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Number of frames that a stack's identity covers, innermost first.
    package static let framesInIdentity = 32

    /// The identity of a stack of the runtime's depot, such as ``alloc`` or ``free``: equal to that of
    /// `zg_stack_identity` in Sources/CZombie/stacks/identity.h. Raw and finished findings give the same value: the
    /// frames of inlined functions, which symbolication adds, are skipped.
    ///
    /// - Returns: the identity; nil if the stack is empty.
    package static func identity(of stack: [Finding.Frame]) -> UInt64? {
        let frames = stack.lazy.filter { !$0.inlined }.prefix(framesInIdentity)
        if frames.isEmpty { return nil }
        var hash = StableHash()
        for frame in frames {
            // A frame in no module contributes a constant.
            let place = frame.moduleName.flatMap { name in frame.offset.map { (name, $0.rawValue) } }
            hash.add(place?.0 ?? "")
            hash.add(place?.1 ?? 0)
        }
        return hash.value
    }
}
