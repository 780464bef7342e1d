// Composes the sentence about a crash, and the titles of the other threads' stacks.

extension Finding.Crash {
    /// The message on one line, safe to print; nil if there is none.
    var messageLine: String? {
        guard let message else { return nil }
        let words = message.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        let line = words.filter { !$0.isEmpty }.joined(separator: " ")
        return line.isEmpty ? nil : visible(line)
    }

    /// The non-faulting threads, grouped by equal stacks, in order of the first thread of each group.
    package var otherThreads: [(title: String, stack: [Finding.Frame])] {
        var groups: [(threads: [Finding.ThreadStack], stack: [Finding.Frame])] = []
        var places: [[Finding.Frame]: Int] = [:]
        for thread in threads where !thread.hasFaulted {
            if let place = places[thread.stack] {
                groups[place].threads.append(thread)
            } else {
                places[thread.stack] = groups.count
                groups.append(([thread], thread.stack))
            }
        }
        return groups.map { (Self.title(of: $0.threads), $0.stack) }
    }

    private static let mostNamed = 8

    // "thread 2 (worker)", "threads 2, 3, 4 (worker)", "thread 2 (worker), which could not be stopped"
    private static func title(of threads: [Finding.ThreadStack]) -> String {
        let numbers = threads.prefix(mostNamed).map { thread in
            thread.id.map(String.init) ?? "with tid \(thread.threadID)"
        }
        let more = threads.count > mostNamed ? " and \(threads.count - mostNamed) more" : ""
        let names = Set(threads.compactMap(\.name)).sorted().prefix(mostNamed).map { visible($0) }
        let name = names.isEmpty ? "" : " (\(names.joined(separator: ", ")))"
        let text = "thread\(threads.count == 1 ? "" : "s") \(numbers.joined(separator: ", "))\(more)\(name)"
        return threads[0].stack.isEmpty ? text + ", which could not be stopped" : text
    }
}

extension Finding {
    /// "SIGILL in Cart.add(_:): Fatal error: Index out of range (Cart.swift:12)"
    var crashSentence: String {
        guard let crash else { return "a signal ended the program" }
        var text = crash.status.map { "status \($0)" } ?? visible(crash.signal)
        if let sender = detail["sender"] { text += " sent by process \(visible(sender))" }
        let origin = detail["raised_in"] == nil ? stacks.accessOrigin : nil
        if let function = detail["raised_in"] {
            text += " in \(visible(function))"
        } else if let origin {
            let function = stacks.access.innermostFunction(at: origin)
            text += " in \(function.map { visible(withoutMangledEnd($0)) } ?? origin.moduleAndOffset)"
        }
        if let message = crash.messageLine { text += ": \(message)" }
        if detail["raised_in"] != nil, let place = detail["said_at"]?.split(separator: "/").last {
            return text + " (\(visible(String(place))))"
        }
        guard let file = origin?.file.flatMap({ $0.split(separator: "/").last }) else { return text }
        return text + " (\(visible(String(file)))\(origin?.line.map { ":\($0)" } ?? ""))"
    }
}
