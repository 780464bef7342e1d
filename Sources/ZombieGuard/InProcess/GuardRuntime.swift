// Calls the runtime in this process through its published table of functions.

import CSystem
import CUnwind
import CZombie
import Synchronization

/// The runtime that guards this process. All functions may be called from any thread.
package final class GuardRuntime: @unchecked Sendable {
    private let table: zg_api
    let watcher: FindingWatcher

    // Opens symbol files when the first frame is symbolicated. The mutex is needed because readers are not thread-safe.
    private static let symbolicator = Mutex(Symbolicator())

    private static let loaded: GuardRuntime? = zg_api_find().flatMap { GuardRuntime(table: $0) }

    /// Replaces the real runtime in tests.
    @TaskLocal static var substitute: GuardRuntime?

    package static var current: GuardRuntime? { substitute ?? loaded }

    static var active: GuardRuntime {
        get throws(ZombieGuardError) {
            guard let runtime = current else { throw .inactive }
            return runtime
        }
    }

    /// nil if the table has another version.
    init?(table: UnsafePointer<zg_api>) {
        guard table.pointee.version == ZG_API_VERSION, Int(table.pointee.bytes) >= MemoryLayout<zg_api>.size else {
            return nil
        }
        self.table = table.pointee
        nonisolated(unsafe) let count = table.pointee.finding_count!
        watcher = FindingWatcher(word: table.pointee.finding_word) { count(nil) }
    }

    package var statistics: Statistics {
        Statistics(page: table.statistics.pointee, processID: Int(table.statistics.pointee.pid))
    }

    package func verify() -> Int { Int(table.verify()) }

    /// Call at the start of a test. The next blocks of each allocation stack become isolated blocks again, as the first
    /// blocks of the stack did. Grants at least 1 ms of CPU time for this.
    package func beginTest() { table.begin_test() }

    /// Runs zguard's own code in bypass mode: libc serves its blocks, and they use none of the guarding budgets. Not
    /// for program code.
    package func aside<Value>(_ work: () throws -> Value) rethrows -> Value {
        table.step_aside?()
        defer { table.step_back?() }
        return try work()
    }

    /// Like the instance method of the same name, for processes that may not be guarded.
    package static func aside<Value>(_ work: () throws -> Value) rethrows -> Value {
        guard let current else { return try work() }
        return try current.aside(work)
    }

    /// Stores a text under a name, for crash reports; nil removes it.
    package func annotate(_ name: String, _ text: String?) {
        guard table.bytes > UInt32(MemoryLayout<zg_api>.offset(of: \.annotate) ?? .max), let annotate = table.annotate
        else { return }
        name.withCString { name in
            if let text {
                _ = text.withCString { annotate(name, $0) }
            } else {
                _ = annotate(name, nil)
            }
        }
    }

    // MARK: Threads

    /// Stack of another thread of this process, not symbolicated; empty if the thread cannot be stopped.
    func stack(of thread: Int32, microseconds: Int32) -> [Finding.Frame] {
        let most = 128
        var frames = [UInt64](repeating: 0, count: most)
        let count = zg_thread_stack(thread, microseconds, table.unwind, &frames, Int32(most))
        guard count > 0, let describe = table.describe_stack,
            var text = text({ describe(frames, UInt64(count), $0, $1) })
        else { return [] }
        return (try? JSONScanner.read(&text, [Finding.Frame].read)) ?? []
    }

    // MARK: Findings

    /// The numbers of the findings that the runtime still stores; the upper bound is the count of all findings.
    package var findingNumbers: Range<UInt64> {
        var first: UInt64 = 0
        let count = table.finding_count(&first)
        return min(first, count)..<count
    }

    /// A finding by its number, symbolicated; nil if the runtime does not store it, or it cannot be parsed.
    package func finding(_ number: UInt64) -> Finding? {
        aside {
            guard var line = text({ table.finding(number, $0, $1) }),
                let finding = try? JSONScanner.read(&line, Finding.read)
            else { return nil }
            return Self.symbolicate(finding)
        }
    }

    /// Starts a thread that calls `say` with each new finding, and with whether the process is about to die of the
    /// finding. A faulting thread waits until `say` has returned: up to two seconds, or ten if the process is about to
    /// die. Call once per process.
    ///
    /// - Returns: the listener. Call its ``FindingListener/sayNew(isEnd:)`` before the process exits.
    package func onFinding(_ say: @escaping @Sendable (Finding, Bool) -> Void) -> FindingListener {
        let listener = FindingListener(runtime: self, say: say)
        let kept = Unmanaged.passRetained(listener)
        let result = zg_system_start_thread(
            "zguard-namer", { Unmanaged<FindingListener>.fromOpaque($0!).takeRetainedValue().listen() }, kept.toOpaque()
        )
        if result != 0 { kept.release() }
        return listener
    }

    package final class FindingListener: Sendable {
        private let runtime: GuardRuntime
        private let say: @Sendable (Finding, Bool) -> Void
        private let next: Mutex<UInt64>

        init(runtime: GuardRuntime, say: @escaping @Sendable (Finding, Bool) -> Void) {
            self.runtime = runtime
            self.say = say
            next = Mutex(runtime.findingNumbers.upperBound)
        }

        // If a finding cannot be read, `finding_is_said` is not called. The runtime then prints the finding of a fault
        // itself, without symbols.
        func listen() {
            while true {
                if sayNew(isEnd: runtime.table.await_finding()) { runtime.table.finding_is_said() }
            }
        }

        /// Reports the findings that were not reported yet. At the end of the process, the last finding is reported
        /// even if it was reported before.
        ///
        /// - Returns: false if a finding could not be read.
        @discardableResult package func sayNew(isEnd: Bool) -> Bool {
            next.withLock { next in
                let numbers = runtime.findingNumbers
                let first = isEnd ? min(next, max(numbers.upperBound, 1) - 1) : next
                let new = max(first, numbers.lowerBound)..<max(first, numbers.upperBound)
                next = new.upperBound
                var isComplete = true
                for number in new {
                    guard let finding = runtime.finding(number) else {
                        isComplete = false
                        continue
                    }
                    say(finding, isEnd && number == new.upperBound - 1)
                }
                return isComplete
            }
        }
    }

    /// Symbolicates a finding. Symbol files stay open.
    package static func symbolicate(_ finding: Finding) -> Finding {
        aside { symbolicator.withLock { $0.symbolicate(finding) } }
    }

    // MARK: Blocks

    func zombies(metadata: UInt64) -> [Address] {
        var starts: [Address] = []
        var cursor: UInt64 = 0
        while case let start = table.next_zombie(&cursor, metadata), start != 0 { starts.append(Address(start)) }
        return starts
    }

    /// The current or former block at an address; nil if the guarded heap has no record of one.
    func record(at address: Address) -> ZombieRecord? { aside { recordOfBlock(at: address) } }

    private func recordOfBlock(at address: Address) -> ZombieRecord? {
        guard let (block, stacks, freed) = describe(address) else { return nil }
        return ZombieRecord(
            className: block.className, property: block.isMethod ? nil : block.member, start: block.start,
            size: Int(clamping: block.size),
            offset: Int(clamping: Int64(bitPattern: address.rawValue &- block.start.rawValue)),
            state: block.state ?? "unknown", deallocationStack: stacks.free, allocationStack: stacks.alloc,
            deallocatingThread: block.freeingThread, allocatingThread: block.allocatingThread, deallocationTime: freed)
    }

    /// The live block that contains the address `place`, described as the holder of the pointer there; nil if no live
    /// block contains the address.
    package func referrer(at place: Address) -> Referrer? {
        aside {
            guard let (block, stacks, _) = describe(place), block.isLive else { return nil }
            return Referrer(
                className: block.className, property: block.isMethod ? nil : block.member, start: block.start,
                size: Int(clamping: block.size),
                offset: Int(clamping: Int64(bitPattern: place.rawValue &- block.start.rawValue)),
                allocationStack: stacks.alloc)
        }
    }

    func referrers(of address: Address) -> [Referrer] { aside { findReferrers(of: address) } }

    private func findReferrers(of address: Address) -> [Referrer] {
        guard let target = describe(address)?.block, target.isLive else { return [] }
        var referrers: [Referrer] = []
        var cursor: UInt64 = 0
        var place: UInt64 = 0
        while case let start = table.next_referrer(&cursor, target.start.rawValue, max(1, target.size), &place),
            start != 0
        {
            // Ignore a block that points to itself.
            if start == target.start.rawValue { continue }
            if let referrer = referrer(at: Address(place)) { referrers.append(referrer) }
        }
        return referrers
    }

    /// The runtime's JSON description of an address.
    private struct Description: JSONObject {
        /// A block, and when it was freed.
        struct TimedBlock: JSONObject {
            var block = Finding.Block.blank
            var freed: UInt64?

            static let blank = TimedBlock()
            static let fields = JSONFields<TimedBlock>(
                Finding.Block.fields.all.map { $0.within(\.block) } + [.optional("free_time_ns", \.freed)])
        }

        var timed = TimedBlock.blank
        var stacks = Finding.Stacks.blank

        static let blank = Description()
        static let fields = JSONFields<Description>([.needed("block", \.timed), .value("stacks", \.stacks)])
    }

    private func describe(_ address: Address) -> (block: Finding.Block, stacks: Finding.Stacks, freed: UInt64?)? {
        guard var text = text({ table.describe(address.rawValue, $0, $1) }),
            let description = try? JSONScanner.read(&text, Description.read)
        else { return nil }
        return Self.symbolicator.withLock { symbolicator in
            var unused = Finding.Access.unknown
            let free = description.stacks.free
            let block = symbolicator.finish(description.timed.block, freedBy: free, in: &unused)
            let stacks = Finding.Stacks(
                free: symbolicator.symbolicate(free), alloc: symbolicator.symbolicate(description.stacks.alloc))
            return (block, stacks, description.timed.freed)
        }
    }

    /// Calls a runtime function that writes a text; nil if there is no text. Grows the buffer as needed.
    private func text(_ write: (UnsafeMutablePointer<CChar>?, UInt64) -> UInt64) -> String? {
        var capacity = 16 << 10
        while true {
            var bytes = [CChar](repeating: 0, count: capacity)
            let length = bytes.withUnsafeMutableBufferPointer { write($0.baseAddress, UInt64($0.count)) }
            if length == 0 { return nil }
            if length <= capacity {
                return String(decoding: bytes.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            }
            capacity = Int(length)
        }
    }
}
