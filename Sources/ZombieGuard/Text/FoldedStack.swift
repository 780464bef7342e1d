// Folds a stack for display: the program's own frames stay, and each run of runtime and compiler-generated frames
// becomes one line.

/// Computes the lines in which a stack is displayed.
package enum FoldedStack {
    package enum Line: Hashable {
        case frame(Int)
        /// A run of runtime frames and thunks. `name` is the function that the program called, or the function that
        /// called the program.
        case folded(ClosedRange<Int>, name: String)
        /// A recursion: the `frames` frames in front of `first` repeat `turns` more times.
        case repeated(first: Int, frames: Int, turns: Int)

        /// Index of the line's first frame.
        package var first: Int {
            switch self {
            case .frame(let number): number
            case .folded(let range, _): range.lowerBound
            case .repeated(let first, _, _): first
            }
        }
    }

    /// A recursion is condensed if its cycle has at most `maxCycleFrames` frames and repeats `minRepeats` times or
    /// more.
    private static let maxCycleFrames = 6
    private static let minRepeats = 3

    /// Unless `isFull`, folds runs (also of length one) of runtime frames and thunks, and condenses recursions. A stack
    /// that contains no frame of the program itself is not folded.
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
            // Name a run after the function that the program called, which is the run's outermost frame. A run at the
            // outer end of the stack has called the program, and is named after its innermost frame. Thunks are less
            // informative than their targets and are used only if the run has no other frame.
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

    // Replaces the repetitions of a recursion by a count; the first cycle stays.
    private static func condensed(_ stack: [Finding.Frame]) -> [Line] {
        var lines: [Line] = []
        var index = 0
        while index < stack.count {
            lines.append(.frame(index))
            index += 1
            for period in 1...maxCycleFrames where index >= period {
                var turns = 0
                while index + period <= stack.count, stack[index..<index + period] == stack[index - period..<index] {
                    turns += 1
                    index += period
                }
                if turns >= minRepeats {
                    lines.append(.repeated(first: index - turns * period, frames: period, turns: turns))
                    break
                }
                index -= turns * period
            }
        }
        return lines
    }

    /// For each frame, whether it is irrelevant to a bug in the program: a frame of a runtime library, entry code that
    /// calls `main`, a compiler-generated helper, or a thunk. A thunk that may contain its inlined target is relevant,
    /// unless it called a frame of the program itself.
    static func isFoldable(_ stack: [Finding.Frame]) -> [Bool] {
        stack.indices.map { index in
            let frame = stack[index]
            if frame.isLibraryCode || frame.isEntryCode || frame.isHelper { return true }
            return frame.isThunk && (!frame.mayContainInlinedTarget || index > 0 && !stack[index - 1].isLibraryCode)
        }
    }

    /// "1 runtime frame", "3 runtime frames and 1 thunk", "2 thunks".
    static func count(_ frames: ArraySlice<Finding.Frame>) -> String {
        let thunks = frames.count { $0.isThunk }
        let counts = [(frames.count - thunks, "runtime frame"), (thunks, "thunk")].filter { $0.0 > 0 }
        return counts.map { "\($0) \($1)\($0 == 1 ? "" : "s")" }.joined(separator: " and ")
    }

    /// Abbreviates template arguments and parameters: "std::sort<…>(…)".
    static func shortName(_ function: String) -> String {
        var short = ""
        var open: [Character] = []
        // Characters in operator names are not brackets.
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
                // The first character in a bracket becomes "…", the others are dropped.
                if open.isEmpty { short.append(character) } else if short.last == open[0] { short.append("…") }
            }
        }
        return short
    }
}

extension Finding.Frame {
    /// Whether the frame is the entry code that calls `main`, which is linked into every executable.
    var isEntryCode: Bool { function == "_start" && file == nil }

    // Helper functions that the compiler generates in each program.
    fileprivate var isHelper: Bool {
        guard let function else { return false }
        return ["__swift_", "outlined ", "value witness", "lazy protocol witness"].contains { function.hasPrefix($0) }
    }
}
