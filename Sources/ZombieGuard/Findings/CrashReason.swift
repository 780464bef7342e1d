// Derives from a crash's message the part that is the same at every occurrence of the bug.

extension Finding.Crash {
    /// What ended the program, besides the signal: type and message of an exception, the expression of an assertion, or
    /// the message that was written before the end; without values. Empty if there is no message.
    var reason: [String] {
        guard let message, !message.isEmpty else { return [] }
        let lines = message.split(whereSeparator: \.isNewline).prefix(CrashMessage.mostLines).map(String.init)
        guard let first = lines.first else { return [] }
        if let exception = CrashMessage.exception(lines) { return exception }
        if let assertion = CrashMessage.assertion(first) { return ["assertion", assertion] }
        if let trap = CrashMessage.trap(first) { return trap }
        return ["message"] + lines.prefix(CrashMessage.linesOfMessage).map(CrashMessage.withoutValues)
    }
}

enum CrashMessage {
    static let mostLines = 8
    /// Number of lines that enter the reason: a Rust panic has its source location in the first line and its text in
    /// the second.
    static let linesOfMessage = 2
    private static let longest = 512

    /// The type and the text of an uncaught exception, as libstdc++ and libc++ write them.
    static func exception(_ lines: [String]) -> [String]? {
        let first = lines[0]
        if let begin = first.firstRange(of: "throwing an instance of '"), let end = first.lastIndex(of: "'"),
            begin.upperBound <= end
        {
            let what = lines.dropFirst().first { $0.firstRange(of: "what():") != nil }
            let text = what?.firstRange(of: "what():").map { String(what![$0.upperBound...]) }
            return ["exception", typeName(first[begin.upperBound..<end]), withoutValues(text ?? "")]
        }
        for begin in ["uncaught exception of type ", "unexpected exception of type "] {
            guard let range = first.firstRange(of: begin) else { continue }
            let rest = first[range.upperBound...]
            let end = rest.firstRange(of: ": ")
            return [
                "exception", typeName(rest[..<(end?.lowerBound ?? rest.endIndex)]),
                withoutValues(end.map { String(rest[$0.upperBound...]) } ?? ""),
            ]
        }
        return nil
    }

    /// The name without inline namespaces, which distinguish libraries, not types.
    private static func typeName(_ name: Substring) -> String {
        ["__cxx11::", "__1::"].reduce(String(name.prefix(longest))) { $0.replacing($1, with: "") }
    }

    /// The expression of a failed `assert` of glibc or libstdc++, which is code, so its numbers and names stay.
    static func assertion(_ line: String) -> String? {
        for begin in ["Assertion `", "Assertion '"] {
            guard let range = line.firstRange(of: begin),
                let close = line[range.upperBound...].firstRange(of: "' failed")
            else { continue }
            return String(line[range.upperBound..<close.lowerBound].prefix(longest).filter { $0 != " " })
        }
        return nil
    }

    /// The reason of a trap in Swift. Optimized code omits the program's own message, and words the same reason
    /// differently.
    static func trap(_ line: String) -> [String]? {
        for begin in ["Precondition failed", "Swift runtime failure: precondition failure"] where line.hasPrefix(begin)
        {
            return ["trap", "precondition"]
        }
        for begin in ["Swift runtime failure: ", "Fatal error: "] where line.hasPrefix(begin) {
            return ["trap", withoutValues(String(line.dropFirst(begin.count)))]
        }
        return nil
    }

    // MARK: Values

    /// Opening quotes that may enclose a value, with the closing quotes of each.
    private static let quotes: [Character: Set<Character>] = [
        "'": ["'"], "\"": ["\""], "`": ["`", "'"], "‘": ["’"], "“": ["”"], "«": ["»"],
    ]
    /// Characters at which a word ends.
    private static let ends: Set<Character> = [
        " ", "\t", ",", ";", ":", "(", ")", "[", "]", "{", "}", "=", "|", "\"", "'", "`", "<", ">",
    ]
    private static let placeholder = "#"

    /// The message with each word that has a digit, each path, and each quoted text replaced by one mark, so that the
    /// same message with other values is the same text. A list of values is one mark.
    ///
    /// "order 17 has no items" → "order # has no items"; "cannot open '/tmp/a.txt' [2, 3]" → "cannot open # [#]".
    static func withoutValues(_ text: String) -> String {
        // Leave out what an NSError prints last: its user info, whose order differs between processes.
        let end = text.firstRange(of: "UserInfo={")?.lowerBound ?? text.endIndex
        let text = Array(text[..<end].prefix(longest))
        var pieces: [String] = []
        var index = 0
        while index < text.count {
            if let closing = quotes[text[index]], index == 0 || ends.contains(text[index - 1]),
                let end = endOfQuote(text, index, closing)
            {
                pieces.append(placeholder)
                index = end + 1
            } else if ends.contains(text[index]) {
                pieces.append(text[index].isWhitespace ? " " : String(text[index]))
                index += 1
            } else {
                let start = index
                while index < text.count, !ends.contains(text[index]) || isInside(text, index) { index += 1 }
                let word = text[start..<index]
                let isValue = word.contains { $0.isNumber } || word.count > 1 && word.contains("/")
                pieces.append(isValue ? placeholder : String(word))
            }
        }
        return folded(pieces)
    }

    /// An apostrophe between letters belongs to the word: "don't".
    private static func isInside(_ text: [Character], _ index: Int) -> Bool {
        text[index] == "'" && index > 0 && text[index - 1].isLetter && index + 1 < text.count
            && text[index + 1].isLetter
    }

    private static func endOfQuote(_ text: [Character], _ start: Int, _ closing: Set<Character>) -> Int? {
        var index = start + 1
        while index < text.count {
            if closing.contains(text[index]), index + 1 == text.count || !text[index + 1].isLetter { return index }
            index += 1
        }
        return nil
    }

    /// Joins the pieces. Values that are separated only by blanks and punctuation become one value.
    private static func folded(_ pieces: [String]) -> String {
        var result: [String] = []
        for piece in pieces {
            if piece == " ", result.last == " " { continue }
            if piece == placeholder {
                let between = result.reversed().prefix { [" ", ",", ";", ":", "|"].contains($0) }
                if between.count < result.count, result[result.count - 1 - between.count] == placeholder {
                    result.removeLast(between.count)
                    continue
                }
            }
            result.append(piece)
        }
        while result.last == " " { result.removeLast() }
        while result.first == " " { result.removeFirst() }
        return result.joined()
    }
}
