// Class names as the runtime writes them into findings.

/// The name of a class as findings have it: qualified, private types without their discriminators.
func className(of type: AnyClass) -> String { normalized(_typeName(type, qualified: true)) }

/// Drops what names the private or local context of a type, which the runtime does not write and which differs from run
/// to run: "Shop.(unknown context at $10)." becomes "Shop.".
func normalized(_ name: String) -> String {
    var result = ""
    var rest = name[...]
    while let context = rest.firstRange(of: "(unknown context at $") {
        result += rest[..<context.lowerBound]
        rest = rest[context.upperBound...].drop { $0 != ")" }.dropFirst()
        if rest.first == "." { rest = rest.dropFirst() }
    }
    return result + rest
}
