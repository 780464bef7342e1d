// Demangles Rust symbols: the v0 format, default of rustc since 2025, and the older format. Generic arguments are left
// out.
// Source: "v0 Symbol Format" in The rustc book.

/// The path in a v0 symbol, such as `std::panicking::begin_panic`; nil if the symbol is not in this format.
func rustName(_ symbol: String) -> String? {
    guard symbol.hasPrefix("_R"), symbol.utf8.count <= RustPath.longest else { return nil }
    var path = RustPath(Array(symbol.utf8.dropFirst(2)))
    return path.name()
}

private struct RustPath {
    static let longest = 4096
    // Limits, because back references can produce a name of any length.
    private static let deepest = 64, mostSteps = 4096

    private let bytes: [UInt8]
    private var at = 0, depth = 0, steps = 0
    private var hasFailed = false

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func name() -> String? {
        let name = path()
        // The name of the instantiating crate, and suffixes of other tools, may follow the path.
        let isWhole = at == bytes.count || "CB.$".utf8.contains(next)
        return hasFailed || !isWhole || name.isEmpty ? nil : name
    }

    // MARK: Words

    private var next: UInt8 { at < bytes.count ? bytes[at] : 0 }

    private mutating func take() -> UInt8 {
        guard at < bytes.count else {
            hasFailed = true
            return 0
        }
        at += 1
        return bytes[at - 1]
    }

