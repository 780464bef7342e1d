// Caches the group of each distinct raw finding, so that equal findings are not symbolicated again.

/// Maps raw findings to their group or suppression rule, in bounded memory.
struct FindingCache: Sendable {
    enum Place: Hashable, Sendable {
        case group(Int)
        case suppressed(rule: Int)
        case further
    }

    /// A hash of all parts of a finding on which its symbol names, signature and suppressions may depend.
    struct Identity: Hashable, Sendable {
        // A 64-bit hash: with 100,000 different findings per report, a collision occurs in about one of 10^9 reports.
        private let hash: Int

        init(_ finding: Finding) {
            var hasher = Hasher()
            hasher.combine(finding.kind)
            hasher.combine(finding.access)
            hasher.combine(finding.signature)
            hasher.combine(finding.formerSignatures)
            hasher.combine(finding.programName)
            hasher.combine(finding.detail)
            hasher.combine(finding.crash?.signal)
            hasher.combine(finding.crash?.status)
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
            for step in finding.leak?.cycle ?? [] {
                hasher.combine(step.className)
                hasher.combine(step.member)
                step.code.map { Self.combine($0, &hasher) }
            }
            let stacks = finding.stacks
            for stack in [stacks.access, stacks.free, stacks.alloc, stacks.previous, stacks.thrown] {
                hasher.combine(stack.count)
                for frame in stack { Self.combine(frame, &hasher) }
            }
            hash = hasher.finalize()
        }

        // The absolute address changes between runs, so it is hashed only if the offset in the module is unknown.
        private static func combine(_ frame: Finding.Frame, _ hasher: inout Hasher) {
            var frame = frame
            if frame.offset != nil { frame.pc = Address(0) }
            hasher.combine(frame)
        }
    }

    /// Capacity; findings beyond it are not cached and are symbolicated each time.
    static let most = 1 << 16

    private var places: [Identity: Place] = [:]

    subscript(identity: Identity) -> Place? {
        get { places[identity] }
        set { if places.count < Self.most || newValue == nil { places[identity] = newValue } }
    }
}

/// Counts the distinct processes and programs of findings.
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

/// A pool that stores each string once, because most findings name the same modules, files and functions.
struct TextPool: Sendable {
    private var texts: Set<String> = []

    /// Replaces the finding's strings by pooled ones. Returns the approximate memory that the finding adds, in bytes.
    mutating func share(_ finding: inout Finding) -> Int {
        var bytes = MemoryLayout<Finding>.stride
        // These strings are short in every genuine report. They are counted because a hostile report may contain long
        // ones.
        let few = [
            finding.kind.rawValue, finding.access.rawValue, finding.confidence.rawValue, finding.thread?.name,
            finding.time,
            finding.firstSeen, finding.lastSeen, finding.signature, finding.block?.state, finding.block?.language,
            finding.block?.memberFrame?.module, finding.block?.memberFrame?.buildID,
        ]
        for text in few { bytes += text?.utf8.count ?? 0 }
        for text in finding.formerSignatures { bytes += 64 + text.utf8.count }
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
        if var leak = finding.leak {
            for index in leak.cycle.indices {
                bytes += MemoryLayout<Finding.Leak.Step>.stride
                share(&leak.cycle[index].className, &bytes)
                share(&leak.cycle[index].member, &bytes)
                share(&leak.cycle[index].alloc, &bytes)
            }
            finding.leak = leak
        }
        if var holders = finding.holders {
            for index in holders.indices {
                bytes += MemoryLayout<Finding.Holder>.stride
                share(&holders[index].symbol, &bytes)
                share(&holders[index].className, &bytes)
                share(&holders[index].member, &bytes)
                share(&holders[index].alloc, &bytes)
            }
            finding.holders = holders
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
        stack = frames // without excess capacity
    }

    private mutating func share(_ text: inout String?, _ bytes: inout Int) {
        // Swift stores strings of up to 15 bytes inline.
        guard let own = text, own.utf8.count > 15 else { return }
        let (isNew, shared) = texts.insert(own)
        if isNew { bytes += own.utf8.count + 64 }
        text = shared
    }
}
