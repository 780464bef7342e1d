// Describes a stall in words, and renders its stack samples as one tree.

extension Finding.Stall {
    /// The cause: "computing", "waiting in futex for a lock that thread 2 (worker) holds".
    ///
    /// - Parameter joins: whether the thread waits for the holder thread to end, instead of for a lock.
    func cause(joins: Bool) -> String {
        if isComputing { return "computing" }
        let place = call.map { "waiting in \(visible($0))" } ?? "waiting"
        guard let holder else { return place }
        return place + (joins ? " for the end of \(holder.label)" : " for a lock that \(holder.label) holds")
    }

    /// Text such as ", of them 1994 ms without a processor (CPU quota: 20 ms in every 100 ms),". Empty if that time is
    /// unknown or less than a tenth of the stall.
    fileprivate func delayText(quota: String?) -> String {
        guard let without = withoutProcessorMs, without > 0, without >= durationMs / 10 else { return "" }
        let cause =
            switch withoutProcessorFor {
            case "quota": "CPU quota" + (quota.map { ": " + visible($0) } ?? "")
            case "load": "load"
            default: "CPU quota or load"
            }
        return ", of them \(without) ms without a processor (\(cause)),"
    }

    /// The kind of object that a thread waits for. Index 0 is the finding's thread, index 1 the holder. nil in reports
    /// of older versions.
    fileprivate func awaitedKind(_ index: Int) -> String? { index < awaited.count ? awaited[index].kind : nil }

    /// "queue com.shop.stock", safe to print.
    fileprivate func queueName(_ index: Int) -> String {
        let name = index < awaited.count ? awaited[index].name : nil
        return name.map { "queue \(visible($0))" } ?? "a queue"
    }

    // Limit on the indentation, in columns. Without it, the lines of a tree that branches at very many calls would
    // consist mostly of spaces.
    private static let deepestIndent = 60

    /// The samples as lines, outermost calls first, each function with its sample count. Lines are indented where
    /// stacks diverge.
    package var tree: [String] {
        typealias Part = (count: Int, names: ArraySlice<String>)
        var lines: [String] = []
        // Stack of pending lines; the last element is the next line. Not recursive, because a report may hold stacks of
        // any depth.
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

    // Saturates, because the counts of a report are untrusted and their sum may overflow.
    private static func sum(_ counts: [Int]) -> Int { counts.reduce(0) { $0.addingSaturated($1) } }

    /// A copy with each sampled stack shortened by `shorter`.
    package func shortened(_ shorter: ([Finding.Frame]) -> [Finding.Frame]) -> Finding.Stall {
        var short = self
        short.sampled = sampled.map { .init(count: $0.count, stack: shorter($0.stack)) }
        return short
    }
}

extension Finding.ThreadStack {
    /// "thread 2 (worker)", safe to print.
    package var label: String {
        (id.map { "thread \($0)" } ?? "the thread with tid \(threadID)") + (name.map { " (\(visible($0)))" } ?? "")
    }

    /// Whether the thread waits for the end of another thread.
    package var joins: Bool { stack.joins }
}

extension [Finding.Frame] {
    /// Whether the innermost calls wait for the end of a thread.
    package var joins: Bool {
        prefix(6).contains {
            $0.function?.hasSuffix("join_ex") == true || $0.function?.contains("pthread_join") == true
        }
    }
}

extension Finding {
    /// Whether the thread waits in pthread_join or a variant. Determined from the stack, because the futex word cannot
    /// distinguish a join from a lock: in a join it holds the id of the joined thread, in some locks the id of the
    /// owner.
    var joinsThread: Bool { stacks.access.joins }

    /// "thread 1 (main) waits in lock_both() (a.c:12) for a lock that thread 2 (worker) holds, which waits for a lock
    /// of thread 1 (main)".
    package var deadlockSentence: String {
        guard let stall else { return "threads wait for each other" }
        let place = stacks.accessOrigin.map { " in \($0.shortPlace)" } ?? ""
        var text = "\(threadName) waits\(place) for "
        guard let holder = stall.holder else { return text + "a lock that it holds itself" }
        switch stall.awaitedKind(0) ?? (joinsThread ? "end" : "mutex") {
        case "end": text += "the end of \(holder.label)"
        case "queue": text += "\(stall.queueName(0)), served by \(holder.label)"
        default: text += "a lock that \(holder.label) holds"
        }
        let others = [holder] + stall.waits
        for (index, one) in others.enumerated() {
            let last = detail["circle"].map { visible($0) } ?? threadName
            let next = index + 1 < others.count ? others[index + 1].label : last
            text += ", which waits for "
            switch stall.awaitedKind(index + 1) ?? (one.joins ? "end" : "mutex") {
            case "end": text += "the end of \(next)"
            case "queue": text += "\(stall.queueName(index + 1)) of \(next)"
            default: text += "a lock of \(next)"
            }
        }
        return text
    }

    /// "thread 1 (main) was busy for 812 ms in Cart.total() (Cart.swift:12): computing; 5 times"
    var stallSentence: String {
        guard let stall else { return "a thread did not wait for events for too long" }
        var text = detail["queue"] == nil ? threadName : "the main queue (\(threadName))"
        text += stall.isFreeze ? " has been busy for " : " was busy for "
        text += "\(stall.durationMs) ms\(stall.delayText(quota: detail["cpu_quota"]))"
        if let origin = stacks.accessOrigin { text += " in \(origin.shortPlace)" }
        text += ": \(stall.cause(joins: joinsThread))"
        return stall.occurrences > 1 ? text + "; \(stall.occurrences) times" : text
    }
}
