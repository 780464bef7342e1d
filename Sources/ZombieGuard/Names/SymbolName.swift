// What a symbol names: for people to read, and as owner and member.

/// A symbol's name, taken apart.
struct SymbolName: Hashable {
    enum Language { case c, cxx, swift }

    /// What kind of code it is, as far as reports tell them apart.
    enum Role: Hashable {
        case function, getter, setter, modify
        /// Made by the compiler around, inside or for something that has a name of its own.
        case helper
        case data
    }

    var language = Language.c
    /// For stacks: `Cart.add(_:)`, `closure #1 in checkout()`, `geo::Circle::area(int) const`.
    var readable: String
    var role = Role.function
    /// The type that the code is a member of, without its module and generic arguments: `Cart`, `Outer.Inner`, `geo::Circle`.
    var owner: String?
    /// The member of that type: `add(_:)`, `items`, `area(int) const`.
    var member: String?

    init(language: Language = .c, readable: String, role: Role = .function) {
        self.language = language
        self.readable = readable
        self.role = role
    }

    /// Takes a symbol's name apart, mangled or not.
    init(symbol: String) {
        let plain = demangle(symbol)
        if plain == symbol {
            self.init(readable: symbol)
        } else if symbol.hasPrefix("_Z") {
            self = CxxName.parse(plain)
        } else {
            self = SwiftName.parse(plain)
        }
    }
}

/// A symbol's name as stacks show it: without modules, types of results, and other noise.
func readableName(_ symbol: String) -> String { SymbolName(symbol: symbol).readable }
