// Generates a rule that suppresses one finding, for users to store and edit.

extension Suppressions {
    /// Generates a rule, preceded by a comment with the finding's sentence. The rule matches this finding and those
    /// with the same kind and frames; for a crash, the signature must match as well. Safe to print.
    ///
    /// - Parameter finding: a symbolicated finding.
    /// - Returns: several lines of a suppression file, including the final line feed.
    public static func suggestion(for finding: Finding) -> String {
        var text = "# \(finding.sentence)\n"
        let isKnown = Finding.Kind.all.contains(finding.kind)
        text += (isKnown ? finding.kind.rawValue : "*") + "\n"
        // For a kind of a later version, match the signature, which includes the kind, because the parser rejects the
        // kind's name. For a crash, match the signature as well, because frames do not show why the program was ended.
        if !isKnown || finding.kind == .crash {
            text += "    signature=\(Glob.escape(finding.signature ?? finding.computeSignature()))\n"
        }
        let stacks = finding.signatureStacks
        if !finding.isNoticedLate { append(stacks.access, "access", to: &text) }
        append(stacks.free, "free", to: &text)
        append(stacks.alloc, "alloc", to: &text)
        return text
    }

    // Appends the frames that enter the signature, and no others.
    private static func append(_ stack: [Finding.Frame], _ title: String, to text: inout String) {
        let names = StackNames(stack, limit: Finding.framesPerStack).significant
        if names.isEmpty {
            text += "    \(title): $\n"
            return
        }
        text += "    \(title):\n"
        for name in names { text += "        \(frame(name))\n" }
        if names.count < Finding.framesPerStack { text += "        $\n" }
    }

    private static func frame(_ name: String) -> String {
        let pattern = Glob.escape(name)
        let word = pattern.prefix { $0.isLetter || $0 == "_" }
        let rest = pattern[word.endIndex...]
        let isMarked = rest.hasPrefix("=") || rest.hasPrefix(":") && !rest.hasPrefix("::")
        let isSpecial = pattern == "..." || pattern == "$" || pattern.hasPrefix("#") || isMarked
        return isSpecial ? "function=\(pattern)" : pattern
    }
}
