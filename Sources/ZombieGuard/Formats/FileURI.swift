// Paths of files as URIs.

/// Makes URI references of file paths: relative to a source root where the file lies below it.
struct FileURI {
    /// Name of the source root in SARIF.
    static let rootName = "%SRCROOT%"

    // Parts of an absolute path without "." and ".."; nil where there is no source root.
    private let root: [Substring]?

    /// A root that is not an absolute path counts as none.
    init(root: String?) { self.root = root.flatMap { $0.hasPrefix("/") ? Self.parts(of: $0) : nil } }

    /// A reference to a file, and whether it is relative to the root.
    struct Reference: Hashable {
        var uri: String
        var isBelowRoot: Bool
    }

    /// The URI of the root, with the slash at its end that relative references need.
    var rootURI: String? { root.map { Self.absolute($0) + ($0.isEmpty ? "" : "/") } }

    /// Nil where the path names nothing, or a file that cannot be told from here, such as "../csu/start.c".
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

    /// The path for readers that take no URI: from the root on where the file lies below it, or as it is. Nil as for `reference`.
    func path(to path: String) -> (path: String, isBelowRoot: Bool)? {
        let parts = Self.parts(of: path)
        if parts.isEmpty || parts[0] == ".." { return nil }
        guard path.hasPrefix("/") else { return (parts.joined(separator: "/"), root != nil) }
        if let root, parts.count > root.count, parts.starts(with: root) {
            return (parts.dropFirst(root.count).joined(separator: "/"), true)
        }
        return ("/" + parts.joined(separator: "/"), false)
    }

    // By name only: symbolic links are not followed. ".." at the beginning of a relative path stays.
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

    // What RFC 3986 lets stand in every place of a path, and no more: a colon would make a scheme of a first part.
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
