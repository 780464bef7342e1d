// Lists the stacks of a finding with their titles: access, free, allocation, and those of other threads and objects.

extension Finding {
    /// One stack of a finding.
    struct Event: Sendable {
        enum Role: String, Sendable { case access, previous, thrown, free, alloc, thread }

        var role: Role
        /// "freed by thread 2", safe to print.
        var title: String
        var thread: Int?
        var frames: [Frame]
    }

    /// The events that are known, newest first, in the order of text reports.
    var events: [Event] {
        let thread = self.thread
        var name = thread.map { " by thread \($0.id)" } ?? ""
        if let threadName = thread?.name, !threadName.isEmpty { name += " (\(visible(threadName)))" }
        let all = [
            Event(role: .access, title: accessTitle(by: name), thread: thread?.id, frames: stacks.access),
            Event(role: .previous, title: "the earlier access began here", thread: thread?.id, frames: stacks.previous),
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

    /// The events, followed by stacks of other threads (crash, stall, deadlock), other samples of a stall, and the
    /// allocations of other leaked objects.
    var stacksToShow: [Event] {
        var all = events
        for (title, frames) in crash?.otherThreads ?? [] where !frames.isEmpty {
            all.append(Event(role: .thread, title: title, frames: frames))
        }
        for (title, frames) in leak?.otherObjects ?? [] where !frames.isEmpty {
            all.append(Event(role: .thread, title: title, frames: frames))
        }
        guard let stall else { return all }
        if let holder = stall.holder {
            all.append(Event(role: .thread, title: "holds the lock", thread: holder.id, frames: holder.stack))
        }
        for one in stall.waits {
            all.append(Event(role: .thread, title: "waits, too", thread: one.id, frames: one.stack))
        }
        for sample in stall.sampled.dropFirst() {
            let title = "also, in \(sample.count) of \(stall.samples) samples"
            all.append(Event(role: .thread, title: title, frames: sample.stack))
        }
        return all
    }

    private func pastTitle(_ event: String, by thread: Int?, stack: String) -> String {
        event + (thread.map { " by thread \($0)" } ?? "") + (hasShortened(stack) ? " (innermost calls only)" : "")
    }

    private func accessTitle(by name: String) -> String {
        if kind == .writeAfterFree { return "the change was detected here; the write happened earlier" }
        if kind == .heapOverflow, detail["found_by"] != nil {
            return "the change was detected here; the block was changed earlier"
        }
        let verb =
            switch kind {
            case .doubleFree: "freed again"
            case .invalidFree where detail["call"] != nil: access.done
            case .invalidFree, .deallocMismatch: "freed"
            case .stackOverflow: "ran out of stack"
            case .crash: "died"
            case .stall: "did not wait for events here"
            case .deadlock: "waits here"
            default: access.done
            }
        if let next = nextUse {
            return (access == .cast ? "class read" : "retained") + "\(name), before this \(next.noun)"
        }
        let hasNoAgent = [.stackOverflow, .crash, .stall, .deadlock].contains(kind)
        return verb + (hasNoAgent ? name.replacingPrefix(" by", with: ":") : name)
    }

    /// The frame that a viewer should show first. If the error was noticed late, this is a frame of the free or the
    /// allocation, because the access stack is the detector's.
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
