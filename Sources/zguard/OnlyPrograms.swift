// Makes the runtime's option `only` from the values of `zguard run --only`.

import Glibc
import ZombieGuard

enum OnlyPrograms {
    /// The option for these names and paths; nil if there are none. Throws for a value that the option cannot hold.
    static func option(_ values: [String]) throws(Failure) -> String? {
        if values.isEmpty { return nil }
        var patterns: [String] = []
        for value in values {
            if value.isEmpty || value.contains(where: { ",:".contains($0) }) {
                throw .usage(
                    "option '--only' has the bad value '\(visible(value))': expected a name or path without commas and colons"
                )
            }
            patterns.append(value.contains("/") ? path(value) : value)
        }
        return "only=" + patterns.joined(separator: ",")
    }

    // Resolves a path as the kernel does: to an absolute path without symbolic links. Resolves only the folder if the
    // program does not exist yet. Returns the path unchanged if the folder contains an asterisk or cannot be resolved.
    private static func path(_ value: String) -> String {
        if let whole = resolved(value) { return whole }
        let end = value.lastIndex(of: "/")!
        let folder = end == value.startIndex ? "/" : String(value[..<end])
        if folder.contains("*") { return value }
        guard let resolved = resolved(folder) else { return value }
        return (resolved == "/" ? "" : resolved) + value[end...]
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
