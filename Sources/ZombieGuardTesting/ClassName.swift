// Converts class names to the form in which the runtime writes them into findings.

/// The name of a class as in findings: qualified, without the discriminators of private types.
func className(of type: AnyClass) -> String { normalized(_typeName(type, qualified: true)) }

/// Removes a type's private or local context, which findings omit and which differs between runs: "Shop.(unknown
/// context at $10)." becomes "Shop.".
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
