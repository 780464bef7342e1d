// The three things that happened to a block, each with its stack and a title; and the threads of a program that died.

extension Finding {
    /// One of the three stacks of a finding.
    struct Event: Sendable {
        enum Role: String, Sendable { case access, previous, thrown, free, alloc, thread }

        var role: Role
        /// "freed by thread 2", safe to print.
        var title: String
        var thread: Int?
        var frames: [Frame]
    }

    /// What is known to have happened, the last event first: the order in which text reports show the stacks.
    var events: [Event] {
        let thread = self.thread
        var name = thread.map { " by thread \($0.id)" } ?? ""
        if let threadName = thread?.name, !threadName.isEmpty { name += " (\(visible(threadName)))" }
        let all = [
            Event(role: .access, title: accessTitle(by: name), thread: thread?.id, frames: stacks.access),
            Event(role: .previous, title: "being accessed from here", thread: thread?.id, frames: stacks.previous),
            Event(role: .thrown, title: "thrown here", frames: stacks.thrown),
            Event(
                role: .free, title: pastTitle("freed", by: block?.freeingThread, stack: "free"),
                thread: block?.freeingThread, frames: stacks.free),
            Event(
                role: .alloc, title: pastTitle("allocated", by: block?.allocatingThread, stack: "alloc"),
                thread: block?.allocatingThread, frames: stacks.alloc),
        ]
        return all.filter { !$0.frames.isEmpty }
    }

    /// The events, and what the other threads did meanwhile.
    var stacksToShow: [Event] {
        events
            + (crash?.otherThreads ?? []).compactMap { title, frames in
                frames.isEmpty ? nil : Event(role: .thread, title: title, frames: frames)
            }
            + (stall?.holder.map { [Event(role: .thread, title: "holds the lock", thread: $0.id, frames: $0.stack)] }
                ?? [])
            + (stall?.sampled.dropFirst() ?? []).map {
                Event(role: .thread, title: "also, in \($0.count) of \(stall?.samples ?? 0) samples", frames: $0.stack)
            }
    }

    private func pastTitle(_ event: String, by thread: Int?, stack: String) -> String {
        event + (thread.map { " by thread \($0)" } ?? "") + (hasShortened(stack) ? " (innermost calls only)" : "")
    }

    private func accessTitle(by name: String) -> String {
        if kind == .writeAfterFree { return "found here; the write itself was earlier and elsewhere" }
        if kind == .heapOverflow, detail["found_by"] != nil {
            return "found here; the block was changed earlier and elsewhere"
        }
        let verb =
            switch kind {
            case .doubleFree: "freed again"
            case .invalidFree where detail["call"] != nil: access.done
            case .invalidFree, .deallocMismatch: "freed"
            case .stackOverflow: "ran out of stack"
            case .crash: "died"
            case .stall: "was busy here"
            default: access.done
            }
        let hasNoAgent = [.stackOverflow, .crash, .stall].contains(kind)
        return verb + (hasNoAgent ? name.replacingPrefix(" by", with: ":") : name)
    }

    /// The frame that a viewer should show first. Where the stack says only who noticed, the block's own stacks say more.
    var primaryFrame: Frame? {
        let late = isNoticedLate ? stacks.free.origin ?? stacks.alloc.origin : nil
        return late ?? stacks.accessOrigin ?? stacks.free.origin ?? stacks.alloc.origin
    }
}

extension String {
    fileprivate func replacingPrefix(_ prefix: String, with other: String) -> String {
        hasPrefix(prefix) ? other + dropFirst(prefix.count) : self
    }
}
