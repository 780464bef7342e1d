// A rule that suppresses one finding, for people to keep and edit.

extension Suppressions {
    /// A rule, with a comment that says what it is for, that matches this finding and those with the same signature.
    /// Several lines, ending with a line feed; safe to print. For findings whose frames have their names.
    ///
    /// - Parameter finding: a finding with names.
    /// - Returns: lines of a file of suppressions.
    public static func suggestion(for finding: Finding) -> String {
        var text = "# \(finding.sentence)\n"
        let isKnown = Finding.Kind.all.contains(finding.kind)
        text += (isKnown ? finding.kind.rawValue : "*") + "\n"
        // A kind of a later version: the signature says it.
        if !isKnown {
            text += "    signature=\(Glob.escape(finding.signature ?? finding.computeSignature()))\n"
        }
        let stacks = finding.signedStacks
        if !finding.isNoticedLate { append(stacks.access, "access", to: &text) }
        append(stacks.free, "free", to: &text)
        append(stacks.alloc, "alloc", to: &text)
        return text
    }

    // What the signature sees of the stack, and nothing else.
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
