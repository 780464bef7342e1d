// A stack as people read it: the program's own frames, and between them what runtimes and the compiler put there, folded into
// one line each.

/// The lines that a stack is shown as.
package enum FoldedStack {
    package enum Line: Hashable {
        case frame(Int)
        /// Frames of runtimes, and thunks; `name` is the function that the program called, or that called the program.
        case folded(ClosedRange<Int>, name: String)
        /// A recursion: the frames before `first`, so many of them, come so many times more.
        case repeated(first: Int, frames: Int, turns: Int)

        /// Number of its first frame.
        package var first: Int {
            switch self {
            case .frame(let number): number
            case .folded(let range, _): range.lowerBound
            case .repeated(let first, _, _): first
            }
        }
    }

    /// A recursion goes through up to so many functions; it is condensed where it turns at least so often again.
    private static let longestTurn = 6
    private static let fewestTurns = 3

    /// Folds runs of runtime frames and thunks, also of a single one, and recursions. A stack without any frame of the program's
    /// own keeps all.
    package static func lines(of stack: [Finding.Frame], isFull: Bool) -> [Line] {
        if isFull { return stack.indices.map { .frame($0) } }
        let isFoldable = isFoldable(stack)
        let condensed = condensed(stack)
        if !isFoldable.contains(false) { return condensed }
        var lines: [Line] = []
        var index = 0
        while index < condensed.count {
            var end = index
            while end < condensed.count, case .frame(let number) = condensed[end], isFoldable[number] { end += 1 }
            guard end > index else {
                lines.append(condensed[index])
                index += 1
                continue
            }
            // What follows a run called it: the run's outermost function is the one that the program called. Behind the
            // last frame of the program's own it is the other way round.
            // A thunk says less than what it leads to.
            let range = condensed[index].first...condensed[end - 1].first
            let frames = stack[range].filter { !$0.isThunk }
            let named =
                (end < condensed.count ? frames.last : frames.first)
                ?? stack[end < condensed.count ? range.upperBound : range.lowerBound]
            let name = named.function.map { shortName(withoutMangledEnd($0)) }
            lines.append(.folded(range, name: name ?? named.moduleName ?? "?"))
            index = end
        }
        return lines
    }

    // The stack with each turn of a recursion but the first replaced by a count.
    private static func condensed(_ stack: [Finding.Frame]) -> [Line] {
        var lines: [Line] = []
        var index = 0
        while index < stack.count {
            lines.append(.frame(index))
            index += 1
            for period in 1...longestTurn where index >= period {
                var turns = 0
                while index + period <= stack.count, stack[index..<index + period] == stack[index - period..<index] {
                    turns += 1
                    index += period
                }
                if turns >= fewestTurns {
                    lines.append(.repeated(first: index - turns * period, frames: period, turns: turns))
                    break
                }
                index -= turns * period
            }
        }
        return lines
    }

    /// For each frame, whether it is nobody's who looks for a bug of the program's own: runtimes, what is before main, what the
    /// compiler writes anew into each program, and thunks. One that called nothing of the program's own stays where the function
    /// that it was made for may be a part of it.
    static func isFoldable(_ stack: [Finding.Frame]) -> [Bool] {
        stack.indices.map { index in
            let frame = stack[index]
            if frame.isLibraryCode || frame.isEntryCode || frame.isHelper { return true }
            return frame.isThunk && (!frame.holdsItsTarget || index > 0 && !stack[index - 1].isLibraryCode)
        }
    }

    /// "1 runtime frame", "3 runtime frames and 1 thunk", "2 thunks".
    static func count(_ frames: ArraySlice<Finding.Frame>) -> String {
        let thunks = frames.count { $0.isThunk }
        let counts = [(frames.count - thunks, "runtime frame"), (thunks, "thunk")].filter { $0.0 > 0 }
        return counts.map { "\($0) \($1)\($0 == 1 ? "" : "s")" }.joined(separator: " and ")
    }

    /// A function without what makes names of templates long: "std::sort<…>(…)".
    static func shortName(_ function: String) -> String {
        var short = ""
        var open: [Character] = []
        // What operators are called is no bracket.
        let operators = [
            "operator<=>", "operator<<", "operator<", "operator->", "operator>>", "operator>", "operator()",
        ]
        var rest = Substring(function)
        while let character = rest.first {
            if let name = operators.first(where: { rest.hasPrefix($0) }) {
                if open.isEmpty { short += name }
                rest = rest.dropFirst(name.count)
                continue
            }
            rest = rest.dropFirst()
            switch character {
            case "<", "(":
                if open.isEmpty { short.append(character) } else if short.last == open[0] { short.append("…") }
                open.append(character)
            case ">" where open.last == "<", ")" where open.last == "(":
                open.removeLast()
                if open.isEmpty { short.append(character) }
            default:
                // The first character inside a bracket stands for all.
                if open.isEmpty { short.append(character) } else if short.last == open[0] { short.append("…") }
            }
        }
        return short
    }
}

extension Finding.Frame {
    /// Whether the frame is where programs begin, before `main`: linked into every executable.
    var isEntryCode: Bool { function == "_start" && file == nil }

    // What the compiler writes anew into each program.
    fileprivate var isHelper: Bool {
        guard let function else { return false }
        return ["__swift_", "outlined ", "value witness", "lazy protocol witness"].contains { function.hasPrefix($0) }
    }
}