    private mutating func takes(_ letter: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: letter) else { return false }
        at += 1
        return true
    }

    private mutating func decimal() -> Int {
        guard !takes("0") else { return 0 }
        var value = 0
        let start = at
        while case UInt8(ascii: "0")...UInt8(ascii: "9") = next, value <= bytes.count {
            value = value * 10 + Int(take() - UInt8(ascii: "0"))
        }
        if at == start { hasFailed = true }
        return value
    }

    // Consumes a base-62 number: "_" is 0, "0_" is 1, …
    private mutating func base62() -> UInt64 {
        var value: UInt64 = 0
        if takes("_") { return 0 }
        while !hasFailed {
            let letter = take()
            let digit: UInt8
            switch letter {
            case UInt8(ascii: "_"): return value &+ 1
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = letter - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = letter - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit = letter - UInt8(ascii: "A") + 36
            default:
                hasFailed = true
                return 0
            }
            value = value &* 62 &+ UInt64(digit) // crate hashes need all 64 bits; malformed ones wrap
        }
        return 0
    }

    private mutating func optional(_ letter: Unicode.Scalar) -> UInt64? { takes(letter) ? base62() : nil }

    private mutating func identifier() -> String {
        let isPunycode = takes("u")
        let count = decimal()
        _ = takes("_")
        guard !hasFailed, !isPunycode, count <= bytes.count - at else {
            hasFailed = true
            return ""
        }
        at += count
        return String(decoding: bytes[(at - count)..<at], as: UTF8.self)
    }

    // Parses a back reference: applies `what` at an earlier position, then returns to this one.
    private mutating func back(_ what: (inout RustPath) -> String) -> String {
        let start = at - 1
        let place = base62()
        guard !hasFailed, place < UInt64(start) else {
            hasFailed = true
            return ""
        }
        let here = at
        at = Int(place)
        defer { at = here }
        return what(&self)
    }

    private mutating func deeper(_ what: (inout RustPath) -> String) -> String {
        depth += 1
        steps += 1
        defer { depth -= 1 }
        guard !hasFailed, depth <= Self.deepest, steps <= Self.mostSteps else {
            hasFailed = true
            return ""
        }
        return what(&self)
    }

    // MARK: Paths

    private mutating func path() -> String { deeper { $0.pathHere() } }

    private mutating func pathHere() -> String {
        switch take() {
        case UInt8(ascii: "C"):
            _ = optional("s")
            return identifier()
        case UInt8(ascii: "N"): return nested()
        case UInt8(ascii: "M"):
            implementation()
            return "<\(type())>"
        case UInt8(ascii: "X"):
            implementation()
            return "<\(type()) as \(path())>"
        case UInt8(ascii: "Y"): return "<\(type()) as \(path())>"
        case UInt8(ascii: "I"):
            let name = path()
            while !hasFailed, !takes("E") { argument() }
            return name
        case UInt8(ascii: "B"): return back { $0.path() }
        default:
            hasFailed = true
            return ""
        }
    }

    private mutating func implementation() {
        _ = optional("s")
        _ = path()
    }

    private mutating func nested() -> String {
        let kind = take()
        let outer = path()
        let number = optional("s").map { $0 &+ 1 } ?? 0
        let name = identifier()
        switch kind {
        case UInt8(ascii: "C"): return "\(outer)::{closure#\(number)}"
        case UInt8(ascii: "S"): return "\(outer)::{shim#\(number)}"
        default: return name.isEmpty ? outer : "\(outer)::\(name)"
        }
    }

    private mutating func argument() {
        if takes("L") {
            _ = base62()
        } else if takes("K") {
            constant()
        } else {
            _ = type()
        }
    }

    private mutating func constant() {
        if takes("p") { return }
        if takes("B") {
            _ = back {
                $0.constant()
                return ""
            }
            return
        }
        _ = type()
        _ = takes("n")
        while !hasFailed, take() != UInt8(ascii: "_") {}
    }

    // MARK: Types

    private static let basic: [UInt8: String] = [
        "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
        "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
        "x": "i64", "y": "u64", "z": "!",
    ].reduce(into: [:]) { $0[$1.key.utf8.first!] = $1.value }

    private mutating func type() -> String { deeper { $0.typeHere() } }

    private mutating func typeHere() -> String {
        if let name = Self.basic[next] {
            at += 1
            return name
        }
        switch next {
        case UInt8(ascii: "A"), UInt8(ascii: "S"):
            let hasCount = take() == UInt8(ascii: "A")
            let element = type()
            if hasCount { constant() }
            return "[\(element)]"
        case UInt8(ascii: "T"):
            at += 1
            var parts: [String] = []
            while !hasFailed, !takes("E") { parts.append(type()) }
            return "(\(parts.joined(separator: ", ")))"
        case UInt8(ascii: "R"), UInt8(ascii: "Q"):
            let isMutable = take() == UInt8(ascii: "Q")
            _ = optional("L")
            return (isMutable ? "&mut " : "&") + type()
        case UInt8(ascii: "P"), UInt8(ascii: "O"): return (take() == UInt8(ascii: "P") ? "*const " : "*mut ") + type()
        case UInt8(ascii: "F"): return function()
        case UInt8(ascii: "D"): return dynamic()
        case UInt8(ascii: "B"):
            at += 1
            return back { $0.type() }
        default: return path()
        }
    }

    private mutating func function() -> String {
        at += 1
        _ = optional("G")
        _ = takes("U")
        if takes("K"), !takes("C") { _ = identifier() }
        var parts: [String] = []
        while !hasFailed, !takes("E") { parts.append(type()) }
        let result = type()
        return "fn(\(parts.joined(separator: ", ")))" + (result == "()" ? "" : " -> \(result)")
    }

    private mutating func dynamic() -> String {
        at += 1
        _ = optional("G")
        var traits: [String] = []
        while !hasFailed, !takes("E") {
            traits.append(path())
            while takes("p") {
                _ = identifier()
                _ = type()
            }
        }
        if takes("L") { _ = base62() } else { hasFailed = true }
        return "dyn " + traits.joined(separator: " + ")
    }
}

/// The path in a symbol of the older format (a C++ name that ends with a hash), without the hash:
/// `shop::cart::{{closure}}`. nil if `plain`, the demangled C++ name, is not in this format.
func olderRustName(_ plain: String) -> String? {
    let hash = plain.utf8.suffix(19)
    guard hash.count == 19, plain.utf8.count > 19, hash.starts(with: "::h".utf8),
        hash.dropFirst(3).allSatisfy({ "0123456789abcdef".utf8.contains($0) })
    else { return nil }
    var name = String(plain.dropLast(19))
    guard name.utf8.contains(UInt8(ascii: "$")) else { return name }
    let signs = [
        "..": "::", "$LT$": "<", "$GT$": ">", "$LP$": "(", "$RP$": ")", "$RF$": "&", "$BP$": "*", "$C$": ",",
        "$SP$": "@",
        "$u20$": " ", "$u27$": "'", "$u5b$": "[", "$u5d$": "]", "$u7b$": "{", "$u7d$": "}", "$u7e$": "~",
    ]
    for (sign, text) in signs { name.replace(sign, with: text) }
    for open in ["<", "{"] { name.replace("_" + open, with: open) }
    return name
}
