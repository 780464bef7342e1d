// Remembers what became of findings, so that equal ones cost little.

/// Where findings that look the same belong, as far as memory for it reaches.
struct KnownFindings: Sendable {
    enum Place: Hashable, Sendable {
        case group(Int)
        case suppressed(rule: Int)
        case further
    }

    /// Stands for everything in a finding that names, signature and suppressions may depend on.
    struct Identity: Hashable, Sendable {
        // Two findings share one by accident once in about 10^9 reports of 100,000 different ones.
        private let hash: Int

        init(_ finding: Finding) {
            var hasher = Hasher()
            hasher.combine(finding.kind)
            hasher.combine(finding.access)
            hasher.combine(finding.signature)
            hasher.combine(finding.detail)
            hasher.combine(finding.crash?.signal)
            hasher.combine(finding.crash?.message)
            if let block = finding.block {
                hasher.combine(block.offset)
                hasher.combine(block.language)
                hasher.combine(block.className)
                hasher.combine(block.member)
                hasher.combine(block.classSymbol)
                block.memberFrame.map { Self.combine($0, &hasher) }
                for var use in block.next {
                    use.memberFrame.map { Self.combine($0, &hasher) }
                    use.memberFrame = nil
                    hasher.combine(use)
                }
                hasher.combine(block.bases)
            }
            let stacks = finding.stacks
            for stack in [stacks.access, stacks.free, stacks.alloc, stacks.previous, stacks.thrown] {
                hasher.combine(stack.count)
                for frame in stack { Self.combine(frame, &hasher) }
            }
            hash = hasher.finalize()
        }

        // The address in the process matters only where nothing else is known: it changes from run to run.
        private static func combine(_ frame: Finding.Frame, _ hasher: inout Hasher) {
            var frame = frame
            if frame.offset != nil { frame.pc = Address(0) }
            hasher.combine(frame)
        }
    }

    /// Beyond so many different ones no more are remembered: they are looked at one by one.
    static let most = 1 << 16

    private var places: [Identity: Place] = [:]

    subscript(identity: Identity) -> Place? {
        get { places[identity] }
        set { if places.count < Self.most || newValue == nil { places[identity] = newValue } }
    }
}

/// Which processes and programs findings are of.
struct FindingSources: Sendable {
    static let most = 1 << 16

    private var processHashes: Set<Int> = []
    private var programHashes: Set<Int> = []

    var processes: Int { processHashes.count }
    var programs: Int { programHashes.count }

    mutating func add(_ finding: Finding) {
        if let processID = finding.processID, processHashes.count < Self.most {
            var hasher = Hasher()
            hasher.combine(processID)
            hasher.combine(finding.program)
            processHashes.insert(hasher.finalize())
        }
        if let program = finding.program, programHashes.count < Self.most { programHashes.insert(program.hashValue) }
    }
}

/// Texts of findings that are kept, each once: the same modules, files and functions are in all of them.
struct TextPool: Sendable {
    private var texts: Set<String> = []

    /// Replaces the finding's texts by the ones that are there. Returns about how much memory the finding takes.
    mutating func share(_ finding: inout Finding) -> Int {
        var bytes = MemoryLayout<Finding>.stride
        // Short in every honest report, and in no other.
        let few = [
            finding.kind.rawValue, finding.access.rawValue, finding.confidence.rawValue, finding.thread?.name,
            finding.time,
            finding.firstSeen, finding.lastSeen, finding.signature, finding.block?.state, finding.block?.language,
            finding.block?.memberFrame?.module, finding.block?.memberFrame?.buildID,
        ]
        for text in few { bytes += text?.utf8.count ?? 0 }
        share(&finding.program, &bytes)
        if var block = finding.block {
            share(&block.className, &bytes)
            share(&block.member, &bytes)
            share(&block.classSymbol, &bytes)
            finding.block = block
        }
        for (key, value) in finding.detail { bytes += 64 + key.utf8.count + value.utf8.count }
        for stack in [\Finding.Stacks.access, \.free, \.alloc, \.previous, \.thrown] {
            share(&finding.stacks[keyPath: stack], &bytes)
        }
        if var crash = finding.crash {
            bytes += (crash.message?.utf8.count ?? 0) + 64 * crash.registers.count
            for (key, value) in crash.annotations { bytes += 64 + key.utf8.count + value.utf8.count }
            for index in crash.threads.indices {
                bytes += MemoryLayout<Finding.ThreadStack>.stride + (crash.threads[index].name?.utf8.count ?? 0)
                share(&crash.threads[index].stack, &bytes)
            }
            finding.crash = crash
        }
        if var stall = finding.stall {
            for index in stall.sampled.indices {
                bytes += MemoryLayout<Finding.Stall.Sampled>.stride
                share(&stall.sampled[index].stack, &bytes)
            }
            finding.stall = stall
        }
        return bytes
    }

    private mutating func share(_ stack: inout [Finding.Frame], _ bytes: inout Int) {
        let frames = stack.map { frame in
            var frame = frame
            share(&frame.module, &bytes)
            share(&frame.buildID, &bytes)
            share(&frame.function, &bytes)
            share(&frame.file, &bytes)
            return frame
        }
        bytes += frames.count * MemoryLayout<Finding.Frame>.stride
        stack = frames // of the size that is needed, and not larger
    }

    private mutating func share(_ text: inout String?, _ bytes: inout Int) {
        // Short texts lie in the value itself.
        guard let own = text, own.utf8.count > 15 else { return }
        let (isNew, shared) = texts.insert(own)
        if isNew { bytes += own.utf8.count + 64 }
        text = shared
    }
}
