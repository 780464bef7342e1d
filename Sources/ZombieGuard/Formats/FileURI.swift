// Converts file paths to URI references.

/// Converts file paths to URI references, which are relative to the source root if the file is below it.
struct FileURI {
    /// Name of the source root in SARIF.
    static let rootName = "%SRCROOT%"

    // Components of the root's absolute path, without "." and ".."; nil if there is no source root.
    private let root: [Substring]?

    /// Ignores a root that is not an absolute path.
    init(root: String?) { self.root = root.flatMap { $0.hasPrefix("/") ? Self.parts(of: $0) : nil } }

    /// A reference to a file, and whether it is relative to the root.
    struct Reference: Hashable {
        var uri: String
        var isBelowRoot: Bool
    }

    /// The URI of the root, with the trailing slash that relative references need.
    var rootURI: String? { root.map { Self.absolute($0) + ($0.isEmpty ? "" : "/") } }

    /// Nil if the path is empty or begins with "..", as in "../csu/start.c", whose directory is unknown.
    func reference(to path: String, isRelativeToRoot: Bool = true) -> Reference? {
        if path.hasPrefix("/") {
            let parts = Self.parts(of: path)
            if parts.isEmpty { return nil }
            if let root, parts.count > root.count, parts.starts(with: root) {
                return Reference(uri: Self.encoded(parts.dropFirst(root.count)), isBelowRoot: true)
            }
            return Reference(uri: Self.absolute(parts), isBelowRoot: false)
        }
        let parts = Self.parts(of: path)
        if parts.isEmpty || parts[0] == ".." { return nil }
        return Reference(uri: Self.encoded(parts[...]), isBelowRoot: root != nil && isRelativeToRoot)
    }

    /// The path for readers that do not accept URIs: relative to the root if the file is below it, otherwise unchanged.
    /// Nil for a path for which `reference` returns nil.
    func path(to path: String) -> (path: String, isBelowRoot: Bool)? {
        let parts = Self.parts(of: path)
        if parts.isEmpty || parts[0] == ".." { return nil }
        guard path.hasPrefix("/") else { return (parts.joined(separator: "/"), root != nil) }
        if let root, parts.count > root.count, parts.starts(with: root) {
            return (parts.dropFirst(root.count).joined(separator: "/"), true)
        }
        return ("/" + parts.joined(separator: "/"), false)
    }

    // Lexical normalization: symbolic links are not followed. A leading ".." of a relative path is kept.
    private static func parts(of path: String) -> [Substring] {
        var parts: [Substring] = []
        for part in path.split(separator: "/") where part != "." {
            if part != ".." {
                parts.append(part)
            } else if let last = parts.last, last != ".." {
                parts.removeLast()
            } else if !path.hasPrefix("/") {
                parts.append(part)
            }
        }
        return parts
    }

    private static func absolute(_ parts: [Substring]) -> String { "file:///" + encoded(parts[...]) }

    private static func encoded(_ parts: ArraySlice<Substring>) -> String {
        parts.map(percentEncoded).joined(separator: "/")
    }

    // Characters that RFC 3986 allows unencoded everywhere in a path. ":" is excluded: in the first component it would
    // end a scheme.
    private static let plain = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+@=,".utf8)

    static func percentEncoded(_ part: Substring) -> String {
        var text = ""
        for byte in part.utf8 {
            if plain.contains(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                text += digits.count == 1 ? "%0" + digits : "%" + digits
            }
        }
        return text
    }
}
