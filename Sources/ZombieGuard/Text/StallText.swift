// A stall in words, and the stacks that were seen meanwhile as one tree.

extension Finding.Stall {
    /// "computing", "in futex, for a lock that thread 2 (worker) holds".
    ///
    /// - Parameter joins: whether it waits for the end of that thread instead.
    func cause(joins: Bool) -> String {
        if isComputing { return "computing" }
        let place = call.map { "waiting in \(visible($0))" } ?? "waiting"
        guard let holder else { return place }
        let number = holder.id.map { "thread \($0)" } ?? "the thread of the kernel's number \(holder.threadID)"
        let thread = number + (holder.name.map { " (\(visible($0)))" } ?? "")
        return place + (joins ? " for the end of \(thread)" : " for a lock that \(thread) holds")
    }

    // A line is not moved in further: of a stack that forks at each of very many calls, the blanks would be most of the text.
    private static let deepestIndent = 60

    /// The samples as lines, outermost calls first: a count in front of each function; where the stacks part ways the lines are further in.
    package var tree: [String] {
        typealias Part = (count: Int, names: ArraySlice<String>)
        var lines: [String] = []
        // What is still to be written, the next one last. Not by recursion: a report may hold stacks of any depth.
        var pending: [(line: String?, stacks: [Part], indent: Int)] = [
            (nil, sampled.map { ($0.count, $0.stack.reversed().map(\.shortPlace)[...]) }, 0)
        ]
        while let (line, stacks, indent) = pending.popLast() {
            if let line { lines.append(line) }
            var order: [String] = []
            var groups: [String: [Part]] = [:]
            for stack in stacks {
                guard let first = stack.names.first else { continue }
                if groups[first] == nil { order.append(first) }
                groups[first, default: []].append((stack.count, stack.names.dropFirst()))
            }
            let counted = order.map { name in (name, Self.sum(groups[name]!.map(\.count))) }.sorted { $0.1 > $1.1 }
            let isFork = counted.count > 1 || counted.first?.1 != Self.sum(stacks.map(\.count))
            let inner = min(indent + (isFork ? 2 : 0), Self.deepestIndent)
            for (name, count) in counted.reversed() {
                pending.append((String(repeating: " ", count: inner) + "\(count) \(name)", groups[name]!, inner))
            }
        }
        return lines
    }

    // Counts in a report may be any.
    private static func sum(_ counts: [Int]) -> Int { counts.reduce(0) { $0.addingSaturated($1) } }

    /// The same with less of each stack.
    package func shortened(_ shorter: ([Finding.Frame]) -> [Finding.Frame]) -> Finding.Stall {
        var short = self
        short.sampled = sampled.map { .init(count: $0.count, stack: shorter($0.stack)) }
        return short
    }
}

extension Finding {
    /// It waits in pthread_join or one of its relatives, whose word is the number of the other thread, as that of some locks is.
    var joinsThread: Bool {
        stacks.access.prefix(6).contains {
            $0.function?.hasSuffix("join_ex") == true || $0.function?.contains("pthread_join") == true
        }
    }

    /// "thread 1 (main) did not wait for events for 812 ms in Cart.total() (Cart.swift:12): computing; 5 times"
    var stallSentence: String {
        guard let stall else { return "a thread that waits for events was busy for long" }
        var text = detail["queue"] == nil ? threadName : "the main queue (\(threadName))"
        text += stall.isFreeze ? " has been busy for " : " was busy for "
        text += "\(stall.durationMs) ms"
        if let origin = stacks.accessOrigin { text += " in \(origin.shortPlace)" }
        text += ": \(stall.cause(joins: joinsThread))"
        return stall.occurrences > 1 ? text + "; \(stall.occurrences) times" : text
    }
}
