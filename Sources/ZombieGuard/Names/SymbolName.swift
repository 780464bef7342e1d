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

    // Longer names stay as they are: nobody reads them.
    private static let longest = 1 << 16

    /// Takes a symbol's name apart, mangled or not.
    init(symbol: String) {
        let plain = demangle(symbol)
        if plain.utf8.count > Self.longest {
            self.init(readable: plain)
            return
        }
        if let rust = rustName(symbol) ?? (symbol.hasPrefix("_ZN") ? olderRustName(plain) : nil) {
            self.init(readable: rust)
        } else if plain == symbol {
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

private let longestMangled = (whole: 40, part: 20)
private let mangledBeginnings = ["$s", "$S", "$e", "_$s", "_$S", "_$e", "_T0", "_Z", "__Z", "_R", "_D"]

/// A name without the ends of what in it is mangled, too long to be read, and could not be taken apart: all of it, or names inside of
/// it, such as those that macros make. Other names stay as they are.
func withoutMangledEnd(_ function: String) -> String {
    guard function.utf8.count > longestMangled.part,
        function.utf8.contains(where: { $0 == UInt8(ascii: "$") || $0 == UInt8(ascii: "_") })
    else { return function }
    var text = ""
    var rest = Substring(function)
    while !rest.isEmpty {
        let part = rest.prefix { !" .,()<>".contains($0) }
        rest = rest[part.endIndex...]
        let longest = part.utf8.count == function.utf8.count ? longestMangled.whole : longestMangled.part
        if part.count > longest, mangledBeginnings.contains(where: { part.hasPrefix($0) }) {
            text += part.prefix(longest - 1) + "…"
        } else {
            text += part
        }
        if let separator = rest.popFirst() { text.append(separator) }
    }
    return text
}
